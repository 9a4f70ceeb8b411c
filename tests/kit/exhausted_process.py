"""A process that has no file descriptor, thread or process left."""

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_NOBODY = 65534
_STANDARD_STREAMS = 3
"""Descriptors that every process has open: stdin, stdout and stderr."""
_TOO_MUCH = 1 << 46
"""Bytes of a stack that no machine gives to a thread."""


@contextmanager
def no_files_left() -> Iterator[None]:
    """Refuse new descriptors; open ones stay open.

    To fill the table of files is not enough: a descriptor that another test left to a thread or to
    the garbage collector may be closed, and so be free, in the middle of the block.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_STANDARD_STREAMS, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def open_files() -> set[int]:
    """Return the descriptors of this process, but for the one that looks."""
    return {number for number in range(4096) if _is_open(number)}


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


@contextmanager
def files_left(count: int) -> Iterator[None]:
    """Limit the descriptors that can be opened at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(open_files())
    filled = list[int]()
    while not filled or filled[-1] < highest:
        filled.append(os.open(os.devnull, os.O_RDONLY))
    resource.setrlimit(resource.RLIMIT_NOFILE, (filled[-1] + 1 + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in filled:
            os.close(descriptor)


@contextmanager
def no_threads_left() -> Iterator[None]:
    """Refuse new threads; running ones continue."""
    usual = threading.stack_size(_TOO_MUCH)
    try:
        yield
    finally:
        threading.stack_size(usual)


def allow_no_process() -> None:
    """Refuse new processes for the life of this one; root would not be limited."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
