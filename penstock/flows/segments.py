"""The segments of a flow: steps that are scheduled together, and what in them waits for what."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from penstock.flows.definition import Step, StepKind


class Segments:
    """Steps that are scheduled together: a run of agent steps, or one other step."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.all = [tuple(each) for each in _cut(steps)]
        self.of = {
            step.step_id: number for number, segment in enumerate(self.all) for step in segment
        }
        """The segment of each step."""
        self._blocks: dict[str, list[str]] = {}
        for step in steps:
            for before in self.blockers(step):
                self._blocks.setdefault(before, []).append(step.step_id)

    def blockers(self, step: Step) -> list[str]:
        """Return what a step waits for: what stands in an earlier segment is over anyway."""
        own = self.of[step.step_id]
        return [each for each in dict.fromkeys(step.blocked_by) if self.of[each] == own]

    def blocked_by(self, step_id: str) -> Sequence[str]:
        """Return what waits for a step."""
        return self._blocks.get(step_id, ())

    def reach(self, targets: Iterable[str]) -> set[str]:
        """Return the targets and all that is blocked by them, directly or not."""
        found, ahead = set[str](), deque(targets)
        while ahead:
            step_id = ahead.popleft()
            if step_id not in found:
                found.add(step_id)
                ahead.extend(self.blocked_by(step_id))
        return found

    def group(self, targets: Iterable[str]) -> list[tuple[str, ...]]:
        """Return targets by segment, in the order of the file."""
        groups: dict[int, dict[str, None]] = {}
        for target in targets:
            groups.setdefault(self.of[target], {})[target] = None
        return [tuple(groups[number]) for number in sorted(groups)]


def _cut(steps: Iterable[Step]) -> Iterator[list[Step]]:
    segment: list[Step] = []
    for step in steps:
        if step.kind is not StepKind.AGENT:
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
