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
ScheduleId = NewType("ScheduleId", str)
"""`sched_…`, or the id in the file of the schedule."""

ASSISTANT = "assistant"
"""The agent that every project has."""

UNDO = "undo"
"""Begins the ids of undos, and is in the place of their tool."""


def undo_id(task_id: TaskId, number: int) -> TaskId:
    """Return the id of the n-th undo of a task, which is the id of its log, too."""
    return TaskId(f"{UNDO}_{task_id}" if number == 1 else f"{UNDO}_{task_id}.{number}")


RETRY = "retry"
"""Begins the ids of retries."""


def retry_id(task_id: TaskId, number: int) -> TaskId:
    """Return the id of the n-th retry of a task."""
    return TaskId(f"{RETRY}_{task_id}" if number == 1 else f"{RETRY}_{task_id}.{number}")


def retried(task_id: TaskId) -> TaskId | None:
    """Return the task that a task is a retry of; None if it is none."""
    begin, _, rest = task_id.partition("_")
    return TaskId(rest.partition(".")[0]) if begin == RETRY and rest else None


NewId = Callable[[str], str]
"""Takes a prefix such as `conv`, returns an id that no other call returns."""

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_LETTER_OF = (_ALPHABET * 8).encode()
"""Translates each byte to a letter, which has 5 of its bits."""
_LETTERS = 10
"""Random letters that are drawn for each id."""
_BATCH_BYTES = 256 * _LETTERS
_PAIR_BITS = 10
_LAST_PAIR = (1 << _PAIR_BITS) - 1
_HIGH_BITS = 20
_TIME_BITS = 50
_MILLISECOND = 1_000_000
"""In nanoseconds."""


class IdSource:
    """Creates ids that rise strictly; safe to call from any thread."""

    def __init__(self, now: Callable[[], int] = time.time_ns) -> None:
        self._now = now
        """Returns the nanoseconds since 1970."""
        self._lock = threading.Lock()
        self._time = self._next = 0
        """The millisecond of the newest id, and the nanosecond at which the one after it begins."""
        self._spelled_time = ""
        self._high = self._low = 0
        """The upper 20 and the lower 10 bits of the count."""
        self._head = ""
        """The letters of the time and of the upper bits: they change after 1,024 ids."""
        self._drawn, self._random = b"", list[str]()
        os.register_at_fork(after_in_child=self._forget)

    def __call__(self, prefix: str) -> str:
        """Return a new id with this prefix."""
        with self._lock:
            if (now := self._now()) >= self._next:
                self._begin(now // _MILLISECOND)
            elif self._low == _LAST_PAIR:
                self._carry()
            self._low = low = self._low + 1
            if not self._random:
                self._draw()
            return f"{prefix}_{self._head}{_PAIRS[low]}{self._random.pop()}"

    def _draw(self) -> None:
        """Draw the letters of many ids."""
        # Each system call releases the interpreter lock to other threads, which costs more than all
        # the rest of an id.
        self._drawn = os.urandom(_BATCH_BYTES)
        letters = self._drawn.translate(_LETTER_OF).decode()
        self._random = [letters[at : at + _LETTERS] for at in range(0, _BATCH_BYTES, _LETTERS)]

    def _forget(self) -> None:
        """Discard randomness that the parent process has, too; the lock may be held there."""
        self._lock = threading.Lock()
        self._random = []

    def _begin(self, now: int) -> None:
        """Format the time once for all ids of one millisecond, and restart the count."""
        self._time, self._next = now, (now + 1) * _MILLISECOND
        shifts = range(_TIME_BITS - _PAIR_BITS, -1, -_PAIR_BITS)
        self._spelled_time = "".join([_PAIRS[now >> shift & _LAST_PAIR] for shift in shifts])
        if not self._random:
            self._draw()
        self._random.pop()  # its bytes start the count, so they are in no id
        at = _LETTERS * len(self._random)
        # 29 of 30 bits: the count never starts so late that few ids are left.
        start = int.from_bytes(self._drawn[at : at + 4]) >> 3
        self._low = start % _LAST_PAIR  # not the last one: each id adds one before it reads it
        self._set_high(start >> _PAIR_BITS)

    def _carry(self) -> None:
        """Go on with the upper bits of the count, or with the next millisecond."""
        if self._high + 1 == 1 << _HIGH_BITS:
            self._begin(self._time + 1)
            return
        self._low = -1
        self._set_high(self._high + 1)

    def _set_high(self, high: int) -> None:
        self._high = high
        self._head = self._spelled_time + _PAIRS[high >> _PAIR_BITS] + _PAIRS[high & _LAST_PAIR]


new_id: NewId = IdSource()
"""The source of this process."""


def new_secret() -> bytes:
    """Return 32 random bytes for use as a key."""
    return os.urandom(32)
