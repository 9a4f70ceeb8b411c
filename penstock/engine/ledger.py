"""The calls of one task: each is settled once, at any depth, across any number of restarts.

Guarantees: a call with a recorded outcome never runs again; a write that a crash interrupted is not
run again unless its tool is idempotent; a call that waited for a person or another call is entered
again from its top, and its inner calls replay from the log (docs/decisions/003).

How: a call's identity is its path: the parent's path, the tool, a keyed hash of the input, and a
counter for equal calls (docs/decisions/001). So it depends on place and content, never on the order
of arrival, and a restarted script finds its outcomes again. `start` commits CallStarted before a
write runs; on the next entry, `_waited` decides from the log whether the call waited or was cut.

Relies on: HeldLog writes events in order; everything here is a fold of the log, so a restart gives
the same answers. The key stays the same for the life of a log: with another key every path and
idempotency key would change. A function must reach its inner calls in the same way on each entry.

Shown by tests/engine/test_ledger.py and, with kills at every event, tests/journeys.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Awaitable
from copy import copy
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter
from typing import Any

from penstock.core.call import Call, CallPath, is_below
from penstock.core.call_errors import Interrupted
from penstock.core.clock import Moment
from penstock.core.events.child_events import Join
from penstock.core.events.events import (
    CallRetried,
    CallSettled,
    CallStarted,
    Event,
    NoteEmitted,
    ParkedCall,
    QuestionAnswered,
    QuestionAsked,
    StateWritten,
)
from penstock.core.ids import ProfileId
from penstock.core.json_values.json_text import canonical
from penstock.core.stored.changes import Change
from penstock.core.task import Question, QuestionStatus
from penstock.engine.budget import Budget
from penstock.engine.held_log import HeldLog
from penstock.engine.task_state import TaskState

_ATTEMPT = re.compile(r"~\d+")
"""The suffix in a path that marks calls of a later attempt."""
_UNFIT = re.compile(r"[/#~\x00-\x1f\ud800-\udfff]")
"""Characters that would split a path or that databases refuse: models invent any tool name."""


@lru_cache(maxsize=8)
def _keyed(key: bytes) -> blake2b:
    """Return the hash of paths before its message. To copy it takes a third of making it."""
    return blake2b(digest_size=8, key=key)


class Occurrences:
    """Numbers equal calls under one parent, during one entry of the parent."""

    __slots__ = ("_key", "_parent", "_seen")

    def __init__(self, parent: str, key: bytes) -> None:
        self._parent = parent
        self._key = key
        self._seen: dict[str, int] = {}

    def path(self, tool_id: str, input: Any, text: str | None = None) -> CallPath:
        """Return the path of the next call of a tool.

        `text` is the canonical JSON of the input, if the caller has it, or what a model wrote in
        place of JSON.
        """
        text = canonical(input) if text is None else text
        shown = tool_id if tool_id.isidentifier() else _UNFIT.sub("_", tool_id)
        message = f"{tool_id}\n{text}".encode("utf-8", "surrogatepass")
        digest = _keyed(self._key).copy()
        digest.update(message)
        name = f"{shown}#{digest.hexdigest()}"
        self._seen[name] = occurrence = self._seen.get(name, 0) + 1
        ending = "" if occurrence == 1 else f".{occurrence}"
        return CallPath(f"{self._parent}/{name}{ending}")

    def counted(self) -> dict[str, int]:
        """Return a snapshot of the counters."""
        return dict(self._seen)

    def go_back(self, counted: dict[str, int]) -> None:
        """Restore a snapshot, because the following calls are repeated."""
        self._seen = dict(counted)


class Ledger:
    """Reads and records the calls and questions of one task."""

    __slots__ = ("_key", "budget", "claims", "held", "open_step", "task", "turns")

    def __init__(self, held: HeldLog, task: TaskState, budget: Budget, key: bytes) -> None:
        self.held = held
        self.task = task
        self.budget = budget
        """Limits of the task, including everything that its calls start."""
        self._key = key
        self.turns: defaultdict[CallPath, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Locks of detached calls: several callers may resume such a call, one at a time."""
        self.claims: defaultdict[str, set[str]] = defaultdict(set)
        """Amounts of limited resources that running calls have claimed, by the resource's name."""
        self.open_step: list[CallPath] = []
        """The call that has a step open; a task has at most one."""
        if task.waits.children and held.trees is not None:
            held.trees.bind(task, budget)

    def with_budget(self, budget: Budget) -> "Ledger":
        """Return this ledger for a part of its task, which has a budget of its own."""
        part = copy(self)
        part.budget = budget
        return part

    def find(self, path: CallPath) -> CallSettled | None:
        """Return the recorded outcome of the call, if it has one."""
        return self.task.settled.get(path)

    def occurrences(self, parent: str) -> Occurrences:
        """Return new counters for a parent that is being entered."""
        return Occurrences(parent, self._key)

    def idempotency_key(self, path: CallPath) -> str:
        """Return the key of a call; it is the same for all attempts and after restarts."""
        # All attempts of a call share the key, so that the receiver can recognize a retry.
        plain = _ATTEMPT.sub("", path) if "~" in path else path
        return blake2b(plain.encode(), digest_size=16, key=self._key).hexdigest()

    def seed(self, path: CallPath) -> bytes:
        """Return the 32-byte random seed of a call, which is the same in each entry.

        A script that draws random numbers must make the same calls again when it is replayed.
        """
        return blake2b(path.encode(), digest_size=32, key=self._key, person=b"seed").digest()

    def pseudonym(self, profile_id: ProfileId) -> str:
        """Return an id of a profile for providers of models.

        It is the same in each task of this project, tells nothing about the profile, and differs
        from that of any other project.
        """
        name = profile_id.encode()
        return blake2b(name, digest_size=16, key=self._key, person=b"model user").hexdigest()

    def start(self, call: Call, *, again: bool) -> Awaitable[None]:
        """Commit that a write is about to run; await the result before it runs.

        `again` allows a second run after a crash (idempotent tools). Raises Interrupted if an
        earlier entry was cut by a crash. A call that only waited for something inside itself is
        entered again from its top.
        """
        path = call.path
        last_entry = self.task.entered.get(path)
        if last_entry is not None and not again and not self._waited(path, last_entry):
            raise Interrupted(
                f'"{call.tool_id}" was cut when the process stopped, or its disk failed: '
                "it may or may not have happened",
                suggestion="Find out whether it happened before you try it again.",
            )
        key = self.idempotency_key(path)
        self.add(CallStarted(tool_id=call.tool_id, idempotency_key=key), path)
        return self.held.commit_and_make_sure()

    def settle(self, path: CallPath, settled: CallSettled, *, is_awaited: bool = False) -> None:
        """Record the outcome of a call. It is written before any event added after it.

        Pass `is_awaited=True` if you commit next: that commit also writes this event.
        """
        self.held.add(settled, self.task.task_id, path)
        if is_awaited:
            return
        # Calls of scripts carry a clock and come in bursts; collecting them for 2 ms saves writes.
        if settled.clock_ms is None:
            self.held.submit_soon()
        else:
            self.held.submit_later()

    async def change(self, path: CallPath, settled: CallSettled, change: Change) -> CallSettled:
        """Record a call and apply its change in one transaction; return the final outcome.

        The outcome is committed when this returns. If the change cannot be applied, the call fails.
        Raises LeaseLost with nothing changed.
        """
        self.held.add_change(settled, change, self.task.task_id, path)
        await self.held.commit()
        return self.task.settled[path]

    def retry(self, path: CallPath, event: CallRetried) -> None:
        """Record that an attempt failed and will be repeated."""
        self.add(event, path)

    def park(self, path: CallPath, *, attempt: int, seconds: float, computed_ms: int = 0) -> None:
        """Record that an attempt waits, after `seconds` of work in this entry.

        Written when the task is suspended; a crash before that loses it.
        """
        active_ms = self.active_ms(path, attempt) + round(1000 * seconds)
        self.task.own_waits().parked[path] = ParkedCall(
            path,
            active_ms,
            attempt,
            self.entry(path),
            computed_ms=self.computed_ms(path, attempt) + computed_ms,
        )

    def attempt(self, path: CallPath) -> tuple[int, int]:
        """Return the attempt to resume, from 1, and how many milliseconds it has worked."""
        parked = self.task.waits.parked.get(path)
        return (1, 0) if parked is None else (parked.attempt, parked.active_ms)

    def active_ms(self, path: CallPath, attempt: int) -> int:
        """Return the milliseconds that an attempt worked before it waited; 0 if it did not wait."""
        parked = self.task.waits.parked.get(path)
        return parked.active_ms if parked is not None and parked.attempt == attempt else 0

    def computed_ms(self, path: CallPath, attempt: int) -> int:
        """Return the milliseconds of script time that an attempt used before it waited."""
        parked = self.task.waits.parked.get(path)
        return parked.computed_ms if parked is not None and parked.attempt == attempt else 0

    def entry(self, path: CallPath) -> int:
        """Return the number of this entry, from 1. Crashed entries count only for writes."""
        parked = self.task.waits.parked.get(path)
        return max(1 if parked is None else parked.entries + 1, self.task.entries.get(path, 0))

    def arrivals(self, path: CallPath) -> list[QuestionAnswered | Join]:
        """Return the answers to a call and its code, and its waits that are over, newest first."""
        waits = self.task.waits
        arrived: list[tuple[int, QuestionAnswered | Join]] = [
            *((waits.asked[at], each) for at, each in waits.answers.items() if _is_of(at, path)),
            *(each for at, each in waits.met.items() if _is_of(at, path)),
        ]
        return [each for _, each in sorted(arrived, key=itemgetter(0), reverse=True)]

    def answer_to(self, path: CallPath) -> QuestionAnswered | None:
        """Return the answer to the question that this call asked, if there is one.

        An answer counts only for frames that were entered after it arrived. Otherwise the log could
        not tell a write that still waited from one that continued with the answer and was cut.
        """
        task = self.task
        if path not in task.waits.answers:
            return self._answer_before(path)
        answered_at = task.waits.asked[path]
        earlier = (frame for frame, tick in task.entered.items() if tick < answered_at)
        if any(is_below(path, frame) and frame not in task.settled for frame in earlier):
            return None
        return task.waits.answers[path]

    def is_asked(self, path: CallPath) -> bool:
        """Return whether the call has asked its question, answered or not."""
        return path in self.task.waits.asked

    async def ask(self, question: Question) -> None:
        """Record a question. It is committed and open when this returns."""
        self.add(QuestionAsked(question=question), question.path)
        await self.held.commit()

    def note(self, path: CallPath | None, note: NoteEmitted) -> None:
        """Record an event that a tool's author emits."""
        self.add(note, path)

    def value(self, tool_id: str, key: str, now: Moment) -> StateWritten | None:
        """Return a value that a tool stored in this task, unless it has expired."""
        written = self.task.records.values.get((tool_id, key))
        if written is None or (written.expires_at is not None and written.expires_at <= now):
            return None
        return written

    def put(self, path: CallPath, written: StateWritten) -> None:
        """Record a value that a tool stores in its state."""
        self.add(written, path)

    def add(self, event: Event, path: CallPath | None = None) -> None:
        """Add an event of this task. It is written before any event added after it."""
        self.held.add(event, self.task.task_id, path)

    def _answer_before(self, path: CallPath) -> QuestionAnswered | None:
        """Return the answer to the same question in an earlier attempt of the call."""
        plain = _ATTEMPT.sub("", path)
        if plain == path or not self.task.waits.answers:
            return None
        for asked_at, answered in self.task.waits.answers.items():
            is_answer = answered.status is QuestionStatus.ANSWERED
            if is_answer and _ATTEMPT.sub("", asked_at) == plain:
                return answered
        return None

    def _waited(self, path: CallPath, last_entry: int) -> bool:
        """Return whether the call waited for something inside itself when it was left.

        A question or a write below it, newer than its last entry and not settled, proves that: the
        code of the call itself was not running then.
        """
        task = self.task
        if any(is_below(question.path, path) for question in task.waits.waiting.values()):
            return True
        below = (
            inner
            for ticks in (task.waits.asked, task.entered)
            for inner, tick in ticks.items()
            if tick > last_entry and is_below(inner, path)
        )
        return any(inner not in task.settled for inner in below)


def _is_of(place: CallPath, path: CallPath) -> bool:
    """Return whether a place is that of a call, or of an operation of its code."""
    return place == path or place.rpartition("/")[0] == path
