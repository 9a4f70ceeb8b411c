"""Decides which steps of a flow start next: a fold of step starts and step outcomes.

Guarantees: the same starts and outcomes, in the same order, give the same plan. A run that was
killed therefore continues where it was, from its log alone. At most `max_concurrent` steps are at
work at once. Every step that will never run is reported as skipped, with a reason.

How: the flow is cut into segments (`penstock.flows.definition`). One segment is active at a time.
Its steps start when the steps in their `blockedBy` are finished. Control leaves the segment when
no step runs and either a jump was requested or no step is left to start. If several steps request
a jump, `on_error` wins over a branch, a branch over `on_complete`, and then the earlier step wins.

Relies on: `start` is called only for a step that `ready` returned, or again for a running step
(the next attempt); `settle` is called only for a running step. The plan reads no clock and starts
nothing. Code here that depended on time, randomness or set order would make a resumed run diverge
from its log.

Tests: tests/flows/runs/test_plan.py; tests/flows/page_plan.py states the same rules a second time
as docs/flows.md words them, and both must agree on generated flows.
"""

from bisect import insort
from collections.abc import Collection, Sequence
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.core.errors import Blocked, Signal, Suspend
from penstock.core.events.flow_events import Outcome
from penstock.core.task import Missing
from penstock.engine.task_state import TaskState
from penstock.flows.definition import Flow, Segments, Step

ON_ERROR, BRANCH, ON_COMPLETE = "on_error", "branch", "on_complete"
_RANK = (ON_ERROR, BRANCH, ON_COMPLETE)
"""Order of precedence among jump requests: the first in this list wins."""


class RunStatus(StrEnum):
    """Final state of a run. The values are the wire format."""

    SUCCESS = "success"
    ERROR = "error"
    ABORTED = "aborted"
    REJECTED = "rejected"
    """The run was refused before its first step."""


class SkipReason(StrEnum):
    """Why a step was skipped. The values are the wire format."""

    NOT_ON_BRANCH = "not_on_branch"
    JUMPED_OVER = "jumped_over"
    FLOW_ENDED = "flow_ended"


class Jumped(Struct, frozen=True):
    """Control jumps to `targets` instead of continuing with the next segment."""

    source: str
    targets: tuple[str, ...]
    why: str


class Skipped(Struct, frozen=True):
    """A step is skipped for now. A later jump may still run it."""

    step_id: str
    why: SkipReason


class Aborted(Struct, frozen=True):
    """A running step is cancelled because the flow ends."""

    step_id: str


class FlowEnded(Struct, frozen=True):
    """The flow ends with this status."""

    status: RunStatus


Notice = Jumped | Skipped | Aborted | FlowEnded
"""Consequences of an outcome, in the order in which they occur."""


class _Jump(Struct, frozen=True):
    """A requested jump, or an `on_complete` jump postponed until all chosen branches ran."""

    source: str
    targets: tuple[str, ...]
    why: str
    visits: int = 0
    """Visits of its first target at the time it was postponed."""


class Plan:
    """State of one run of a flow. Only `start`, `settle`, `abort` and `fail` change it."""

    def __init__(self, flow: Flow) -> None:
        self._steps = flow.by_id
        self._ids = list(self._steps)
        self._order = {step_id: number for number, step_id in enumerate(self._ids)}
        self._segments = Segments(flow.steps)
        self._max_concurrent = flow.max_concurrent
        self.status: RunStatus | None = None
        """None while the flow runs."""
        self.visits: dict[str, int] = dict.fromkeys(self._steps, 0)
        """Number of starts of each step."""
        self.running: set[str] = set()
        self.skipped: dict[str, SkipReason] = {}
        """Steps that were skipped and have not run since."""
        self._finished: set[str] = set()
        """Steps that have a result, from this pass or an earlier one."""
        self._segment = 0
        self._active: set[str] = set()
        self._blocked: dict[str, int] = {}
        """Active steps with unfinished blockers, and the number of those blockers."""
        self._ready: list[int] = []
        """Active steps that may start, by position in the file. Kept sorted."""
        self._jump: _Jump | None = None
        self._later: list[tuple[str, ...]] = []
        """Remaining targets of the last jump, grouped by segment."""
        self._held: _Jump | None = None
        self._is_ending = False
        self._notices: list[Notice] = []
        self._enter(0, ())

    def ready(self, waiting: Collection[str] = ()) -> list[str]:
        """Return the steps to start now.

        `waiting` are running steps that wait for a person or for their next attempt. They do not
        count towards `max_concurrent`.
        """
        if self._jump is not None or self.status is not None:
            return []
        return [self._ids[place] for place in self._ready[: self.room(waiting)]]

    def room(self, waiting: Collection[str] = ()) -> int:
        """Return how many more steps may be active; running steps in `waiting` do not count."""
        at_work = len(self.running) - len(self.running.intersection(waiting))
        return max(self._max_concurrent - at_work, 0)

    def start(self, step_id: str) -> int:
        """Record that a visit or an attempt starts. Return the number of the visit."""
        # A step that is already running starts its next attempt; it left `_ready` at its first.
        if step_id not in self.running:
            self.running.add(step_id)
            self._ready.remove(self._order[step_id])
        self.visits[step_id] += 1
        return self.visits[step_id]

    def settle(
        self, step_id: str, outcome: Outcome, targets: Sequence[str] = ()
    ) -> Sequence[Notice]:
        """Record the outcome of a visit and the targets of a router. Return the consequences."""
        step = self._steps[step_id]
        self.running.remove(step_id)
        self._finished.add(step_id)
        self.skipped.pop(step_id, None)
        if outcome is Outcome.ABORTED:
            return self.abort()
        if outcome is Outcome.HARD or (outcome is Outcome.SOFT and step.on_error is None):
            self._end(RunStatus.ERROR)
            return self._take_notices()
        for blocked in self._segments.blocked_by(step_id):
            self._unblock(blocked)
        self._request(step, outcome, targets)
        while self.status is None and not self.running and (self._jump or not self._ready):
            self._leave()
        return self._take_notices()

    def abort(self) -> Sequence[Notice]:
        """End the run because its cancellation was requested."""
        self._end(RunStatus.ABORTED)
        return self._take_notices()

    def fail(self) -> Sequence[Notice]:
        """End the run because the runtime failed, not a step."""
        self._end(RunStatus.ERROR)
        return self._take_notices()

    def _unblock(self, step_id: str) -> None:
        if step_id in self._blocked:
            self._blocked[step_id] -= 1
            if not self._blocked[step_id]:
                del self._blocked[step_id]
                insort(self._ready, self._order[step_id])

    def _request(self, step: Step, outcome: Outcome, targets: Sequence[str]) -> None:
        """Record where control goes after this step."""
        if outcome is Outcome.SOFT:
            self._request_jump(step, ON_ERROR, (step.on_error or "",))
        elif targets:
            self._request_jump(step, BRANCH, targets)
        elif step.on_complete is not None and not self._waits_for(step.on_complete, step.step_id):
            self._request_jump(step, ON_COMPLETE, (step.on_complete,))
        elif step.is_last:
            self._is_ending = True

    def _waits_for(self, later: str, step_id: str) -> bool:
        """Whether `later` depends on the step, so that no jump is needed to reach it."""
        return later != step_id and later in self._segments.reach([step_id])

    def _request_jump(self, step: Step, why: str, targets: Sequence[str]) -> None:
        request = _Jump(step.step_id, tuple(targets), why)
        if self._jump is None or self._rank(request) < self._rank(self._jump):
            self._jump = request

    def _rank(self, jump: _Jump) -> tuple[int, int]:
        return _RANK.index(jump.why), self._order[jump.source]

    def _leave(self) -> None:
        """Leave the segment: take a jump, continue with the next segment, or end the flow."""
        jump, held = self._jump, self._held
        # A branch or an error wins over everything that was planned before. An `on_complete` jump
        # does not: when a fork chose several branches, all of them run first, and the jump is
        # postponed.
        if jump is not None and jump.why != ON_COMPLETE:
            self._later.clear()
            self._go(jump)
        elif self._later:
            if jump is not None:
                self._held = replace(jump, visits=self.visits[jump.targets[0]])
            self._move(self._later.pop(0))
        elif jump is not None:
            self._go(jump)
        # Take a postponed jump only if its target has not run since: a later branch may have
        # reached it already, and running it twice would be a surprise.
        elif held is not None and self.visits[held.targets[0]] == held.visits:
            self._go(held)
        elif self._is_ending or self._segment == len(self._segments.all) - 1:
            self._end(RunStatus.SUCCESS)
        else:
            self._enter(self._segment + 1, ())

    def _go(self, jump: _Jump) -> None:
        self._held, self._is_ending = None, False
        first, *self._later = self._segments.group(jump.targets)
        targets = tuple(sorted(jump.targets, key=self._order.__getitem__))
        self._notices.append(Jumped(jump.source, targets, jump.why))
        self._move(first)

    def _move(self, targets: tuple[str, ...]) -> None:
        destination = self._segments.index[targets[0]]
        if destination != self._segment:
            for step in self._segments.all[self._segment]:
                if step.step_id in self._active:
                    self._skip(step, SkipReason.JUMPED_OVER)
            for segment in self._segments.all[self._segment + 1 : destination]:
                for step in segment:
                    self._skip(step, SkipReason.JUMPED_OVER)
        self._enter(destination, targets)

    def _enter(self, number: int, targets: tuple[str, ...]) -> None:
        self._segment, self._jump = number, None
        segment = self._segments.all[number]
        all_steps = {step.step_id for step in segment}
        self._active = self._segments.reach(targets) if targets else all_steps
        self._blocked, self._ready = {}, []
        for step in segment:
            if step.step_id not in self._active:
                self._skip(step, SkipReason.NOT_ON_BRANCH)
            elif blocker_count := len(self._active.intersection(self._segments.blockers(step))):
                self._blocked[step.step_id] = blocker_count
            else:
                self._ready.append(self._order[step.step_id])

    def _skip(self, step: Step, why: SkipReason) -> None:
        step_id = step.step_id
        if step_id not in self._finished and step_id not in self.skipped:
            self.skipped[step_id] = why
            self._notices.append(Skipped(step_id, why))

    def _end(self, status: RunStatus) -> None:
        for step in self._steps.values():
            if step.step_id in self.running:
                self._finished.add(step.step_id)
                self.skipped.pop(step.step_id, None)
                self._notices.append(Aborted(step.step_id))
        self.running.clear()
        for step in self._steps.values():
            self._skip(step, SkipReason.FLOW_ENDED)
        self.status = status
        self._notices.append(FlowEnded(status))

    def _take_notices(self) -> Sequence[Notice]:
        notices, self._notices = self._notices, []
        return notices


class IdleSteps(Struct):
    """Steps that wait for a person or a run, and steps for which something is missing here."""

    waiting: dict[str, Suspend] = field(default_factory=dict)
    blocked: dict[str, tuple[Missing, ...]] = field(default_factory=dict)

    def take_answered(self, task: TaskState) -> list[str]:
        """Remove and return the steps whose questions are all answered."""
        answered = [
            step_id
            for step_id, suspend in self.waiting.items()
            if not any(map(task.waits.awaits, suspend.awaited))
        ]
        for step_id in answered:
            del self.waiting[step_id]
        return answered

    def pause(self) -> Signal:
        """Return the signal that ends this activation when no step is working.

        Questions have priority: the signal is Suspend while any step waits. The next activation
        tries the blocked steps again, and the signal is Blocked once no step waits.
        """
        if self.blocked and not self.waiting:
            missing = (part for parts in self.blocked.values() for part in parts)
            return Blocked(tuple(dict.fromkeys(missing)))
        return Suspend(
            *[awaited for suspend in self.waiting.values() for awaited in suspend.awaited]
        )
