"""The one user of fcntl: a lock on a folder that other processes heed, and that leaves nothing."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.core.exhaustion import raise_exhaustion


@contextmanager
def held(folder: Path) -> Iterator[bool]:
    """Hold a folder while no other process does, as far as its file system can; tells if it can.

    A folder that is not there has no file in it that somebody could be changing.
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
