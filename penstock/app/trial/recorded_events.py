"""The events of a recorded task, by kind and path, and the clock that shows their times.

Guarantees: each event is given once, the first of its kind and path first. What happened inside a
call is found by the call: its nested calls, its questions, and their answers.
Shown by tests/app/trial/test_recorded_events.py.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any

from penstock.app.trial.definitions import UNKNOWN, Definitions
from penstock.core.call import CallPath
from penstock.core.clock import Moment, SystemClock
from penstock.core.events.child_events import ChildrenSpawned, WaiterAdded
from penstock.core.events.events import (
    CallRetried,
    CallSettled,
    CallStarted,
    CancelRequested,
    Event,
    NoteEmitted,
    PromptResolved,
    QuestionAnswered,
    QuestionAsked,
    Record,
    ReplyReceived,
    ReplyRestarted,
    SecretGiven,
    StateWritten,
    TaskBlocked,
    TaskEnded,
    TaskResumed,
    TaskStarted,
    TaskSuspended,
)
from penstock.core.events.flow_events import AgentStarted, RunEnded, StepSettled, StepStarted
from penstock.core.events.history_events import Forked, Summarised
from penstock.core.events.hook_events import HookDecided
from penstock.core.ids import TaskId

OF_PROCESSES = (
    *(TaskResumed, TaskSuspended, TaskBlocked, ReplyRestarted, CallStarted, CallRetried),
    *(NoteEmitted, StateWritten, SecretGiven, Forked, WaiterAdded, RunEnded),
)
"""Events that decide nothing: a restarted process writes them again, or leaves them out; the end of
another task is in the outcome of the call that waited for it."""
_STEPS = (StepStarted, AgentStarted, StepSettled)
_ARRIVALS = (QuestionAnswered, RunEnded, CancelRequested)
"""Events from outside, which the replay adds when the task waits for them."""


class ReplayClock:
    """The time of the recorded events; it goes on by itself once real work is done."""

    def __init__(self) -> None:
        self._system = SystemClock()
        self._at = Moment(0)
        self._live_since: float | None = None

    def move(self, at: Moment) -> None:
        """Go to the time of an event, never back."""
        self._at = max(self._at, at)

    def go_live(self) -> None:
        """Let the time pass from now on."""
        self._live_since = self._live_since or self._system.monotonic()

    def now(self) -> Moment:
        """Return the time of the newest event, and what has passed since `go_live`."""
        return Moment(round(1000 * self.monotonic()))

    def monotonic(self) -> float:
        """Return the same in seconds."""
        begun = self._live_since
        return self._at / 1000 + (0.0 if begun is None else self._system.monotonic() - begun)

    async def sleep(self, seconds: float) -> None:
        """Wait, if the work is real; a recorded wait takes no time."""
        await self._system.sleep(0 if self._live_since is None else seconds)


class RecordedEvents:
    """The events of one task, by kind and path."""

    def __init__(
        self,
        records: Sequence[Record],
        task_id: TaskId,
        noted: Definitions = UNKNOWN,
        shown: str = "task",
    ) -> None:
        self.task_id = task_id
        self.noted = noted
        """The definitions of its agents."""
        self.shown = shown
        """Its name in the paths of a report."""
        self.own = [each for each in records if each.task_id == task_id]
        start = next((each.seq for each in self.own if type(each.event) is TaskStarted), None)
        self.start = start
        """The event with which it began to work; None if it ended before."""
        self.before = [
            each for each in records if start is not None and _is_before(each, start, task_id)
        ]
        """The events of its log from which it began."""
        self.compared = 0
        self.up_to = 0
        self._taken: set[int] = set()
        self._queues: defaultdict[tuple[Any, ...], deque[Record]] = defaultdict(deque)
        self._arrivals: deque[Record] = deque()
        self._inner: defaultdict[str, list[Record]] = defaultdict(list)
        self._settled: dict[CallPath, Record] = {}
        work = [each for each in self.own if start is not None and each.seq >= start]
        for record in work:
            if isinstance(record.event, CallSettled) and record.path is not None:
                self._settled[record.path] = record
        self.total = sum(not isinstance(each.event, OF_PROCESSES) for each in work)
        """How many events are compared if all is the same."""
        for record in work:
            self._index(record)

    def _index(self, record: Record) -> None:
        event, path = record.event, record.path
        if isinstance(event, (*_ARRIVALS, CancelRequested)):
            self._arrivals.append(record)
        self._queues[_key(event, path)].append(record)
        inner = event.question.path if isinstance(event, QuestionAsked) else path
        around = str(inner or "").rpartition("/")[0]
        if isinstance(event, ChildrenSpawned):  # its path is that of the call itself
            around = str(path)
        while around:
            plain = around.split("~")[0] if "~" in around.rpartition("/")[2] else around
            if plain in self._settled:
                self._inner[plain].append(record)
            around = around.rpartition("/")[0]
        if isinstance(event, QuestionAnswered):
            self._inner_answer(record, event)

    def _inner_answer(self, record: Record, event: QuestionAnswered) -> None:
        """Put an answer where its question is: an answer has no path."""
        for records in self._inner.values():
            for each in records:
                asked = each.event
                if isinstance(asked, QuestionAsked) and (
                    asked.question.question_id == event.question_id
                ):
                    records.append(record)
                    break

    @property
    def ended(self) -> TaskEnded | None:
        """The end of the task."""
        last = self.own[-1].event if self.own else None
        return last if isinstance(last, TaskEnded) else None

    def settled(self, path: CallPath) -> Record | None:
        """Return the recorded outcome of a call."""
        return self._settled.get(path)

    def peek(self, event: Event, path: CallPath | None) -> Record | None:
        """Return the recorded event of this kind and path that comes next."""
        return self._next(_key(event, path))

    def reply(self, path: CallPath | None, iteration: int, *, closing: bool) -> Record | None:
        """Return a recorded reply."""
        return self._next((ReplyReceived, path, iteration, closing))

    def question(self, path: CallPath) -> Record | None:
        """Return a question of a call that was not asked again."""
        return self._next((QuestionAsked, path))

    def other_reply(self, path: CallPath | None) -> Record | None:
        """Return the next recorded reply of this agent, to whatever request."""
        for key, queue in self._queues.items():
            if key[:2] == (ReplyReceived, path) and queue and self._next(key):
                return self._next(key)
        return None

    def summary(self) -> Record | None:
        """Return the next recorded summary of a conversation."""
        summaries = (each for each in self.own if isinstance(each.event, Summarised))
        return next((each for each in summaries if self.is_open(each)), None)

    def take(self, record: Record, *, is_same: bool = True) -> None:
        """Give an event no more, and count it if it came out the same."""
        self._taken.add(record.seq)
        if not is_same:
            return
        self.compared += not isinstance(record.event, OF_PROCESSES)
        self.up_to = max(self.up_to, record.seq)

    def inner(self, path: CallPath) -> list[Record]:
        """Return what happened inside a call and was not compared yet."""
        return [each for each in self._inner.get(path, ()) if self.is_open(each)]

    def arrival(self) -> Record | None:
        """Return the next answer, end of a run, or cancel that the task received."""
        while self._arrivals and not self.is_open(self._arrivals[0]):
            self._arrivals.popleft()
        return self._arrivals[0] if self._arrivals else None

    @property
    def was_cut(self) -> bool:
        """Whether nothing more was decided: what is left is an end from outside or by an error."""
        left = [
            each.event for each in self.own if self.is_open(each) and each.seq >= (self.start or 0)
        ]
        free = (*OF_PROCESSES, *_ARRIVALS, CancelRequested, TaskEnded)
        ended = self.ended
        failed = ended is not None and ended.error is not None
        return failed and all(isinstance(each, free) for each in left)

    @property
    def left_step(self) -> Record | None:
        """The first event of a step of a flow that was not compared."""
        steps = (each for each in self.own if isinstance(each.event, _STEPS))
        return next((each for each in steps if self.is_open(each)), None)

    def _next(self, key: tuple[Any, ...]) -> Record | None:
        queue = self._queues.get(key)
        while queue and not self.is_open(queue[0]):
            queue.popleft()
        return queue[0] if queue else None

    def is_open(self, record: Record) -> bool:
        """Whether a recorded event was not compared yet."""
        return record.seq not in self._taken


def _is_before(record: Record, start: int, task_id: TaskId) -> bool:
    if record.seq < start:
        return not isinstance(record.event, CancelRequested) or record.task_id != task_id
    return False


def _key(event: Event, path: CallPath | None) -> tuple[Any, ...]:
    match event:
        case ReplyReceived():
            return ReplyReceived, path, event.iteration, event.closing
        case QuestionAnswered():
            return QuestionAnswered, event.question_id
        case HookDecided():
            return HookDecided, path, event.method, event.hook, event.turn
        case PromptResolved():
            return PromptResolved, path, event.agent
        case _:
            return type(event), path
