"""How often a flow went round: the counters of loops and of branches that lead back."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from penstock.flows.definition import Flow, LoopDecision, Step


class RouteTaken(Struct, frozen=True):
    """Where a router leads, after its bound was looked at."""

    targets: tuple[str, ...]
    """None: control falls through to what is next."""
    iteration: int = 0
    """Which time round it is; 0 when the step bounds nothing."""
    is_forced: bool = False
    """The bound was reached: the way back is not taken."""
    back: tuple[str, ...] = ()
    """Where the way back leads, taken or not."""


class LoopCounters:
    """The counters of one run. They are never set back."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._order: Mapping[str, int] = {
            step.step_id: number for number, step in enumerate(flow.steps)
        }
        self._taken: dict[str, int] = {}
        """Ways back that each router took."""
        self._round: dict[str, int] = {}
        """What `iteration` of each loop step is now."""

    def leads_back(self, step: Step, target: str) -> bool:
        """Whether a target stands at or before the step."""
        return self._order[target] <= self._order[step.step_id]

    def begin(self, step: LoopDecision, visit: int) -> RouteTaken | None:
        """Take in a visit of a loop step; returns its way out when nobody is to be asked."""
        self._round[step.step_id] = visit
        if step.max_iterations is not None and visit > step.max_iterations:
            return RouteTaken((step.exit_target,), visit, is_forced=True)
        return None

    def route(self, step: Step, targets: Sequence[str]) -> RouteTaken:
        """Return where a decision or a fork leads that wants to go to these steps."""
        back = [each for each in targets if self.leads_back(step, each)]
        if isinstance(step, LoopDecision) or not back or step.max_iterations is None:
            return RouteTaken(tuple(targets))
        taken = self._taken.get(step.step_id, 0)
        if taken < step.max_iterations:
            return RouteTaken(tuple(targets), taken + 1, back=tuple(back))
        ahead = tuple(each for each in targets if each not in back)
        return RouteTaken(ahead, taken + 1, is_forced=True, back=tuple(back))

    def settle(self, step: Step, visit: int, targets: Sequence[str]) -> None:
        """Take in where a router led."""
        is_back = any(self.leads_back(step, each) for each in targets)
        if isinstance(step, LoopDecision):
            again = is_back and step.loop_target in targets
            self._round[step.step_id] = visit + again
        elif is_back:
            self._taken[step.step_id] = self._taken.get(step.step_id, 0) + 1

    def iteration(self, step_id: str) -> int:
        """Return which time round a router is at, from 1."""
        if isinstance(self._flow.by_id[step_id], LoopDecision):
            return self._round.get(step_id, 1)
        return 1 + self._taken.get(step_id, 0)
