"""The calls of one task: each is settled once, at any depth, over any number of restarts."""

import asyncio
import re
from collections import defaultdict
from hashlib import blake2b

from penstock.core.call import Call, CallPath, is_below
from penstock.core.call_errors import Interrupted
from penstock.core.clock import Moment
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
from penstock.core.json_values.canonical import fingerprint
from penstock.core.question import Question, QuestionStatus
from penstock.core.state.changes import Change
from penstock.engine.budget import Budget
from penstock.engine.held_log import HeldLog
from penstock.engine.task_state import TaskState

_ATTEMPT = re.compile(r"~\d+")
"""Marks, in a path, what a further attempt of a call made."""
_UNFIT = re.compile(r"[/#~\x00-\x1f\ud800-\udfff]")
"""What would part a path elsewhere, or no database keeps: a model may make up any name."""


class Occurrences:
    """Counts equal calls under one parent, for one entry of it."""

    __slots__ = ("_key", "_parent", "_seen")

    def __init__(self, parent: str, key: bytes) -> None:
        self._parent = parent
        self._key = key
        self._seen: dict[str, int] = {}

    def path(self, tool_id: str, input: str) -> CallPath:
        """Return the identity of the next call of this tool with this input, as canonical JSON."""
        shown = tool_id if tool_id.isidentifier() else _UNFIT.sub("_", tool_id)
        name = f"{shown}#{fingerprint(self._key, tool_id, input)}"
        self._seen[name] = occurrence = self._seen.get(name, 0) + 1
        ending = "" if occurrence == 1 else f".{occurrence}"
        return CallPath(f"{self._parent}/{name}{ending}")

    def counted(self) -> dict[str, int]:
        """Return how often each call was counted by now."""
        return dict(self._seen)

    def go_back(self, counted: dict[str, int]) -> None:
        """Count from there again: what follows is done anew."""
        self._seen = dict(counted)


class Ledger:
    """A task's part of the log, read as calls and questions.

    The state is the fold of the log and nothing else, so all answers are the same after a restart.
    """

    __slots__ = ("_key", "budget", "claims", "held", "outcome_chars", "step_in", "task", "turns")

    def __init__(self, held: HeldLog, task: TaskState, budget: Budget, key: bytes) -> None:
        self.held = held
        self.task = task
        self.budget = budget
        """What the task may still spend, with all that its calls start."""
        self.outcome_chars = sum(len(each.context or "") for each in task.settled.values())
        """How much text the outcomes of the task's calls have, which are all kept."""
        self._key = key
        self.turns: defaultdict[CallPath, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Calls that belong to the task and that several callers may take up, one at a time."""
        self.claims: defaultdict[str, set[str]] = defaultdict(set)
        """What calls at work took of something that is limited, by its name."""
        self.step_in: CallPath | None = None
        """The call that has a step open: a task has one at a time."""

    def find(self, path: CallPath) -> CallSettled | None:
        """Return the recorded outcome of the call, if it has one."""
        return self.task.settled.get(path)

    def occurrences(self, parent: str) -> Occurrences:
        """Return a fresh count of the calls under a parent that is entered now."""
        return Occurrences(parent, self._key)

    def idempotency_key(self, path: CallPath) -> str:
        """Return the same key for the same call, whatever happens."""
        plain = _ATTEMPT.sub("", path) if "~" in path else path
        return blake2b(plain.encode(), digest_size=16, key=self._key).hexdigest()

    def seed(self, path: CallPath) -> bytes:
        """Return 32 bytes of chance for a call: the same in each of its entries."""
        return blake2b(path.encode(), digest_size=32, key=self._key, person=b"seed").digest()

    async def start(self, call: Call, *, again: bool) -> None:
        """Note on disk that a write is about to run.

        Raises Interrupted when it began once before and a crash cut it, unless it may run `again`.
        A call that waited for something inside itself is a frame: it is entered again from its top.
        """
        path = call.path
        began = self.task.begun.get(path)
        if began is not None and not again and not self._waited(path, began):
            raise Interrupted(
                f'"{call.tool_id}" was cut when the process stopped, or its disk failed: '
                "it may or may not have happened",
                suggestion="Find out whether it happened before you try it again.",
            )
        key = self.idempotency_key(path)
        self.add(CallStarted(tool_id=call.tool_id, idempotency_key=key), path)
        await self.held.commit()
        await self.held.make_sure()

    def settle(self, path: CallPath, settled: CallSettled, *, is_awaited: bool = False) -> None:
        """Record the outcome of a call. It is on disk before anything that follows it.

        Who is about to wait until it is there, says so: his commit is what sends it.
        """
        self.outcome_chars += len(settled.context or "")
        self.held.add(settled, self.task.task_id, path)
        if is_awaited:
            return
        if settled.clock_ms is None:
            self.held.submit_soon()
        else:
            self.held.submit_later()

    async def change(self, path: CallPath, settled: CallSettled, change: Change) -> CallSettled:
        """Record a call and do what it changes, as one; returns it with what became of that.

        On disk when this returns, and in the state of the task. A change that could not be made
        makes a failure of the call. Raises LeaseLost, with nothing changed.
        """
        self.outcome_chars += len(settled.context or "")
        self.held.add_change(settled, change, self.task.task_id, path)
        await self.held.commit()
        return self.task.settled[path]

    def retry(self, path: CallPath, event: CallRetried) -> None:
        """Record that an attempt failed and another follows."""
        self.add(event, path)

    def park(self, path: CallPath, *, attempt: int, seconds: float, computed_ms: int = 0) -> None:
        """Note that an attempt of a call waits, after so long at work in this entry.

        It is written when the task parks; a crash before that forgets it.
        """
        active_ms = self.active_ms(path, attempt) + round(1000 * seconds)
        self.task.parked[path] = ParkedCall(
            path,
            active_ms,
            attempt,
            self.entry(path),
            computed_ms=self.computed_ms(path, attempt) + computed_ms,
        )

    def attempt(self, path: CallPath) -> int:
        """Return which attempt of a call is to be gone on with: it waited, or was cut; from 1."""
        parked = self.task.parked.get(path)
        return 1 if parked is None else parked.attempt

    def active_ms(self, path: CallPath, attempt: int) -> int:
        """Return how long an attempt of a call was at work before it waited; 0 if it did not."""
        parked = self.task.parked.get(path)
        return parked.active_ms if parked is not None and parked.attempt == attempt else 0

    def computed_ms(self, path: CallPath, attempt: int) -> int:
        """Return how long the script of an attempt computed before it waited."""
        parked = self.task.parked.get(path)
        return parked.computed_ms if parked is not None and parked.attempt == attempt else 0

    def entry(self, path: CallPath) -> int:
        """Return which entry of a call this is, from 1: of a write those that crashed count."""
        parked = self.task.parked.get(path)
        return max(1 if parked is None else parked.entries + 1, self.task.entries.get(path, 0))

    def newest_answer(self, path: CallPath) -> QuestionAnswered | None:
        """Return what a person said last to a call, or to a question that its code asked."""
        task = self.task
        own = [each for each in task.answers if each == path or each.rpartition("/")[0] == path]
        return task.answers[max(own, key=lambda each: task.asked[each])] if own else None

    def answer_to(self, path: CallPath) -> QuestionAnswered | None:
        """Return what a person said to the question that this call asked, if one did.

        An answer counts only for calls that were entered after it came. Else the log could not tell
        a write that still waited for it from one that went on with it, and was cut.
        """
        task = self.task
        if path not in task.answers:
            return self._answer_before(path)
        came = task.asked[path]
        frames = (each for each, tick in task.begun.items() if tick < came)
        if any(is_below(path, each) and each not in task.settled for each in frames):
            return None
        return task.answers[path]

    def is_asked(self, path: CallPath) -> bool:
        """Whether the call has a question already, open or not."""
        return path in self.task.asked

    async def ask(self, question: Question) -> None:
        """Record a question; it is on disk, and open, when this returns."""
        self.add(QuestionAsked(question=question), question.path)
        await self.held.commit()

    def note(self, path: CallPath | None, note: NoteEmitted) -> None:
        """Record an author's own event."""
        self.add(note, path)

    def value(self, tool_id: str, key: str, now: Moment) -> StateWritten | None:
        """Return what a tool put into its state in this task, if it still counts."""
        written = self.task.values.get((tool_id, key))
        if written is None or (written.expires_at is not None and written.expires_at <= now):
            return None
        return written

    def put(self, path: CallPath, written: StateWritten) -> None:
        """Record a value of a tool's state."""
        self.add(written, path)

    def add(self, event: Event, path: CallPath | None = None) -> None:
        """Take an event of this task in; it is on disk before anything that follows it."""
        self.held.add(event, self.task.task_id, path)

    def _answer_before(self, path: CallPath) -> QuestionAnswered | None:
        """Return what a person said to the same question of an earlier attempt."""
        plain = _ATTEMPT.sub("", path)
        if plain == path or not self.task.answers:
            return None
        for each, answered in self.task.answers.items():
            is_said = answered.status is QuestionStatus.ANSWERED
            if is_said and _ATTEMPT.sub("", each) == plain:
                return answered
        return None

    def _waited(self, path: CallPath, began: int) -> bool:
        """Whether the call was not cut, but waited for something inside itself."""
        task = self.task
        if any(is_below(question.path, path) for question in task.waiting.values()):
            return True
        asked = (each for each, tick in task.asked.items() if tick > began and is_below(each, path))
        inner = (each for each, tick in task.begun.items() if tick > began and is_below(each, path))
        return any(each not in task.settled for each in (*asked, *inner))
