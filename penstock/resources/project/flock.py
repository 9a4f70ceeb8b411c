"""A lock on a folder across processes (`flock`); it leaves no lock file behind."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.core.exhaustion import raise_exhaustion


@contextmanager
def held(folder: Path) -> Iterator[bool]:
    """Lock a folder across processes; yields whether its file system can.

    A missing folder is not locked: it has no file to protect.
    """
    try:
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise_exhaustion(error)  # else two processes could change one file at once
        yield False
        return
    is_held = False
    try:
        with suppress(OSError):
            fcntl.flock(place, fcntl.LOCK_EX)
            is_held = True
        yield is_held
    finally:
        if is_held:
            fcntl.flock(place, fcntl.LOCK_UN)
        os.close(place)
