"""Loop counters: how often a run took each way back, and what its limits allow."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from penstock.flows.definition import Flow, Step


class RouteTaken(Struct, frozen=True):
    """The targets of a router after its `max_iterations` was applied."""

    targets: tuple[str, ...]
    """Empty: control continues with the next segment."""
    iteration: int = 0
    """The current iteration; 0 if the step limits nothing."""
    is_forced: bool = False
    """The limit was reached, so the way back is not taken."""
    back: tuple[str, ...] = ()
    """The targets at or before the step, whether taken or not."""


class LoopCounters:
    """Loop counters of one run. They are never reset."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._order: Mapping[str, int] = {
            step.step_id: number for number, step in enumerate(flow.steps)
        }
        self._taken: dict[str, int] = {}
        """Number of ways back that each router took."""
        self._round: dict[str, int] = {}
        """Current value of `iteration` for each loop step."""

    def leads_back(self, step: Step, target: str) -> bool:
        """Whether the target is the step itself or comes before it in the file."""
        return self._order[target] <= self._order[step.step_id]

    def begin(self, step: Step, visit: int) -> RouteTaken | None:
        """Record a visit of a loop step. Return its exit if the limit is reached, else None."""
        self._round[step.step_id] = visit
        if step.max_iterations is not None and visit > step.max_iterations:
            return RouteTaken(step.exit_targets, visit, is_forced=True)
        return None

    def route(self, step: Step, targets: Sequence[str]) -> RouteTaken:
        """Apply the limit of a decision or a fork to the targets that were chosen."""
        back = [target for target in targets if self.leads_back(step, target)]
        if step.counts_visits or not back or step.max_iterations is None:
            return RouteTaken(tuple(targets))
        taken = self._taken.get(step.step_id, 0)
        if taken < step.max_iterations:
            return RouteTaken(tuple(targets), taken + 1, back=tuple(back))
        # At the limit, forward targets of a multiple choice are still taken. With none left,
        # control continues with the next segment.
        ahead = tuple(target for target in targets if target not in back)
        return RouteTaken(ahead, taken + 1, is_forced=True, back=tuple(back))

    def settle(self, step: Step, visit: int, targets: Sequence[str]) -> None:
        """Record the targets that a router led to."""
        is_back = any(self.leads_back(step, target) for target in targets)
        if step.counts_visits:
            is_repeated = is_back and not set(targets).isdisjoint(step.loop_targets)
            self._round[step.step_id] = visit + is_repeated
        elif is_back:
            self._taken[step.step_id] = self._taken.get(step.step_id, 0) + 1

    def iteration(self, step_id: str) -> int:
        """Return the current iteration of a router, from 1."""
        if self._flow.by_id[step_id].counts_visits:
            return self._round.get(step_id, 1)
        return 1 + self._taken.get(step_id, 0)
