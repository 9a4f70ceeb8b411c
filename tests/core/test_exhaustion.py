"""Which errors say that the process has nothing left for now, and which say something else."""

import errno
import os
import socket
import threading

import httpx2
import pytest

from penstock.core.errors import OutOfResources, StoreError, StoreFull, StoreReadOnly
from penstock.core.exhaustion import (
    disk_failure,
    exhaustion_of,
    is_full,
    is_out_of_files,
    raise_exhaustion,
    starting_process,
)
from tests.kit.exhausted_process import no_files_left, no_threads_left

NO_FILE = OSError(errno.EMFILE, "Too many open files")


def raised_from(cause: BaseException) -> Exception:
    """Return an error that was raised because of another."""
    top = ValueError("on top")
    top.__cause__ = cause
    return top


def handling(cause: BaseException, *, hidden: bool = False) -> Exception:
    """Return an error that was raised while another was handled, perhaps `from None`."""
    top = ValueError("on top")
    top.__context__ = cause
    top.__suppress_context__ = hidden
    return top


LACKS = [
    NO_FILE,
    OSError(errno.ENFILE, "Too many open files in system"),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
    OSError(errno.ENOBUFS, "No buffer space available"),
    RuntimeError("can't start new thread"),
    raised_from(NO_FILE),
    raised_from(raised_from(NO_FILE)),
    handling(NO_FILE),
    handling(NO_FILE, hidden=True),
    ExceptionGroup("all attempts failed", [ConnectionRefusedError(), raised_from(NO_FILE)]),
    OutOfResources(),
]
OTHERS = [
    OSError(errno.ENOENT, "No such file"),
    BlockingIOError(errno.EAGAIN, "a socket has nothing yet, or no process can be started"),
    OSError("no number"),
    RuntimeError("can't"),
    MemoryError(),
    StoreFull(),
    socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
    ExceptionGroup("all attempts failed", [ConnectionRefusedError()]),
]


@pytest.mark.parametrize("error", LACKS, ids=repr)
def test_a_lack_is_found_among_the_causes(error: Exception) -> None:
    assert isinstance(exhaustion_of(error), OutOfResources)
    with pytest.raises(OutOfResources):
        raise_exhaustion(error)


@pytest.mark.parametrize("error", OTHERS, ids=repr)
def test_other_errors_are_not_exhaustion(error: Exception) -> None:
    assert exhaustion_of(error) is None
    raise_exhaustion(error)


def test_only_where_a_process_starts_does_eagain_mean_that_none_is_left() -> None:
    with pytest.raises(OutOfResources, match="No process can be started"), starting_process():
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
    with pytest.raises(FileNotFoundError), starting_process():
        raise FileNotFoundError


def test_a_cycle_of_causes_ends() -> None:
    one, other = ValueError(), ValueError()
    one.__cause__, other.__cause__ = other, one
    assert exhaustion_of(one) is None


def test_errors_of_the_system_are_exhaustion() -> None:
    with no_files_left():
        assert is_out_of_files()
        for begin in (socket.socket, os.pipe, lambda: socket.getaddrinfo("localhost", 80)):
            with pytest.raises(OSError) as raised:  # noqa: PT011  its number is asked for below
                begin()
            assert exhaustion_of(raised.value) is not None
        unnamed = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        assert exhaustion_of(unnamed) is not None
    assert not is_out_of_files()
    with no_threads_left(), pytest.raises(RuntimeError) as refused:
        threading.Thread(target=int).start()
    assert exhaustion_of(refused.value) is not None


async def test_a_client_that_cannot_open_a_socket_raises_out_of_files() -> None:
    """The pool of the HTTP client raises its errors `from None`."""
    async with httpx2.AsyncClient() as client:
        with no_files_left(), pytest.raises(httpx2.ConnectError) as raised:
            await client.get("http://127.0.0.1:9/")
    assert isinstance(exhaustion_of(raised.value), OutOfResources)


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, StoreFull),
        (errno.EDQUOT, StoreFull),
        (errno.EACCES, StoreReadOnly),
        (errno.EMFILE, OutOfResources),
    ],
)
def test_an_error_of_the_disk_is_not_an_error_of_the_request(
    number: int, kind: type[StoreError]
) -> None:
    error = OSError(number, os.strerror(number))
    assert type(disk_failure(error, "it cannot be made")) is kind
    assert is_full(error) is (kind is StoreFull)
    assert not is_full(None)
