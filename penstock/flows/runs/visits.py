"""Visits of steps: their outcomes, warnings and costs, and the events of each frame.

A frame is the path of a run or of a visit: `TASK` for the run itself, `TASK/STEP/VISIT` for a
visit, and so on for flows inside flows.

Guarantees: costs and events depend on the log alone, so a resumed run reports the same figures.
Time in which a visit waits for a person does not count. The costs of a visit include everything
inside it: the agents and calls of flows that it refers to.

How: VisitCosts and FrameEvents fold the task, and read only what is new since the last question:
conducting N steps costs O(N), not O(N^2). Paths nest, so the visits around a call are found by
cutting segments off its path. Relies on `task.flow_events`, `task.agents` and `task.settled` only
ever growing at their ends; an entry inserted earlier would be missed. Tests:
tests/flows/runs/test_visits.py.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct, field

from penstock.core.call import CallPath, frame_above
from penstock.core.events.flow_events import (
    FlowNotified,
    FlowStarted,
    Outcome,
    StepResult,
    StepSettled,
    StepStarted,
    StepStatus,
)
from penstock.core.messages import Usage, total_usage
from penstock.core.task import Missing
from penstock.engine.ledger import Ledger
from penstock.engine.task_state import TaskState

STEP_WAITS = "flow_step_waits"
"""Event kind: a visit starts or stops waiting for people. Not shown to readers of the run, who
see the question instead."""
StepEvent = StepStarted | StepSettled
WARNING = "flow_warning"


class VisitOutcome(Struct, frozen=True, kw_only=True):
    """How a visit ended, and its result."""

    outcome: Outcome
    result: StepResult
    source: str = ""
    """Machine-readable reason of a failure."""
    text: str = ""
    """Human-readable reason of a failure."""
    warnings: Sequence[str] = field(default=())
    missing: Missing | None = None
    """The agent or model that this process lacks, if that is why the visit failed."""


def failed(
    source: str, text: str, *, is_hard: bool = False, missing: Missing | None = None
) -> VisitOutcome:
    """Return a failed visit whose result is only its error text."""
    result = StepResult(status=StepStatus.ERROR, summary=text, full_output=text)
    outcome = Outcome.HARD if is_hard else Outcome.SOFT
    return VisitOutcome(outcome=outcome, result=result, source=source, text=text, missing=missing)


class _Visit(Struct):
    """One visit. Times are milliseconds of active time: that clock stops between activations."""

    started_at: int
    waited: int = 0
    waiting_since: int | None = None
    """Start of the current wait; None if the visit does not wait."""
    agents: list[CallPath] = field(default_factory=list)
    tool_calls: int = 0


class VisitCosts:
    """Folds the log of a task into the costs of its visits."""

    def __init__(self, task: TaskState) -> None:
        self._task = task
        self._visits: dict[str, _Visit] = {}
        """By frame."""
        self._flow_events_read = self._agents_read = self._settled_read = 0
        """How many entries of the task's flow events, agents and settled calls have been read."""

    def waits(self, frame: CallPath) -> bool:
        """Whether the visit waits for people, according to the log."""
        self._catch_up()
        return self._visits[frame].waiting_since is not None

    def duration(self, frame: CallPath, now: int) -> int:
        """Return how long the visit was active, in milliseconds of the task's active time."""
        self._catch_up()
        visit = self._visits[frame]
        still = 0 if visit.waiting_since is None else now - visit.waiting_since
        return max(now - visit.started_at - visit.waited - still, 0)

    def usage(self, frame: CallPath) -> Usage:
        """Return what the visit has spent, including everything inside it."""
        self._catch_up()
        visit = self._visits[frame]
        spent = [each for frame in visit.agents for each in self._task.agents[frame].spent]
        return total_usage(spent, tool_calls=visit.tool_calls)

    def _catch_up(self) -> None:
        task = self._task
        for path, event in task.flow_events[self._flow_events_read :]:
            if path is not None and isinstance(event, StepStarted):
                self._visits[path] = _Visit(event.active_ms)
            elif isinstance(event, FlowNotified) and event.kind == STEP_WAITS:
                self._wait(path or "", event)
        self._flow_events_read = len(task.flow_events)
        # Dicts keep insertion order: reading the newest entries from the end costs the same however
        # long the task is.
        for path in islice(reversed(task.agents), len(task.agents) - self._agents_read):
            for visit in self._around(path):
                visit.agents.append(path)
        self._agents_read = len(task.agents)
        newest = islice(reversed(task.settled.items()), len(task.settled) - self._settled_read)
        for path, settled in newest:
            for visit in self._around(path) if settled.ran else ():
                visit.tool_calls += 1
        self._settled_read = len(task.settled)

    def _wait(self, path: str, event: FlowNotified) -> None:
        visit, now = self._visits[path], int(event.body["activeMs"])
        if event.body["waits"]:
            visit.waiting_since = now
        elif visit.waiting_since is not None:
            visit.waited, visit.waiting_since = visit.waited + now - visit.waiting_since, None

    def _around(self, path: str) -> Iterator[_Visit]:
        """Yield the visits around a path, innermost first."""
        while path:
            if (visit := self._visits.get(path)) is not None:
                yield visit
            path = path.rpartition("/")[0]


class FrameEvents:
    """Starts and outcomes of steps and flows, up to the newest event of the task."""

    def __init__(self, task: TaskState) -> None:
        self._task = task
        self.costs = VisitCosts(task)
        """Costs of the visits."""
        self._flow_events_read = 0
        self._steps: dict[str, list[tuple[CallPath, StepEvent]]] = {}
        """By the frame of their run."""
        self._flows: dict[str, list[tuple[CallPath, FlowStarted]]] = {}
        """By their frame, and by the frame above it: that of the step if its path is a glob."""
        self._numbers: dict[str, int] = {}
        """Frame of a visit -> its number among all visits of the task, from 1."""
        self._starts = self._rested_ms = 0

    @property
    def starts(self) -> int:
        """Number of visits started in the task, including those in nested flows."""
        self._catch_up()
        return self._starts

    def number(self, frame: CallPath) -> int:
        """Return the number of this visit among all visits of the task, from 1."""
        self._catch_up()
        return self._numbers[frame]

    @property
    def rested_ms(self) -> int:
        """Milliseconds in which the task only waited for next attempts, according to the log."""
        self._catch_up()
        return self._rested_ms

    def steps(self, frame: CallPath) -> Sequence[tuple[CallPath, StepEvent]]:
        """Return the starts and outcomes of the steps of the run in this frame."""
        self._catch_up()
        return tuple(self._steps.get(frame, ()))

    def flows(self, frame: CallPath) -> Sequence[tuple[CallPath, FlowStarted]]:
        """Return the flows started in the frame of a step, in order."""
        self._catch_up()
        return tuple(self._flows.get(frame, ()))

    def _catch_up(self) -> None:
        flow_events = self._task.flow_events
        for path, event in flow_events[self._flow_events_read :]:
            if path is None:
                continue
            if isinstance(event, FlowStarted):
                for frame in (path, path.rpartition("/")[0]):
                    self._flows.setdefault(frame, []).append((path, event))
            elif isinstance(event, StepEvent):
                if isinstance(event, StepStarted):
                    self._starts += 1
                    self._numbers[path] = self._starts
                    self._rested_ms = event.rested_ms
                self._steps.setdefault(frame_above(path), []).append((path, event))
        self._flow_events_read = len(flow_events)


def warn(ledger: Ledger, frame: CallPath, message: str, **body: Any) -> None:
    """Add a warning event, unless this frame already has an equal one."""
    body = {"message": message, **body}
    if not any(path == frame and event.body == body for path, event in _notices(ledger.task)):
        ledger.add(FlowNotified(kind=WARNING, body=body), frame)


def warn_once(ledger: Ledger, frame: CallPath, message: str) -> None:
    """Add a warning event, unless the task already has one with the same message."""
    body = {"message": message}
    if not any(event.body == body for _, event in _notices(ledger.task)):
        ledger.add(FlowNotified(kind=WARNING, body=body), frame)


def warnings_of(task: TaskState) -> list[str]:
    """Return the distinct warnings of a task, in order."""
    warnings = (event for _, event in _notices(task) if event.kind == WARNING)
    return list(dict.fromkeys(str(event.body["message"]) for event in warnings))


def _notices(task: TaskState) -> Iterator[tuple[CallPath | None, FlowNotified]]:
    return ((path, event) for path, event in task.flow_events if isinstance(event, FlowNotified))
