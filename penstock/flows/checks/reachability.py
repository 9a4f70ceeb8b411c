"""Which steps of a flow may run after which: dependencies, falling through, and jumps.

Guarantees: the answer is conservative. Every order that a run can have is covered; some that no
run has may be included, because conditions are not evaluated. A check that reports "never" is
therefore right. tests/flows/checks/test_reachability.py compares it with the
plans of the worked examples.

How: a run moves between segment entries. A segment is entered as a whole, or by a jump to one of
its steps, which activates that step and its dependents. Each entry has the steps that it
activates and the entries it may lead to; this graph is built once. Reachability is its transitive
closure, computed on strongly connected components in reverse topological order, so that loops
cost one pass. Sets of steps are bits of one integer: unions of sets with thousands of steps are
single operations. Relies on `Segments` and on the same rules for jumps as `runs/plan.py`; a rule
changed in one must change in the other.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from msgspec import Struct

from penstock.flows.definition import ON_COMPLETE, ON_ERROR, Route, Segments, Step

Graph = Sequence[Sequence[int]]
"""Node -> the nodes it leads to."""


class SegmentEntry(Struct):
    """A way to enter a segment: from the segment before, or by a jump."""

    segment: int
    active: int
    """Bits of the steps that it activates."""
    steps: tuple[Step, ...]
    falls: bool = False
    """Control may continue with the next segment."""
    is_bound: bool = False
    """A loop through this entry is limited, or a person is asked in each iteration."""


class Reachability:
    """Answers which steps of a flow may run after which."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.segments = Segments(steps)
        self.order = {step.step_id: number for number, step in enumerate(steps)}
        self._members = [
            tuple(steps[self.order[step.step_id]] for step in segment)
            for segment in self.segments.all
        ]
        # The order of these assignments matters: each uses the ones before it.
        self._dependents = self._dependents_of(steps)
        self._routes = {step.step_id: tuple(self._possible_routes(step)) for step in steps}
        self._falling = {step.step_id for step in steps if self._may_fall(step)}
        self._entries = [
            self._entry(number, members) for number, members in enumerate(self._members)
        ]
        targets = dict.fromkeys(
            route.target for routes in self._routes.values() for route in routes
        )
        self._jumps = {target: len(self._entries) + n for n, target in enumerate(targets)}
        self._entries += [self._jump_entry(target) for target in targets]
        self._exits = [self._exits_of(entry) for entry in self._entries]
        self._of_segment: dict[int, list[int]] = {}
        for number, entry in enumerate(self._entries):
            self._of_segment.setdefault(entry.segment, []).append(number)

    def routes(self, step: Step) -> Sequence[Route]:
        """Return the jumps of a step that a run can make. Their targets exist."""
        return self._routes[step.step_id]

    def waits(self, later: str, step_id: str) -> bool:
        """Whether `later` depends on the step within their segment, so that no jump is needed."""
        return later != step_id and bool(self._dependents[step_id] & self._bit(later))

    def is_back(self, target: str, step_id: str) -> bool:
        """Whether the target is the step itself or comes before it in the file."""
        return self.order[target] <= self.order[step_id]

    def may_precede(self, first: str, then: str) -> bool:
        """Whether a run can get from one step to the start of another."""
        if self.waits(then, first):
            return True
        first_bit, then_bit = self._bit(first), self._bit(then)
        return any(
            self._entries[number].active & first_bit and self._after[number] & then_bit
            for number in self._of_segment[self.segments.index[first]]
        )

    def leads_back(self, target: str, step_id: str) -> bool:
        """Whether a run can get from a jump to `target` back to the step."""
        return self._is_within(self._jumps[target], step_id, self._after)

    def is_unbounded(self, target: str, step_id: str) -> bool:
        """Whether it can do so without passing anything that limits a loop."""
        number = self._jumps[target]
        is_bound = self._entries[number].is_bound
        return not is_bound and self._is_within(number, step_id, self._after_unbound)

    def falls_from(self, target: str) -> Iterator[tuple[Sequence[Step], Sequence[Step]]]:
        """Yield the segments that run after a jump without another jump, with the steps before."""
        entry, ran = self._entries[self._jumps[target]], list[Step]()
        while entry.falls and not entry.steps[0].is_router:
            ran += entry.steps
            if entry.segment + 1 == len(self._members):
                return
            entry = self._entries[entry.segment + 1]
            yield tuple(ran), entry.steps

    def follows(self, segment: int) -> bool:
        """Whether the next segment may run after this one without a jump to it.

        For a segment that is never entered: whether it could, if it were entered.
        """
        numbers = self._of_segment[segment]
        entered = [number for number in numbers if number in self._entered]
        is_last = segment + 1 == len(self._members)
        return not is_last and any(self._entries[number].falls for number in entered or numbers)

    def runs_anyway(self, target: str) -> bool:
        """Whether a step may also run if no step fails."""
        segment, bit = self.segments.index[target], self._bit(target)
        if not segment or any(self._entries[n].falls for n in self._of_segment[segment - 1]):
            return True
        without_errors = {
            route.target
            for members in self._members
            for step in members
            for route in self.routes(step)
            if route.field != ON_ERROR
        }
        return any(self._entries[self._jumps[name]].active & bit for name in without_errors)

    @cached_property
    def _entered(self) -> set[int]:
        """The entries that a run can reach."""
        reached, queue = set[int](), [0] if self._entries else []
        while queue:
            number = queue.pop()
            if number not in reached:
                reached.add(number)
                queue += self._exits[number]
        return reached

    @cached_property
    def _after(self) -> list[int]:
        return self._closed([*self._exits])

    @cached_property
    def _after_unbound(self) -> list[int]:
        # Without the limited entries: what is still cyclic here can repeat without end.
        unlimited = [
            []
            if entry.is_bound
            else [number for number in exits if not self._entries[number].is_bound]
            for entry, exits in zip(self._entries, self._exits, strict=True)
        ]
        return self._closed(unlimited)

    def _closed(self, exits: Sequence[Sequence[int]]) -> list[int]:
        """Return for each entry the bits of the steps that may run after it."""
        after = [0] * len(exits)
        # A component comes after everything it leads to, so `after` of its exits is final.
        for component in components(exits):
            reached = 0
            for exit_ in {exit_ for number in component for exit_ in exits[number]}:
                reached |= self._entries[exit_].active | after[exit_]
            for number in component:
                after[number] = reached
        return after

    def _is_within(self, number: int, step_id: str, after: Sequence[int]) -> bool:
        return bool((self._entries[number].active | after[number]) & self._bit(step_id))

    def _bit(self, step_id: str) -> int:
        return 1 << self.order[step_id]

    def _possible_routes(self, step: Step) -> Iterator[Route]:
        for route in step.routes():
            if route.target not in self.order:
                continue
            if route.field != ON_COMPLETE or not self.waits(route.target, step.step_id):
                yield route

    def _dependents_of(self, steps: Sequence[Step]) -> dict[str, int]:
        """Return for each step the bits of the step and of everything that depends on it."""
        # Blockers come before the steps they block, so in reverse order dependents are done first.
        dependents: dict[str, int] = {}
        for step in reversed(steps):
            bits = self._bit(step.step_id)
            for later in self.segments.blocked_by(step.step_id):
                bits |= dependents[later]
            dependents[step.step_id] = bits
        return dependents

    def _jump_entry(self, target: str) -> SegmentEntry:
        reached, segment = self._dependents[target], self.segments.index[target]
        steps = (step for step in self._members[segment] if reached & self._bit(step.step_id))
        return self._entry(segment, tuple(steps))

    def _entry(self, segment: int, steps: tuple[Step, ...]) -> SegmentEntry:
        return SegmentEntry(
            segment=segment,
            active=sum(self._bit(step.step_id) for step in steps),
            steps=steps,
            falls=all(step.step_id in self._falling for step in steps),
            is_bound=any(step.limits_loops for step in steps),
        )

    def _may_fall(self, step: Step) -> bool:
        """Whether control may continue with the next segment after this step."""
        fields = {route.field for route in self.routes(step)}
        if not step.is_router:
            return ON_COMPLETE not in fields and not step.is_last
        targets = (target for target in step.branches.values() if target in self.order)
        is_forced = any(self.is_back(target, step.step_id) for target in targets)
        return not fields - {ON_ERROR} or (step.max_iterations is not None and is_forced)

    def _exits_of(self, entry: SegmentEntry) -> list[int]:
        """Return the numbers of the entries that an entry may lead to."""
        targets = {route.target for step in entry.steps for route in self.routes(step)}
        exits = [self._jumps[target] for target in targets]
        if entry.falls and entry.segment + 1 < len(self._members):
            exits.append(entry.segment + 1)
        return sorted({*exits, *self._together(entry)})

    def _together(self, entry: SegmentEntry) -> Iterator[int]:
        """Yield entries visited after this one because a fork chose several branches at once.

        An `on_complete` jump is postponed until the last chosen branch has finished.
        """
        chosen, held = self._several.get(entry.segment, (0, 0))
        for number in self._jumps.values():
            is_later = self._entries[number].segment > entry.segment
            if held >> number & 1 or (is_later and chosen >> number & 1):
                yield number

    @cached_property
    def _several(self) -> dict[int, tuple[int, int]]:
        """Segment -> entries that a multiple-choice fork chooses, and postponed jumps, as bits."""
        by_segment: dict[int, tuple[int, int]] = {}
        for members in self._members:
            for step in members:
                if step.is_multiple:
                    targets = {name for name in step.branches.values() if name in self.order}
                    own = sum(1 << self._jumps[name] for name in targets)
                    waiting = sum(1 << number for number in set(self._held(targets)))
                    for segment in {self.segments.index[name] for name in targets}:
                        chosen, held = by_segment.get(segment, (0, 0))
                        by_segment[segment] = (chosen | own, held | waiting)
        return by_segment

    def _held(self, targets: Iterable[str]) -> Iterator[int]:
        for target in targets:
            for step in self._entries[self._jumps[target]].steps:
                for route in self.routes(step):
                    if route.field == ON_COMPLETE:
                        yield self._jumps[route.target]


def components(graph: Graph) -> Iterator[list[int]]:
    """Yield the strongly connected components of a graph, each after the ones that it leads to.

    Tarjan's algorithm, with an explicit stack: a flow of 20,000 steps in a ring would exceed the
    recursion limit of Python (shown by test_a_ring_of_20000_nodes_needs_no_recursion).
    """
    index: dict[int, int] = {}
    lowest: dict[int, int] = {}
    path: list[int] = []
    is_done = [False] * len(graph)
    for root in range(len(graph)):
        work = [] if root in index else [(root, iter(graph[root]))]
        while work:
            node, ahead = work[-1]
            if node not in index:
                index[node] = lowest[node] = len(index)
                path.append(node)
            following = next(ahead, None)
            if following is not None:
                if following not in index:
                    work.append((following, iter(graph[following])))
                elif not is_done[following]:
                    lowest[node] = min(lowest[node], index[following])
                continue
            work.pop()
            if work:
                above = work[-1][0]
                lowest[above] = min(lowest[above], lowest[node])
            if lowest[node] == index[node]:
                component = list(_popped(path, node))
                for member in component:
                    is_done[member] = True
                yield component


def _popped(path: list[int], last: int) -> Iterator[int]:
    """Remove nodes from the end of a path, up to and including `last`."""
    while (node := path.pop()) != last:
        yield node
    yield last
