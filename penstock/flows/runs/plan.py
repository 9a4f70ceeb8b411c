"""Which steps run now, and where a flow goes from there: a fold of what started and what settled.

Nothing here runs anything, and nothing asks for the time. Who folds the same starts and outcomes
gets the same plan, so a killed run goes on where it was.
"""

from bisect import insort
from collections.abc import Collection, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.step import Outcome
from penstock.flows.definition import Flow, Step
from penstock.flows.segments import Segments

ON_ERROR, BRANCH, ON_COMPLETE = "on_error", "branch", "on_complete"
_RANK = (ON_ERROR, BRANCH, ON_COMPLETE)
"""Of several requests to go elsewhere, the best comes first."""


class RunStatus(StrEnum):
    """How a run ended. The values are the wire format."""

    SUCCESS = "success"
    ERROR = "error"
    ABORTED = "aborted"
    REJECTED = "rejected"
    """It never began."""


class SkipReason(StrEnum):
    """Why a step has no result. The values are the wire format."""

    NOT_ON_BRANCH = "not_on_branch"
    JUMPED_OVER = "jumped_over"
    FLOW_ENDED = "flow_ended"


class Jumped(Struct, frozen=True):
    """Control goes elsewhere, not on to what is next in the file."""

    source: str
    targets: tuple[str, ...]
    why: str


class Skipped(Struct, frozen=True):
    """A step is passed over; it may still run later."""

    step_id: str
    why: SkipReason


class Aborted(Struct, frozen=True):
    """A running step is cut, because the flow ends."""

    step_id: str


class FlowEnded(Struct, frozen=True):
    """The flow has ended."""

    status: RunStatus


Notice = Jumped | Skipped | Aborted | FlowEnded
"""What follows from an outcome, in the order in which it happens."""


class _Jump(Struct, frozen=True):
    """A request to go elsewhere, or one that is put off until the other targets were visited."""

    source: str
    targets: tuple[str, ...]
    why: str
    visits: int = 0
    """Of its first target, when it was put off."""


class Plan:
    """Where a run of a flow stands. Only `start`, `settle` and `abort` change it."""

    def __init__(self, flow: Flow) -> None:
        self._steps = flow.by_id
        self._ids = list(self._steps)
        self._order = {step_id: number for number, step_id in enumerate(self._ids)}
        self._segments = Segments(flow.steps)
        self._most = flow.max_concurrent
        self.status: RunStatus | None = None
        """None while the flow runs."""
        self.visits: dict[str, int] = dict.fromkeys(self._steps, 0)
        """How often each step was started."""
        self.running: set[str] = set()
        self.skipped: dict[str, SkipReason] = {}
        """Steps that were passed over, and have not run since."""
        self._finished: set[str] = set()
        """Steps that have a result, of this pass or of an earlier one."""
        self._segment = 0
        self._active: set[str] = set()
        self._blocked: dict[str, int] = {}
        """Active steps that wait for others, and for how many."""
        self._ready: list[int] = []
        """Active steps that may start, by their place in the file."""
        self._jump: _Jump | None = None
        self._later: list[tuple[str, ...]] = []
        """Targets of the last jump that are still to be visited, by segment."""
        self._held: _Jump | None = None
        self._is_ending = False
        self._notices: list[Notice] = []
        self._enter(0, ())

    def ready(self, waiting: Collection[str] = ()) -> list[str]:
        """Return the steps that start now, beside those that run.

        `waiting` are running steps that wait for a person or for their next try.
        """
        if self._jump is not None or self.status is not None:
            return []
        return [self._ids[place] for place in self._ready[: self.room(waiting)]]

    def room(self, waiting: Collection[str] = ()) -> int:
        """Return how many steps more may be at work, beside those that run and do not wait."""
        at_work = len(self.running) - len(self.running.intersection(waiting))
        return max(self._most - at_work, 0)

    def start(self, step_id: str) -> int:
        """Take in that a step begins, for the first time or again; returns which visit it is."""
        if step_id not in self.running:
            self.running.add(step_id)
            self._ready.remove(self._order[step_id])
        self.visits[step_id] += 1
        return self.visits[step_id]

    def settle(
        self, step_id: str, outcome: Outcome, targets: Sequence[str] = ()
    ) -> Sequence[Notice]:
        """Take in how a visit ended, and where a router leads; returns what follows from it."""
        step = self._steps[step_id]
        self.running.remove(step_id)
        self._finished.add(step_id)
        self.skipped.pop(step_id, None)
        if outcome is Outcome.ABORTED:
            return self.abort()
        if outcome is Outcome.HARD or (outcome is Outcome.SOFT and step.on_error is None):
            self._end(RunStatus.ERROR)
            return self._told()
        for blocked in self._segments.blocked_by(step_id):
            self._unblock(blocked)
        self._request(step, outcome, targets)
        while self.status is None and not self.running and (self._jump or not self._ready):
            self._leave()
        return self._told()

    def abort(self) -> Sequence[Notice]:
        """Take in that somebody wants the run to end."""
        self._end(RunStatus.ABORTED)
        return self._told()

    def fail(self) -> Sequence[Notice]:
        """Take in that the runtime failed, and no step of the flow."""
        self._end(RunStatus.ERROR)
        return self._told()

    def _unblock(self, step_id: str) -> None:
        if step_id in self._blocked:
            self._blocked[step_id] -= 1
            if not self._blocked[step_id]:
                del self._blocked[step_id]
                insort(self._ready, self._order[step_id])

    def _request(self, step: Step, outcome: Outcome, targets: Sequence[str]) -> None:
        """Note where a step wants control to go."""
        if outcome is Outcome.SOFT:
            self._ask(step, ON_ERROR, (step.on_error or "",))
        elif targets:
            self._ask(step, BRANCH, targets)
        elif step.on_complete is not None and not self._waits_for(step.on_complete, step.step_id):
            self._ask(step, ON_COMPLETE, (step.on_complete,))
        elif step.is_last:
            self._is_ending = True

    def _waits_for(self, later: str, step_id: str) -> bool:
        """Whether a step comes after the other one anyway."""
        return later != step_id and later in self._segments.reach([step_id])

    def _ask(self, step: Step, why: str, targets: Sequence[str]) -> None:
        asked = _Jump(step.step_id, tuple(targets), why)
        if self._jump is None or self._rank(asked) < self._rank(self._jump):
            self._jump = asked

    def _rank(self, jump: _Jump) -> tuple[int, int]:
        return _RANK.index(jump.why), self._order[jump.source]

    def _leave(self) -> None:
        """Go where control goes after the segment."""
        jump, held = self._jump, self._held
        if jump is not None and jump.why != ON_COMPLETE:
            self._later.clear()
            self._go(jump)
        elif self._later:
            if jump is not None:
                self._held = replace(jump, visits=self.visits[jump.targets[0]])
            self._move(self._later.pop(0))
        elif jump is not None:
            self._go(jump)
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
        to = self._segments.of[targets[0]]
        if to != self._segment:
            for step in self._segments.all[self._segment]:
                if step.step_id in self._active:
                    self._skip(step, SkipReason.JUMPED_OVER)
            for segment in self._segments.all[self._segment + 1 : to]:
                for step in segment:
                    self._skip(step, SkipReason.JUMPED_OVER)
        self._enter(to, targets)

    def _enter(self, number: int, targets: tuple[str, ...]) -> None:
        self._segment, self._jump = number, None
        segment = self._segments.all[number]
        everything = {step.step_id for step in segment}
        self._active = self._segments.reach(targets) if targets else everything
        self._blocked, self._ready = {}, []
        for step in segment:
            if step.step_id not in self._active:
                self._skip(step, SkipReason.NOT_ON_BRANCH)
            elif wait := len(self._active.intersection(self._segments.blockers(step))):
                self._blocked[step.step_id] = wait
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

    def _told(self) -> Sequence[Notice]:
        notices, self._notices = self._notices, []
        return notices
