"""Ids by kind, and the source of new ones; the only file that makes randomness.

An id is a prefix and 26 base-32 characters: 48 bits of time and 80 bits of randomness. Ids of one
source rise strictly, also within one millisecond: 30 of the random bits are drawn once per
millisecond and then counted up, 50 are drawn for each id. No id can be guessed from others. A
forked child draws new randomness, because both processes would else create the same ids.

Proof: tests/core/test_ids.py.
"""

import os
import threading
import time
from collections.abc import Callable
from typing import NewType

LogId = NewType("LogId", str)
SessionId = NewType("SessionId", str)
"""`conv_…`; the log of a session has the same id."""
TaskId = NewType("TaskId", str)
MessageId = NewType("MessageId", str)
CallId = NewType("CallId", str)
"""`tc_…`: identifies a call that a model requested."""
QuestionId = NewType("QuestionId", str)
ArtifactId = NewType("ArtifactId", str)
BlobId = NewType("BlobId", str)
"""The SHA-256 of the bytes, in hexadecimal."""
ProfileId = NewType("ProfileId", str)
MediaId = NewType("MediaId", str)

ASSISTANT = "assistant"
"""The agent that every project has."""

NewId = Callable[[str], str]
"""Takes a prefix such as `conv`, returns an id that no other call returns."""

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_LETTER_OF = (_ALPHABET * 8).encode()
"""Translates each byte to a letter, which has 5 of its bits."""
_LETTERS = 10
"""Random letters that are drawn for each id."""
_BATCH_BYTES = 256 * _LETTERS
_LAST = (1 << 30) - 1
_TIME_BITS = 50


class IdSource:
    """Creates ids that rise strictly; safe to call from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._time = 0
        self._spelled_time = ""
        self._count = 0
        self._drawn, self._letters, self._at = b"", "", _BATCH_BYTES
        os.register_at_fork(after_in_child=self._forget)

    def __call__(self, prefix: str) -> str:
        """Return a new id with this prefix."""
        with self._lock:
            now = time.time_ns() // 1_000_000
            if now > self._time:
                self._begin(now)
            elif self._count == _LAST:
                self._begin(self._time + 1)
            self._count = count = self._count + 1
            at = self._at if self._at < _BATCH_BYTES else self._draw()
            self._at = end = at + _LETTERS
            random, spelled = self._letters[at:end], self._spelled_time
        counted = _PAIRS[count >> 20] + _PAIRS[count >> 10 & 1023] + _PAIRS[count & 1023]
        return f"{prefix}_{spelled}{counted}{random}"

    def _draw(self) -> int:
        """Draw letters for many ids; return the position of the first one."""
        # Each system call releases the interpreter lock to other threads, which costs more than all
        # the rest of an id.
        self._drawn = os.urandom(_BATCH_BYTES)
        self._letters = self._drawn.translate(_LETTER_OF).decode()
        return 0

    def _forget(self) -> None:
        """Discard randomness that the parent process has, too; the lock may be held there."""
        self._lock = threading.Lock()
        self._at = _BATCH_BYTES

    def _begin(self, now: int) -> None:
        """Format the time once for all ids of one millisecond, and restart the count."""
        self._time = now
        pairs = [_PAIRS[now >> shift & 1023] for shift in range(_TIME_BITS - 10, -1, -10)]
        self._spelled_time = "".join(pairs)
        at = self._at if self._at < _BATCH_BYTES else self._draw()
        self._at = at + _LETTERS
        self._count = int.from_bytes(self._drawn[at : at + 4]) >> 3


new_id: NewId = IdSource()
"""The source of this process."""


def new_secret() -> bytes:
    """Return 32 random bytes for use as a key."""
    return os.urandom(32)
