"""Errors that say: this process, or its machine, has no file, process, thread or memory left.

Such an error says nothing about the work that met it, so accepted work waits instead of failing:
`agents/turn.py` waits before it asks a model again, and an activation releases its log, which the
launcher runs again (`engine/activation.py`). A wrapped error counts by its causes: HTTP clients and
drivers raise their own on top. `MemoryError` does not count: one value that is too large raises
it every time, and its task would never end.
"""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.core.errors import OutOfResources

WAIT_SECONDS = 0.5
"""How long work waits before it tries again."""
_NUMBERS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS}
_NO_THREAD = "can't start new thread"
_MOST_CAUSES = 32


def exhaustion_of(error: BaseException) -> OutOfResources | None:
    """Return what an error means if it, or a cause of it, is a lack of resources."""
    for each in _causes(error):
        if isinstance(each, OutOfResources):
            return each
        is_known = isinstance(each, OSError) and each.errno in _NUMBERS
        is_thread = isinstance(each, RuntimeError) and str(each).startswith(_NO_THREAD)
        # getaddrinfo has numbers of its own, and says "try again" for want of a socket
        is_name = isinstance(each, socket.gaierror) and is_out_of_files()
        if (is_known and not isinstance(each, socket.gaierror)) or is_thread or is_name:
            return OutOfResources(f"{OutOfResources.__doc__} {type(each).__name__}: {each}")
    return None


def raise_exhaustion(error: Exception) -> None:
    """Raise OutOfResources from an error that means it; else return, for the error to be judged."""
    if (lack := exhaustion_of(error)) is not None:
        raise lack from error


@contextmanager
def starting_process() -> Iterator[None]:
    """Raise OutOfResources if there is no process left to start one, or no file for its pipes.

    It is marked as `is_unstarted`. For want of a process the system says EAGAIN, which
    `exhaustion_of` cannot count: of a socket it means "not yet".
    """
    try:
        yield
    except OSError as error:
        if not isinstance(error, BlockingIOError) and exhaustion_of(error) is None:
            raise
        lack = OutOfResources(f"No process can be started for now. Try again soon. {error}")
        lack.is_unstarted = True
        raise lack from error


def is_out_of_files() -> bool:
    """Try whether another file can be opened."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno in _NUMBERS
    return False


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, what it was raised from, and the members of groups, each once."""
    waiting, seen = [error], set[int]()
    while waiting and len(seen) < _MOST_CAUSES:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions
        # `raise … from None` hides what happened from readers, not from here: the connection pool
        # of httpcore2 does that with every error, and so with the one that names the lack
        own = each.__context__ if each.__cause__ is None else each.__cause__
        if own is not None:
            waiting.append(own)
