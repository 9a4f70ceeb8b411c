"""Layout of a flow's picture: segments below each other, steps in layers, jumps in lanes."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from penstock.flows.checks.reachability import Reachability
from penstock.flows.definition import ON_ERROR, Flow, Segments, Step

LETTER = 7.2
"""Width of a letter in pixels; the font is monospaced."""
SMALL = 0.88
"""Width of a caption's letters relative to that."""
NODE_HEIGHT = 44.0
MAX_PER_ROW = 5
MAX_LETTERS = 26
MIN_WIDTH = 132.0
MISSING = "no such step"
_GAP, _ROW_GAP, _PADDING, _MARGIN = 24.0, 52.0, 26.0, 20.0
LABEL_LETTERS = 16
_LANE_PADDING = 14.0
_SLOTS = 5
_SLOT = 7.0
_WIDE = frozenset("WF")


class Box(Struct, frozen=True, kw_only=True):
    """A rectangle; `x` and `y` are its upper left corner."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """Horizontal middle."""
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        """Lower edge."""
        return self.y + self.height


class Node(Struct, frozen=True, kw_only=True):
    """A step; `step` is None if the flow refers to it but does not have it."""

    step_id: str
    box: Box
    step: Step | None

    @property
    def caption(self) -> str:
        """The line below the name: the agent or the kind."""
        return _caption(self.step)


class Lane(Struct, frozen=True, kw_only=True):
    """A jump, and the lane beside the steps in which it is drawn."""

    label: str
    source: Node
    target: Node
    x: float
    slot: int
    """Index among the jumps that leave or reach the same step; they are drawn side by side."""

    @property
    def words(self) -> str:
        """Its label, cut to the available width."""
        return fitted(self.label, LABEL_LETTERS)

    @property
    def width(self) -> float:
        """Width of its label."""
        return letters(self.words) * LETTER

    @property
    def is_back(self) -> bool:
        """Whether it leads up, or to the step itself."""
        return self.target.box.y <= self.source.box.y

    @property
    def leaves(self) -> tuple[float, float, float]:
        """Start point (x, y), and the depth at which it turns."""
        box, shift = self.source.box, _shift(self.slot)
        return box.middle + shift, box.bottom, box.bottom + 14 + _SLOT * (self.slot % _SLOTS)

    @property
    def arrives(self) -> tuple[float, float, float]:
        """End point (x, y), and the height at which it turns."""
        box, shift = self.target.box, _shift(self.slot + 2)
        return box.middle + shift, box.y, box.y - 12 - 3 * (self.slot % _SLOTS)


class Drawing(Struct, frozen=True, kw_only=True):
    """A flow with a place for each of its parts."""

    width: float
    height: float
    segments: Sequence[Box]
    nodes: Sequence[Node]
    needs: Sequence[tuple[Node, Node]]
    """Dependencies: each blocker with the step that waits for it."""
    lanes: Sequence[Lane]
    followed: Sequence[int]
    """Segments after which the next one may run without a jump."""


def drawing(flow: Flow) -> Drawing:
    """Compute the layout. Flows with errors can be drawn, too."""
    flow = only_known(flow)
    segments = Segments(flow.steps)
    arrows = [(step.step_id, *each) for step in flow.steps for each in jumps(step)]
    missing = dict.fromkeys(target for *_, target in arrows if target not in flow.by_id)
    boxes, nodes = _stacked(flow, segments, list(missing))
    by_id = {each.step_id: each for each in nodes}
    lanes = _lanes([(by_id[one], label, by_id[other]) for one, label, other in arrows], boxes)
    needs = [
        (by_id[before], by_id[step.step_id])
        for step in flow.steps
        for before in segments.blockers(step)
    ]
    return replace(_framed(boxes, nodes, needs, lanes), followed=followed(flow))


def letters(text: str) -> int:
    """Return the width of a text in letters."""
    return sum(2 if unicodedata.east_asian_width(each) in _WIDE else 1 for each in text)


def fitted(text: str, most: int) -> str:
    """Cut a text to a width in letters, and mark the cut."""
    if letters(text) <= most:
        return text
    kept = text[: most - 1]
    while letters(kept) > most - 1:
        kept = kept[:-1]
    return kept + "…"


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
    reachability = Reachability(steps)
    return [
        number for number in range(len(reachability.segments.all)) if reachability.follows(number)
    ]


def only_known(flow: Flow) -> Flow:
    """Return the flow without dependencies on steps that do not exist."""
    ids = flow.by_id
    steps = [
        replace(each, blocked_by=tuple(name for name in each.blocked_by if name in ids))
        for each in flow.steps
    ]
    return replace(flow, steps=tuple(steps))


def _stacked(
    flow: Flow, segments: Segments, missing: Sequence[str]
) -> tuple[list[Box], list[Node]]:
    """Place the segments below each other, and missing steps below the last."""
    node_width = _node_width(flow, missing)
    rows = [_rows(segment, segments) for segment in segments.all]
    most = max(len(row) for segment in rows for row in segment)
    width = most * node_width + (most - 1) * _GAP + 2 * _PADDING
    boxes, nodes, y = [], [], _MARGIN
    for segment in rows:
        height = len(segment) * (NODE_HEIGHT + _ROW_GAP) - _ROW_GAP + 2 * _PADDING
        boxes.append(Box(x=0, y=y, width=width, height=height))
        for number, row in enumerate(segment):
            top = y + _PADDING + number * (NODE_HEIGHT + _ROW_GAP)
            nodes += _in_a_row([(each, flow.by_id[each]) for each in row], width, top, node_width)
        y += height + _ROW_GAP
    for start in range(0, len(missing), most):
        nodes += _in_a_row(
            [(each, None) for each in missing[start : start + most]], width, y, node_width
        )
        y += NODE_HEIGHT + _ROW_GAP
    return boxes, nodes


def _node_width(flow: Flow, missing: Sequence[str]) -> float:
    """Return the width of the steps: that of the longest name or caption, up to a limit."""
    names = [letters(each) for each in [*flow.by_id, *missing]]
    captions = [letters(_caption(each)) * SMALL for each in flow.steps]
    return max(MIN_WIDTH, min(max(*names, *captions), MAX_LETTERS) * LETTER + 28)


def _caption(step: Step | None) -> str:
    if step is None:
        return MISSING
    worker = step.agent or step.kind
    most = f", at most {step.max_iterations}" if step.max_iterations is not None else ""
    return f"{worker}{most}{', then the end' if step.is_last else ''}"


def _rows(segment: Sequence[Step], segments: Segments) -> list[list[str]]:
    """Return the steps of a segment in rows: each is below all that it waits for.

    Dependencies on later steps are ignored: they are errors of the flow.
    """
    depths: dict[str, int] = {}
    layers: dict[int, list[str]] = {}
    for step in segment:
        before = (depths.get(name, -1) for name in segments.blockers(step))
        depth = depths[step.step_id] = 1 + max(before, default=-1)
        layers.setdefault(depth, []).append(step.step_id)
    return [
        layer[start : start + MAX_PER_ROW]
        for _, layer in sorted(layers.items())
        for start in range(0, len(layer), MAX_PER_ROW)
    ]


def _in_a_row(
    steps: Sequence[tuple[str, Step | None]], width: float, y: float, each_width: float
) -> list[Node]:
    """Place steps side by side, centred."""
    whole = len(steps) * each_width + (len(steps) - 1) * _GAP
    left = (width - whole) / 2
    return [
        Node(
            step_id=step_id,
            step=step,
            box=Box(
                x=left + place * (each_width + _GAP), y=y, width=each_width, height=NODE_HEIGHT
            ),
        )
        for place, (step_id, step) in enumerate(steps)
    ]


def _lanes(arrows: Iterable[tuple[Node, str, Node]], boxes: Sequence[Box]) -> list[Lane]:
    """Give each jump a lane: forward jumps on the right, backward jumps on the left."""
    columns = {True: _Columns(), False: _Columns()}
    used: dict[str, int] = {}
    lanes: list[tuple[Lane, int]] = []
    for source, label, target in arrows:
        slot = used[source.step_id] = used.get(source.step_id, -1) + 1
        lane = Lane(label=label, source=source, target=target, x=0, slot=slot)
        lanes.append((lane, columns[lane.is_back].take(lane)))
    right = boxes[0].width
    away = {side: each.middles() for side, each in columns.items()}
    return [
        replace(lane, x=-away[True][column] if lane.is_back else right + away[False][column])
        for lane, column in lanes
    ]


class _Columns:
    """The lanes on one side, with the heights that are in use in each."""

    def __init__(self) -> None:
        self._taken: list[list[tuple[float, float]]] = []
        self._widths: list[float] = []

    def take(self, lane: Lane) -> int:
        """Use the first lane that is free at the height of a jump. Return its number."""
        begin, end = sorted((lane.leaves[2], lane.arrives[2]))
        span = (begin - 8, max(end, begin + 20) + 8)
        number = next((n for n, each in enumerate(self._taken) if _is_free(each, span)), None)
        if number is None:
            number = len(self._taken)
            self._taken.append([])
            self._widths.append(0)
        self._taken[number].append(span)
        self._widths[number] = max(self._widths[number], lane.width)
        return number

    def middles(self) -> list[float]:
        """Return the distance of each lane's middle from the steps."""
        ends = accumulate(width + _LANE_PADDING for width in self._widths)
        return [end - width / 2 for end, width in zip(ends, self._widths, strict=True)]


def _is_free(taken: Sequence[tuple[float, float]], span: tuple[float, float]) -> bool:
    return all(span[1] <= begin or end <= span[0] for begin, end in taken)


def _framed(
    boxes: Sequence[Box],
    nodes: Sequence[Node],
    needs: Sequence[tuple[Node, Node]],
    lanes: Sequence[Lane],
) -> Drawing:
    """Move everything right of the left margin, and compute the size of the whole."""
    left = min([0.0, *(each.x - each.width / 2 for each in lanes)]) - _MARGIN
    right = max([boxes[0].width, *(each.x + each.width / 2 for each in lanes)]) + _MARGIN
    bottom = max(each.box.bottom for each in nodes) + _PADDING + 2 * _MARGIN
    moved = {
        each.step_id: replace(each, box=replace(each.box, x=each.box.x - left)) for each in nodes
    }
    return Drawing(
        width=right - left,
        height=bottom,
        segments=[replace(each, x=each.x - left) for each in boxes],
        nodes=list(moved.values()),
        needs=[(moved[one.step_id], moved[other.step_id]) for one, other in needs],
        lanes=[
            replace(
                each,
                source=moved[each.source.step_id],
                target=moved[each.target.step_id],
                x=each.x - left,
            )
            for each in lanes
        ],
        followed=(),
    )


def _shift(slot: int) -> float:
    """Return the horizontal offset of the n-th jump from the middle of a step."""
    return (0.0, 18.0, -18.0, 36.0, -36.0)[slot % _SLOTS]
