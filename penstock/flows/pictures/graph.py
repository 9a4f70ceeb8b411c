"""Mermaid text of a flow: segments as boxes, dependencies as arrows, jumps with labels."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from penstock.flows.checks.reachability import Reachability
from penstock.flows.definition import ON_ERROR, Flow, Segments, Step

_ENTITIES = str.maketrans({"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;"})


def mermaid(flow: Flow) -> str:
    """Return the flow as a Mermaid flowchart."""
    flow = only_known(flow)
    segments, ids = Segments(flow.steps), _Ids(flow)
    lines = ["flowchart TD"]
    for number, segment in enumerate(segments.all, 1):
        lines.append(f'  subgraph s{number}["{number}"]')
        lines += [
            f"    {ids.of(each.step_id)}{_shape(flow.by_id[each.step_id])}" for each in segment
        ]
        lines.append("  end")
    for step in flow.steps:
        here = ids.of(step.step_id)
        lines += [f"  {ids.of(each)} --> {here}" for each in segments.blockers(step)]
    lines += [f"  s{number + 1} --> s{number + 2}" for number in followed(flow)]
    for step in flow.steps:
        here = ids.of(step.step_id)
        lines += [f"  {here} -. {_quoted(why)} .-> {ids.to(target)}" for why, target in jumps(step)]
    return "\n".join(lines)


class _Ids:
    """Mermaid ids of steps: numbers, because other ids may be Mermaid keywords."""

    def __init__(self, flow: Flow) -> None:
        self._numbers = {step_id: number for number, step_id in enumerate(flow.by_id, 1)}
        self._steps = len(self._numbers)

    def of(self, step_id: str) -> str:
        return f"n{self._numbers.setdefault(step_id, len(self._numbers) + 1)}"

    def to(self, step_id: str) -> str:
        """Return the end of an arrow. A missing step is shown with its name."""
        is_there = self._numbers.get(step_id, self._steps + 1) <= self._steps
        return self.of(step_id) if is_there else f"{self.of(step_id)}[{_quoted(step_id)}]"


def jumps(step: Step) -> Iterator[tuple[str, str]]:
    """Yield the jumps of a step: label and target."""
    yield from ((route.name, route.target) for route in step.decisions())
    if step.on_complete is not None:
        yield "on_complete", step.on_complete
    if step.on_error is not None:
        yield ON_ERROR, step.on_error


def followed(flow: Flow) -> Sequence[int]:
    """Return the segments, from 0, after which the next one may run without a jump to it.

    None follows a step with `end: true` or `on_complete`, nor a step that always jumps.
    """
    order = {step_id: number for number, step_id in enumerate(flow.by_id)}
    steps = [
        replace(each, blocked_by=tuple(n for n in each.blocked_by if order[n] < order[step_id]))
        for step_id, each in flow.by_id.items()
    ]  # a wait for a later step is an error; such a flow is drawn all the same
    ways = Reachability(steps)
    return [number for number in range(len(ways.segments.all)) if ways.follows(number)]


def only_known(flow: Flow) -> Flow:
    """Return the flow without dependencies on steps that do not exist."""
    ids = flow.by_id
    steps = [
        replace(each, blocked_by=tuple(name for name in each.blocked_by if name in ids))
        for each in flow.steps
    ]
    return replace(flow, steps=tuple(steps))


def _shape(step: Step) -> str:
    label = _quoted(f"{step.step_id}: {step.kind}")
    return f"{{{label}}}" if step.is_router else f"[{label}]"


def _quoted(text: str) -> str:
    """Escape a label: Mermaid reads `<` as HTML and `#` as an entity."""
    return f'"{" ".join(text.split()).translate(_ENTITIES)}"'
