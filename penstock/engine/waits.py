"""The answers and runs that calls of a task wait for, and the records that its tools left.

A task has its own of both only once something waits or is recorded: see `TaskState.own_waits`.
Until then it shares `NO_WAITS` and `NO_RECORDS`, whose maps refuse every change, because 14 objects
less for each task are 4 % of the CPU time of a plain turn.

Shown by tests/engine/test_waits.py and test_task_state.py.
"""

from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from penstock.core.call import CallPath
from penstock.core.events.child_events import Join
from penstock.core.events.events import (
    NoteEmitted,
    ParkedCall,
    QuestionAnswered,
    SecretGiven,
    StateWritten,
    TaskSuspended,
)
from penstock.core.events.hook_events import HookDecided
from penstock.core.ids import LogId, QuestionId, TaskId
from penstock.core.task import Question, TaskStatus, is_withdrawn, standing
from penstock.engine.dialogue import Decided

ON_INPUT = "on_input"
"""The method of hooks that sees the message of a task."""
OF_CALLS = frozenset({"before_call", "after_call"})
"""Those that see calls of tools."""


class Waits(Struct):
    """Answers, ends of flow runs and next attempts that the calls of a task wait for.

    Answers and ends of runs may arrive before the event that says the task waits for them, so both
    are remembered and compared with what is awaited.
    """

    asked: dict[CallPath, int] = field(default_factory=dict)
    """Calls with a question, with the session's tick at which it was asked or answered."""
    waiting: dict[QuestionId, Question] = field(default_factory=dict)
    answers: dict[CallPath, QuestionAnswered] = field(default_factory=dict)
    questions: dict[QuestionId, CallPath] = field(default_factory=dict)
    parked: dict[CallPath, ParkedCall] = field(default_factory=dict)
    """Calls that wait or will be retried, including those not written to the log yet."""
    awaited: dict[TaskId, None] = field(default_factory=dict)
    """Flow runs that calls wait for, including those not written to the log yet."""
    ended_runs: dict[TaskId, TaskStatus | None] = field(default_factory=dict)
    """Runs and other tasks that have ended, in the order of the log."""
    joins: dict[CallPath, Join] = field(default_factory=dict)
    """Calls that wait for other tasks, including those not written to the log yet."""
    met: dict[CallPath, tuple[int, Join]] = field(default_factory=dict)
    """Calls whose wait for other tasks is over, with the session's tick at its end."""
    children: dict[TaskId, bool] = field(default_factory=dict)
    """The children of the task, and whether each is of a batch."""
    spawned: dict[str, tuple[TaskId, str]] = field(default_factory=dict)
    """The children that have a key, with the hash of their arguments."""
    waiters: dict[TaskId, LogId] = field(default_factory=dict)
    """The tasks that wait for the end of this one, with their logs."""
    below: dict[QuestionId, None] = field(default_factory=dict)
    """The open questions of tasks below this one, if it is the root of their tree."""
    bounded: dict[QuestionId, int] = field(default_factory=dict)
    """Questions that expire because the schedule of the task bounds its waits, and how many waits
    had expired when they were asked: those that were asked together expire as one wait."""
    arrivals: int = 0
    """How many answers and awaited ends of runs have arrived; `park` compares two readings."""

    def awaits(self, awaited: str) -> bool:
        """Return whether this id is an open question or an unfinished run that a call awaits."""
        return awaited in self.waiting or awaited in self.awaited

    def ask(self, question: Question, tick: int) -> None:
        """Record an open question."""
        self.waiting[question.question_id] = question
        self.questions[question.question_id] = question.path
        self.asked[question.path] = tick

    def answer(self, event: QuestionAnswered, tick: int) -> None:
        """Record the answer to a question, or that it was closed without one."""
        self.waiting.pop(event.question_id, None)
        path = self.questions.get(event.question_id)
        if path and path not in self.answers and is_withdrawn(event.status, event.answer):
            self.asked.pop(path, None)  # a call that still needs the answer asks again
        # The first answer of a person wins over an expiry that this process added at the same time.
        elif path and (event.by is not None or path not in self.answers):
            self.arrivals += path not in self.answers
            self.answers[path] = event
            self.asked[path] = tick

    def has_expired(self, expired_waits: int) -> bool:
        """Whether no person answered a bounded question that was asked after so many such waits."""
        asked = (each for each, before in self.bounded.items() if before == expired_waits)
        ends = [self.answers.get(self.questions[each]) for each in asked]
        return any(end and standing(end.status, end.answer) == "expired" for end in ends)

    def suspend(self, event: TaskSuspended, tick: int = 0) -> bool:
        """Record what the calls wait for. Return False if some of it has already arrived."""
        self.parked.update((call.path, call) for call in event.parked)
        self.awaited.update((run, None) for run in event.runs if run not in self.ended_runs)
        self.joins = {join.path: join for join in event.joins}
        met = [join for join in event.joins if join.is_met(self.ended_runs)]
        self.met.update((join.path, (tick, join)) for join in met)
        if met:
            return False
        return all(self.awaits(awaited) for awaited in (*event.questions, *event.runs))

    def end_run(self, run_id: TaskId, status: TaskStatus | None = None, tick: int = 0) -> bool:
        """Record the end of a run or another task. Return whether a call can continue with it."""
        if run_id not in self.ended_runs:
            self.ended_runs[run_id] = status
        if run_id not in self.awaited:
            met = [join for join in self.joins.values() if join.is_met(self.ended_runs)]
            for join in met:
                del self.joins[join.path]
                self.met[join.path] = (tick, join)
            self.arrivals += len(met)
            return bool(met)
        del self.awaited[run_id]
        self.arrivals += 1
        return True


class ToolRecords(Struct):
    """Records of tools and scripts of a task in the log, in addition to the outcomes of calls."""

    delivered: dict[CallPath, tuple[int, int]] = field(default_factory=dict)
    """Calls of scripts: the tick at which they settled, and the script's clock then."""
    notes: dict[tuple[CallPath, str], int] = field(default_factory=dict)
    """How many author's events each call emitted, by type and by line."""
    values: dict[tuple[str, str], StateWritten] = field(default_factory=dict)
    """Values in the state of tools, by tool and key."""
    decisions: dict[Decided, HookDecided] = field(default_factory=dict)
    """The decisions of hooks."""
    secrets: dict[SecretGiven, None] = field(default_factory=dict)
    """Secrets that tools received, in order of first use."""

    def count(self, event: NoteEmitted, path: CallPath) -> None:
        """Count an author's event of a call."""
        for note in ((path, event.event_type), (path, event.line)):
            self.notes[note] = self.notes.get(note, 0) + 1


_NOTHING: Any = MappingProxyType({})
NO_WAITS = Waits(*[_NOTHING] * 14)
NO_RECORDS = ToolRecords(*[_NOTHING] * 5)
