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

NewId = Callable[[str], str]
"""Takes a prefix such as `conv`, returns an id that no other call returns."""

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_RANDOM_BITS = 80


class IdSource:
    """Makes ids: a prefix and 26 base-32 characters, 48 bits of time and 80 of chance.

    Ids of one source rise strictly, also within one millisecond.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def __call__(self, prefix: str) -> str:
        """Return a new id with this prefix."""
        with self._lock:
            now = (time.time_ns() // 1_000_000) << _RANDOM_BITS
            if now <= self._last:
                value = self._last + 1 + int.from_bytes(os.urandom(5))
            else:
                value = now | int.from_bytes(os.urandom(9)) << 7
            self._last = value
        pairs = _PAIRS
        digits = [pairs[(value >> shift) & 1023] for shift in range(120, -1, -10)]
        return f"{prefix}_{''.join(digits)}"


new_id: NewId = IdSource()
"""The source of this process."""


def new_secret() -> bytes:
    """Return 32 bytes that nobody can guess."""
    return os.urandom(32)
