"""Names of things that happen: ids by kind, and the source of new ones."""

import os
import threading
import time
from collections.abc import Callable
from typing import NewType

LogId = NewType("LogId", str)
SessionId = NewType("SessionId", str)
"""`conv_…`; a session's log has the same id."""
TaskId = NewType("TaskId", str)
MessageId = NewType("MessageId", str)
CallId = NewType("CallId", str)
"""`tc_…`: the wire's name of a call that a model asked for."""
QuestionId = NewType("QuestionId", str)
ArtifactId = NewType("ArtifactId", str)
BlobId = NewType("BlobId", str)
"""The SHA-256 of the bytes, in hex."""
ProfileId = NewType("ProfileId", str)
MediaId = NewType("MediaId", str)

ASSISTANT = "assistant"
"""The agent that every project has."""

NewId = Callable[[str], str]
"""Takes a prefix such as `conv`, returns an id that no other call returns."""

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_LETTER_OF = (_ALPHABET * 8).encode()
"""Each byte as a letter, which is 5 bits of it."""
_LETTERS = 10
"""Of new chance in each id."""
_DRAWN_AT_ONCE = 256 * _LETTERS
_LAST = (1 << 30) - 1
_TIME_BITS = 50


class IdSource:
    """Makes ids: a prefix and 26 base-32 characters, 48 bits of time and 80 of chance.

    Ids of one source rise strictly, also within one millisecond: 30 bits are counted on in it from
    a chance, 50 are new in each. Chance is drawn for many ids at once: to ask the system gives
    other threads the interpreter, and costs more than all the rest.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._time = 0
        self._spelled_time = ""
        self._count = 0
        self._drawn, self._letters, self._at = b"", "", _DRAWN_AT_ONCE
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
            at = self._draw()
            chance, spelled = self._letters[at : at + _LETTERS], self._spelled_time
        counted = _PAIRS[count >> 20] + _PAIRS[count >> 10 & 1023] + _PAIRS[count & 1023]
        return f"{prefix}_{spelled}{counted}{chance}"

    def _draw(self) -> int:
        """Return where the next chance stands that nobody can guess."""
        at = self._at
        if at == _DRAWN_AT_ONCE:
            self._drawn = os.urandom(_DRAWN_AT_ONCE)
            self._letters = self._drawn.translate(_LETTER_OF).decode()
            at = 0
        self._at = at + _LETTERS
        return at

    def _forget(self) -> None:
        """Draw anew: two processes must not share their chance."""
        self._lock = threading.Lock()
        self._at = _DRAWN_AT_ONCE

    def _begin(self, now: int) -> None:
        """Spell the time once for all ids of one millisecond, and begin to count."""
        self._time = now
        pairs = [_PAIRS[now >> shift & 1023] for shift in range(_TIME_BITS - 10, -1, -10)]
        self._spelled_time = "".join(pairs)
        at = self._draw()
        self._count = int.from_bytes(self._drawn[at : at + 4]) >> 3


new_id: NewId = IdSource()
"""The source of this process."""


def new_secret() -> bytes:
    """Return 32 bytes that nobody can guess."""
    return os.urandom(32)
