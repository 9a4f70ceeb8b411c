"""Recognises errors that mean: no free file descriptor, process, thread or memory, or a full disk.

Such an error is not caused by the work that raised it, so accepted work waits instead of failing:
`agents/turn.py` waits before it asks a model again, and an activation releases its log, which the
launcher runs again (`engine/activation.py`). The causes of an error are checked, too, because HTTP
clients and drivers wrap the original one. `MemoryError` does not count: a value that is too large
raises it every time, so its task would never end. Nor does a full disk: waiting frees no space, so
it is an error of the store.

Proof: tests/core/test_exhaustion.py.
"""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.core.errors import OutOfResources, StoreError, StoreFull, StoreReadOnly

WAIT_SECONDS = 0.5
"""The wait before another attempt."""
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""No space on a disk, or none within the quota of this user."""
_NUMBERS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS}
_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NO_THREAD = "can't start new thread"
_MAX_CAUSES = 32


def exhaustion_of(error: BaseException) -> OutOfResources | None:
    """Return OutOfResources if the error, or one of its causes, is a lack of resources."""
    for cause in _causes(error):
        if isinstance(cause, OutOfResources):
            return cause
        is_known = isinstance(cause, OSError) and cause.errno in _NUMBERS
        is_thread = isinstance(cause, RuntimeError) and str(cause).startswith(_NO_THREAD)
        # getaddrinfo has its own error numbers, and reports "try again" if it gets no socket
        is_name = isinstance(cause, socket.gaierror) and is_out_of_files()
        if (is_known and not isinstance(cause, socket.gaierror)) or is_thread or is_name:
            return OutOfResources(f"{OutOfResources.__doc__} {type(cause).__name__}: {cause}")
    return None


def raise_exhaustion(error: Exception) -> None:
    """Raise OutOfResources if the error means a lack of resources; else return."""
    if (exhaustion := exhaustion_of(error)) is not None:
        raise exhaustion from error


@contextmanager
def starting_process() -> Iterator[None]:
    """Raise OutOfResources with `is_unstarted` if the block cannot start a process.

    The system reports EAGAIN if no process is left. `exhaustion_of` cannot count EAGAIN, because
    for a socket it means "not ready yet".
    """
    try:
        yield
    except OSError as error:
        if not isinstance(error, BlockingIOError) and exhaustion_of(error) is None:
            raise
        exhaustion = OutOfResources(f"No process can be started now. Try again soon. {error}")
        exhaustion.is_unstarted = True
        raise exhaustion from error


def is_out_of_files() -> bool:
    """Whether opening another file fails."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno in _NUMBERS
    return False


def is_full(error: BaseException | None) -> bool:
    """Whether the disk, or the quota of this user, is full."""
    return isinstance(error, OSError) and error.errno in FULL


def disk_failure(error: OSError, message: str) -> StoreError:
    """Return the failure for an error of the disk; the message names what could not be done."""
    if (exhaustion := exhaustion_of(error)) is not None:
        return exhaustion
    kind = StoreFull if is_full(error) else StoreReadOnly
    return kind(f"{message}: {error.strerror or error}")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, its causes, and the members of groups, each once."""
    remaining, seen = [error], set[int]()
    while remaining and len(seen) < _MAX_CAUSES:
        current = remaining.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        if isinstance(current, BaseExceptionGroup):
            remaining += current.exceptions
        # `raise … from None` hides the cause from readers, but `__context__` still has it: the
        # connection pool of httpcore2 does this with every error
        cause = current.__context__ if current.__cause__ is None else current.__cause__
        if cause is not None:
            remaining.append(cause)


# ---- folders and buckets of blobs ----


def blob_failure(error: Exception) -> StoreError:
    """Return the error of the store for an error of a folder or a bucket."""
    if (exhaustion := exhaustion_of(error)) is not None:
        return exhaustion
    message, number = brief(error), error.errno if isinstance(error, OSError) else None
    # libraries of buckets report the errors of a disk as text, without an errno
    if number in FULL or "No space left" in message or "quota" in message.lower():
        return StoreFull(f"no space is left for blobs; nothing was lost: {message}")
    refused = number in _REFUSED or isinstance(error, PermissionError)
    if refused or "Read-only" in message or "Permission" in message:
        return StoreReadOnly(f"the blobs cannot be written: {message}")
    return StoreError(f"the blobs cannot be reached: {message}")


def brief(error: Exception) -> str:
    """Return the first line of a message: some libraries append their own data structures."""
    return str(error).partition("\n")[0]
