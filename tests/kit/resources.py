"""A process that has no file descriptor, thread or process left."""

import gc
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_NOBODY = 65534
_TOO_MUCH = 1 << 46
"""Bytes of a stack that no machine gives to a thread."""


@contextmanager
def no_files_left() -> Iterator[None]:
    """Take every descriptor there is; what is open stays open."""
    gc.collect()  # sockets of earlier tests would be closed, and their descriptors free, meanwhile
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.open(os.devnull, os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(taken) + 1, hard))
    try:
        while True:
            try:
                taken.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in taken:
            os.close(each)


@contextmanager
def no_threads_left() -> Iterator[None]:
    """Let no thread start; those that run go on."""
    usual = threading.stack_size(_TOO_MUCH)
    try:
        yield
    finally:
        threading.stack_size(usual)


def allow_no_process() -> None:
    """Let this process start no other for the rest of its life; root would not be bounded."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
