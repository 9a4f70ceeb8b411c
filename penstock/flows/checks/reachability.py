"""The ways through a flow: what may run after what, by dependencies, falling through and jumps.

A segment is entered as a whole, or by a jump to one step of it. Each such arrival has the steps
that are active then, and leads on to others; sets of steps are bits of a number.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from penstock.flows.definition import (
    AgentDecision,
    AnyStep,
    CodeDecision,
    Conditional,
    Fork,
    LoopDecision,
)
from penstock.flows.segments import Segments

ON_COMPLETE, ON_ERROR = "on_complete", "on_error"
PRESENT, ABSENT = "present", "absent"
LOOP_TARGET, EXIT_TARGET, BRANCHES = "loop_target", "exit_target", "branches"


Graph = Sequence[Sequence[int]]
"""Where each node leads to."""


class Route(Struct, frozen=True):
    """A step that another one may jump to."""

    field: str
    target: str
    branch: str = ""
    """The name of the branch, if it is one."""


class SegmentEntry(Struct):
    """A way to enter a segment."""

    segment: int
    active: int
    """The steps that run then."""
    steps: tuple[AnyStep, ...]
    falls: bool = False
    """Control may go on to the next segment."""
    is_bound: bool = False
    """Who goes round by it does so a limited number of times, or asks a person."""


def routes_of(step: AnyStep) -> Iterator[Route]:
    """Yield where a step may jump to, whether or not there is such a step."""
    if step.on_complete is not None:
        yield Route(ON_COMPLETE, step.on_complete)
    if step.on_error is not None:
        yield Route(ON_ERROR, step.on_error)
    if isinstance(step, Conditional):
        yield Route(PRESENT, step.present)
        yield Route(ABSENT, step.absent)
    elif isinstance(step, LoopDecision):
        yield Route(LOOP_TARGET, step.loop_target)
        yield Route(EXIT_TARGET, step.exit_target)
    else:
        for name, target in branches_of(step).items():
            yield Route(BRANCHES, target, name)


def branches_of(step: AnyStep) -> Mapping[str, str]:
    """Return the branches of a fork or a decision; of other steps there are none."""
    return step.branches if isinstance(step, Fork | AgentDecision | CodeDecision) else {}


class Reachability:
    """What may run after what."""

    def __init__(self, steps: Sequence[AnyStep]) -> None:
        self.segments = Segments(steps)
        self.order = {step.step_id: number for number, step in enumerate(steps)}
        self._members = [
            tuple(steps[self.order[each.step_id]] for each in segment)
            for segment in self.segments.all
        ]
        self._dependents = self._waiting(steps)
        self._routes = {step.step_id: tuple(self._made(step)) for step in steps}
        self._falling = {step.step_id for step in steps if self._may_fall(step)}
        self._arrivals = [
            self._arrival(number, members) for number, members in enumerate(self._members)
        ]
        made = dict.fromkeys(each.target for routes in self._routes.values() for each in routes)
        self._jumps = {target: len(self._arrivals) + n for n, target in enumerate(made)}
        self._arrivals += [self._jumped(target) for target in made]
        self._exits = [self._exits_of(each) for each in self._arrivals]
        self._of_segment: dict[int, list[int]] = {}
        for number, arrival in enumerate(self._arrivals):
            self._of_segment.setdefault(arrival.segment, []).append(number)

    def routes(self, step: AnyStep) -> Sequence[Route]:
        """Return the jumps of a step that are made: to steps that are there, and do not wait."""
        return self._routes[step.step_id]

    def waits(self, later: str, step_id: str) -> bool:
        """Whether a step comes after the other one anyway, in the same segment."""
        return later != step_id and bool(self._dependents[step_id] & self._bit(later))

    def is_back(self, target: str, step_id: str) -> bool:
        """Whether a step stands at or before another one."""
        return self.order[target] <= self.order[step_id]

    def may_precede(self, first: str, then: str) -> bool:
        """Whether there is a way from one step to the start of another one."""
        if self.waits(then, first):
            return True
        bit, wanted = self._bit(first), self._bit(then)
        return any(
            self._arrivals[each].active & bit and self._after[each] & wanted
            for each in self._of_segment[self.segments.of[first]]
        )

    def leads_back(self, target: str, step_id: str) -> bool:
        """Whether a jump to a step leads to another one, by whatever way."""
        return self._is_within(self._jumps[target], step_id, self._after)

    def is_unbounded(self, target: str, step_id: str) -> bool:
        """Whether a jump to a step leads to another one past everything that bounds a loop."""
        arrival = self._jumps[target]
        is_bound = self._arrivals[arrival].is_bound
        return not is_bound and self._is_within(arrival, step_id, self._after_unbound)

    def falls_from(self, target: str) -> Iterator[tuple[Sequence[AnyStep], Sequence[AnyStep]]]:
        """Yield each segment that runs after a jump without another one, and what ran before."""
        arrival, ran = self._arrivals[self._jumps[target]], list[AnyStep]()
        while arrival.falls and not arrival.steps[0].is_router:
            ran += arrival.steps
            if arrival.segment + 1 == len(self._members):
                return
            arrival = self._arrivals[arrival.segment + 1]
            yield tuple(ran), arrival.steps

    def follows(self, segment: int) -> bool:
        """Whether the next segment may run after this one without a jump to it.

        Of a segment that nothing leads to, whether it would.
        """
        here = self._of_segment[segment]
        entered = [each for each in here if each in self._entered]
        is_last = segment + 1 == len(self._members)
        return not is_last and any(self._arrivals[each].falls for each in entered or here)

    def runs_anyway(self, target: str) -> bool:
        """Whether a step also runs when nothing fails."""
        segment, bit = self.segments.of[target], self._bit(target)
        if not segment or any(self._arrivals[n].falls for n in self._of_segment[segment - 1]):
            return True
        calm = {
            route.target
            for members in self._members
            for step in members
            for route in self.routes(step)
            if route.field != ON_ERROR
        }
        return any(self._arrivals[self._jumps[each]].active & bit for each in calm)

    @cached_property
    def _entered(self) -> set[int]:
        """The arrivals that a run may come to."""
        found, ahead = set[int](), [0] if self._arrivals else []
        while ahead:
            arrival = ahead.pop()
            if arrival not in found:
                found.add(arrival)
                ahead += self._exits[arrival]
        return found

    @cached_property
    def _after(self) -> list[int]:
        return self._closed([*self._exits])

    @cached_property
    def _after_unbound(self) -> list[int]:
        free = [
            []
            if arrival.is_bound
            else [each for each in exits if not self._arrivals[each].is_bound]
            for arrival, exits in zip(self._arrivals, self._exits, strict=True)
        ]
        return self._closed(free)

    def _closed(self, exits: Sequence[Sequence[int]]) -> list[int]:
        """Return for each arrival the steps that may run once it is left."""
        after = [0] * len(exits)
        for component in components(exits):
            reached = 0
            for to in {to for each in component for to in exits[each]}:
                reached |= self._arrivals[to].active | after[to]
            for each in component:
                after[each] = reached
        return after

    def _is_within(self, arrival: int, step_id: str, after: Sequence[int]) -> bool:
        return bool((self._arrivals[arrival].active | after[arrival]) & self._bit(step_id))

    def _bit(self, step_id: str) -> int:
        return 1 << self.order[step_id]

    def _made(self, step: AnyStep) -> Iterator[Route]:
        for route in routes_of(step):
            if route.target not in self.order:
                continue
            if route.field != ON_COMPLETE or not self.waits(route.target, step.step_id):
                yield route

    def _waiting(self, steps: Sequence[AnyStep]) -> dict[str, int]:
        """Return each step and all that waits for it, directly or not."""
        found: dict[str, int] = {}
        for step in reversed(steps):
            bits = self._bit(step.step_id)
            for later in self.segments.blocked_by(step.step_id):
                bits |= found[later]
            found[step.step_id] = bits
        return found

    def _jumped(self, target: str) -> SegmentEntry:
        reached, segment = self._dependents[target], self.segments.of[target]
        steps = (each for each in self._members[segment] if reached & self._bit(each.step_id))
        return self._arrival(segment, tuple(steps))

    def _arrival(self, segment: int, steps: tuple[AnyStep, ...]) -> SegmentEntry:
        return SegmentEntry(
            segment=segment,
            active=sum(self._bit(each.step_id) for each in steps),
            steps=steps,
            falls=all(step.step_id in self._falling for step in steps),
            is_bound=any(map(_bounds, steps)),
        )

    def _may_fall(self, step: AnyStep) -> bool:
        """Whether control may go on behind a step."""
        fields = {route.field for route in self.routes(step)}
        if not step.is_router:
            return ON_COMPLETE not in fields and not step.is_last
        back = (each for each in branches_of(step).values() if each in self.order)
        is_forced = any(self.is_back(each, step.step_id) for each in back)
        return not fields - {ON_ERROR} or (step.max_iterations is not None and is_forced)

    def _exits_of(self, arrival: SegmentEntry) -> list[int]:
        """Return the arrivals that an arrival may lead to."""
        targets = {route.target for step in arrival.steps for route in self.routes(step)}
        found = [self._jumps[target] for target in targets]
        if arrival.falls and arrival.segment + 1 < len(self._members):
            found.append(arrival.segment + 1)
        return sorted({*found, *self._together(arrival)})

    def _together(self, arrival: SegmentEntry) -> Iterator[int]:
        """Yield what is visited after an arrival because both were chosen at once.

        A jump on success waits until the last of them is over.
        """
        chosen, held = self._several.get(arrival.segment, (0, 0))
        for number in self._jumps.values():
            is_later = self._arrivals[number].segment > arrival.segment
            if held >> number & 1 or (is_later and chosen >> number & 1):
                yield number

    @cached_property
    def _several(self) -> dict[int, tuple[int, int]]:
        """What forks with several answers lead to, and their jumps on success, by segment."""
        found: dict[int, tuple[int, int]] = {}
        for members in self._members:
            for step in members:
                if isinstance(step, Fork) and step.is_multiple:
                    targets = {each for each in step.branches.values() if each in self.order}
                    own = sum(1 << self._jumps[each] for each in targets)
                    waiting = sum(1 << each for each in set(self._held(targets)))
                    for segment in {self.segments.of[each] for each in targets}:
                        chosen, held = found.get(segment, (0, 0))
                        found[segment] = (chosen | own, held | waiting)
        return found

    def _held(self, targets: Iterable[str]) -> Iterator[int]:
        for target in targets:
            for step in self._arrivals[self._jumps[target]].steps:
                for route in self.routes(step):
                    if route.field == ON_COMPLETE:
                        yield self._jumps[route.target]


def _bounds(step: AnyStep) -> bool:
    """Whether a loop through a step ends, or goes on because a person wants it to."""
    is_capped = step.max_iterations is not None
    return isinstance(step, LoopDecision | Fork) or (step.is_router and is_capped)


def components(graph: Graph) -> Iterator[list[int]]:
    """Yield the nodes that lead to each other; what a component leads to comes before it."""
    found: dict[int, int] = {}
    lowest: dict[int, int] = {}
    path: list[int] = []
    is_done = [False] * len(graph)
    for root in range(len(graph)):
        work = [] if root in found else [(root, iter(graph[root]))]
        while work:
            node, ahead = work[-1]
            if node not in found:
                found[node] = lowest[node] = len(found)
                path.append(node)
            following = next(ahead, None)
            if following is not None:
                if following not in found:
                    work.append((following, iter(graph[following])))
                elif not is_done[following]:
                    lowest[node] = min(lowest[node], found[following])
                continue
            work.pop()
            if work:
                above = work[-1][0]
                lowest[above] = min(lowest[above], lowest[node])
            if lowest[node] == found[node]:
                component = list(_popped(path, node))
                for each in component:
                    is_done[each] = True
                yield component


def _popped(path: list[int], last: int) -> Iterator[int]:
    """Take nodes off the end of a path, up to one of them."""
    while (node := path.pop()) != last:
        yield node
    yield last
