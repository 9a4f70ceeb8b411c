"""Locks on files of a project: reading, changing and writing back a file is one step.

A lock is held in this process and, where the system can, on the file's folder across processes.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from penstock.core.late import late

_COUNT = 64
"""A fixed number of locks for all files: nothing to clean up; two files may share one."""
_locks = tuple(threading.Lock() for _ in range(_COUNT))
_takeovers = tuple(threading.Lock() for _ in range(_COUNT))
_STATE = ".penstock"
"""No agent writes below it, so no `turn` locks it."""
Held = Callable[[Path], AbstractContextManager[Any]]
_held: Held = (
    late("penstock.resources.project.flock:held")
    if os.name == "posix"
    else lambda folder: nullcontext()
)


@contextmanager
def turn(root: Path, path: str) -> Iterator[bool]:
    """Lock a file against other writers of this process and, if possible, of other processes.

    Yields whether the folder is locked across processes. The path must contain no links. The lock
    is not reentrant.
    """
    whole = root / path
    with _locks[hash(str(whole)) % _COUNT], _held(whole.parent) as is_held:
        yield bool(is_held)


@contextmanager
def takeover(root: Path) -> Iterator[None]:
    """Lock a project against other takeovers; single files still have their own locks.

    Other processes are excluded if the project has a `.penstock` folder to lock.
    """
    with _takeovers[hash(str(root)) % _COUNT], _held(root / _STATE):
        yield
