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
_DRAWN_AT_ONCE = 256
_RANDOM_BITS = 80
_TIME_BITS = 50


class IdSource:
    """Makes ids: a prefix and 26 base-32 characters, 48 bits of time and 80 of chance.

    Ids of one source rise strictly, also within one millisecond. Chance is drawn for many ids at
    once: to ask the system gives other threads the interpreter, and costs more than all the rest.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._time = 0
        self._spelled_time = ""
        self._chance = 0
        self._drawn: list[int] = []
        os.register_at_fork(after_in_child=self._forget)

    def __call__(self, prefix: str) -> str:
        """Return a new id with this prefix."""
        with self._lock:
            now = time.time_ns() // 1_000_000
            if now > self._time:
                chance = self._draw() << 7
                self._begin(now)
            else:
                chance = self._chance + 1 + (self._draw() >> 32)
                if chance >> _RANDOM_BITS:
                    chance &= (1 << _RANDOM_BITS) - 1
                    self._begin(self._time + 1)
            self._chance = chance
            spelled = self._spelled_time
        of = _PAIRS
        return (
            f"{prefix}_{spelled}"
            f"{of[chance >> 70]}{of[chance >> 60 & 1023]}{of[chance >> 50 & 1023]}"
            f"{of[chance >> 40 & 1023]}{of[chance >> 30 & 1023]}{of[chance >> 20 & 1023]}"
            f"{of[chance >> 10 & 1023]}{of[chance & 1023]}"
        )

    def _draw(self) -> int:
        """Return 72 bits that nobody can guess."""
        if not self._drawn:
            fresh = os.urandom(9 * _DRAWN_AT_ONCE)
            self._drawn = [int.from_bytes(fresh[at : at + 9]) for at in range(0, len(fresh), 9)]
        return self._drawn.pop()

    def _forget(self) -> None:
        """Draw anew: two processes must not share their chance."""
        self._lock = threading.Lock()
        self._drawn = []

    def _begin(self, now: int) -> None:
        """Spell the time once for all ids of one millisecond."""
        self._time = now
        pairs = [_PAIRS[now >> shift & 1023] for shift in range(_TIME_BITS - 10, -1, -10)]
        self._spelled_time = "".join(pairs)


new_id: NewId = IdSource()
"""The source of this process."""


def new_secret() -> bytes:
    """Return 32 bytes that nobody can guess."""
    return os.urandom(32)
