"""Who changes a file of a project takes turns with others: what one reads, no other overwrites."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from penstock.core.late import late

_COUNT = 64
"""Files share so many locks: two of one lock wait for each other, and no lock is left behind."""
_locks = tuple(threading.Lock() for _ in range(_COUNT))
_takeovers = tuple(threading.Lock() for _ in range(_COUNT))
_STATE = ".penstock"
"""No agent changes a file in it, so no turn holds it."""
Held = Callable[[Path], AbstractContextManager[Any]]
_held: Held = (
    late("penstock.resources.project.flock:held")
    if os.name == "posix"
    else lambda folder: nullcontext()
)


@contextmanager
def turn(root: Path, path: str) -> Iterator[bool]:
    """Keep others from changing a file, in this process and, where the system can, in others.

    Yields whether it can: then nobody writes to any file of the same folder. The path has no links
    in it. It is not to be asked for again by who has it.
    """
    whole = root / path
    with _locks[hash(str(whole)) % _COUNT], _held(whole.parent) as is_held:
        yield bool(is_held)


@contextmanager
def takeover(root: Path) -> Iterator[None]:
    """Keep others from taking over many changes of a project; files still have their turns.

    Other processes are kept out if the project has a `.penstock` folder to lock.
    """
    with _takeovers[hash(str(root)) % _COUNT], _held(root / _STATE):
        yield
