"""The segments of a flow: groups of steps that are scheduled together.

A segment is a series of consecutive agent steps, or one step of another kind. A step with
`last: true` ends its segment. Dependencies (`blockedBy`) matter only within a segment: an earlier
segment is always finished before a later one starts.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from penstock.flows.definition import Step


class Segments:
    """The segments of a flow, and the dependencies inside each segment."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.all = [tuple(segment) for segment in _cut(steps)]
        self.of = {
            step.step_id: number for number, segment in enumerate(self.all) for step in segment
        }
        """Step id -> index of its segment."""
        self._blocks: dict[str, list[str]] = {}
        for step in steps:
            for before in self.blockers(step):
                self._blocks.setdefault(before, []).append(step.step_id)

    def blockers(self, step: Step) -> list[str]:
        """Return the steps in the same segment that must finish before this step starts."""
        segment = self.of[step.step_id]
        return [each for each in dict.fromkeys(step.blocked_by) if self.of[each] == segment]

    def blocked_by(self, step_id: str) -> Sequence[str]:
        """Return the steps that wait for this one."""
        return self._blocks.get(step_id, ())

    def reach(self, targets: Iterable[str]) -> set[str]:
        """Return the targets and everything that depends on them, directly or not."""
        reached, queue = set[str](), deque(targets)
        while queue:
            step_id = queue.popleft()
            if step_id not in reached:
                reached.add(step_id)
                queue.extend(self.blocked_by(step_id))
        return reached

    def group(self, targets: Iterable[str]) -> list[tuple[str, ...]]:
        """Group targets by segment, in file order."""
        groups: dict[int, dict[str, None]] = {}
        for target in targets:
            groups.setdefault(self.of[target], {})[target] = None
        return [tuple(groups[number]) for number in sorted(groups)]


def _cut(steps: Iterable[Step]) -> Iterator[list[Step]]:
    segment: list[Step] = []
    for step in steps:
        if not step.is_agent_work:
            if segment:
                yield segment
            yield [step]
            segment = []
            continue
        segment.append(step)
        if step.is_last:
            yield segment
            segment = []
    if segment:
        yield segment
