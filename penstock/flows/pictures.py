"""Pictures of flows: Mermaid text, and SVG that is drawn without a browser.

Both show segments as boxes, dependencies as arrows, and jumps with labels. Text of authors is
escaped for each format: Mermaid reads `<` as HTML, and XML forbids some characters.
"""

import re
from collections.abc import Iterator
from html import escape

from penstock.flows.definition import ON_ERROR, Flow, Segments, Step
from penstock.flows.picture_layout import (
    LETTER,
    SMALL,
    Box,
    Drawing,
    Lane,
    Node,
    drawing,
    fitted,
    followed,
    jumps,
    only_known,
)

_ENTITIES = str.maketrans({"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;"})
_REFUSED = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\u2029\u202f-\u2065\u206a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)
"""Characters that XML forbids, and those that change the direction of text."""
_ROUND = 10.0
_COLOURS = {
    "needs": "#3e4c59",
    "next": "#9aa5b1",
    "on": "#2b6cb0",
    "back": "#b7791f",
    "error": "#c53030",
}
"""Colours of lines by meaning."""
_STYLE = """\
text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#1f2933}
.small{font-size:10.5px;fill:#52606d}
.segment{fill:#f5f7fa;stroke:#cbd2d9}
.node rect{fill:#fff;stroke:#3e4c59;stroke-width:1.2}
.router rect{fill:#fff8e6;stroke:#b7791f}
.missing rect{fill:#fff5f5;stroke:#c53030;stroke-dasharray:4 3}
path{fill:none;stroke-width:1.2}
.next path{stroke-dasharray:2 3}
.error path{stroke-dasharray:5 3}
.label{paint-order:stroke;stroke:#fff;stroke-width:5px;stroke-linejoin:round}
"""


def mermaid(flow: Flow) -> str:
    """Return the flow as a Mermaid flowchart."""
    flow = only_known(flow)
    segments, ids = Segments(flow.steps), _Ids(flow)
    lines = ["flowchart TD"]
    for number, segment in enumerate(segments.all, 1):
        lines.append(f'  subgraph s{number}["{number}"]')
        lines += [
            f"    {ids.id_of(each.step_id)}{_shape(flow.by_id[each.step_id])}" for each in segment
        ]
        lines.append("  end")
    for step in flow.steps:
        here = ids.id_of(step.step_id)
        lines += [f"  {ids.id_of(each)} --> {here}" for each in segments.blockers(step)]
    lines += [f"  s{number + 1} --> s{number + 2}" for number in followed(flow)]
    for step in flow.steps:
        here = ids.id_of(step.step_id)
        lines += [f"  {here} -. {_quoted(why)} .-> {ids.to(target)}" for why, target in jumps(step)]
    return "\n".join(lines)


def svg(flow: Flow) -> str:
    """Return the flow as the text of an SVG file."""
    made = drawing(flow)
    width, height = _number(made.width), _number(made.height)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            f"<title>{_text(flow.name)}</title>",
            f"<style>{_STYLE}</style>",
            f"<defs>{''.join(map(_tip, _COLOURS))}</defs>",
            '<rect width="100%" height="100%" fill="#fff"/>',
            *_parts(made),
            "</svg>\n",
        ]
    )


def _parts(made: Drawing) -> Iterator[str]:
    for number, box in enumerate(made.segments, 1):
        label = f'<text class="small" x="{_number(box.x + 8)}" y="{_number(box.y + 15)}">'
        yield f'<g class="segment-{number}">{_rect(box, "segment")}{label}{number}</text></g>'
    for number in made.followed:
        one, other = made.segments[number], made.segments[number + 1]
        yield f'<g class="next">{_path(_down(one, other), "next")}</g>'
    for before, after in made.needs:
        line = _curve(before.box, after.box)
        names = f'data-from="{_text(before.step_id)}" data-to="{_text(after.step_id)}"'
        yield f'<g class="needs" {names}>{_path(line, "needs")}</g>'
    yield from map(_lane, made.lanes)
    yield from map(_node, made.nodes)
    yield from map(_label, made.lanes)


def _node(node: Node) -> str:
    step, box = node.step, node.box
    kind = "missing" if step is None else "router" if step.is_router else "plain"
    room = int((box.width - 16) / LETTER)
    name, small = _text(fitted(node.step_id, room)), _text(fitted(node.caption, int(room / SMALL)))
    whole = _text(f"{node.step_id}: {node.caption}")
    x = f'x="{_number(box.middle)}" text-anchor="middle"'
    return (
        f'<g class="node {kind}" data-step="{_text(node.step_id)}"><title>{whole}</title>'
        f"{_rect(box, round_=20 if kind == 'router' else 5)}"
        f'<text {x} y="{_number(box.y + 19)}">{name}</text>'
        f'<text class="small" {x} y="{_number(box.y + 35)}">{small}</text></g>'
    )


def _lane(lane: Lane) -> str:
    names = f'data-from="{_text(lane.source.step_id)}" data-to="{_text(lane.target.step_id)}"'
    whole = f"<title>{_text(lane.label)}</title>"
    return f'<g class="jump {_way(lane)}" {names}>{whole}{_path(_around(lane), _way(lane))}</g>'


def _label(lane: Lane) -> str:
    """Return the label of a jump, drawn above everything else."""
    y = (lane.leaves[2] + lane.arrives[2]) / 2 + 4
    colour = _COLOURS[_way(lane)]
    place = f'x="{_number(lane.x)}" y="{_number(y)}" text-anchor="middle"'
    return f'<text class="label" {place} style="fill:{colour}">{_text(lane.words)}</text>'


def _way(lane: Lane) -> str:
    return "error" if lane.label == ON_ERROR else "back" if lane.is_back else "on"


def _around(lane: Lane) -> str:
    """Return the path of a jump: down, sideways, along its lane, and to its step from above."""
    (x, y, turn), (to_x, to_y, to_turn) = lane.leaves, lane.arrives
    points = [(x, y), (x, turn), (lane.x, turn), (lane.x, to_turn), (to_x, to_turn), (to_x, to_y)]
    line = f"M{_point(*points[0])}"
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        begin, end = _near(corner, before), _near(corner, after)
        line += f"L{_point(*begin)}Q{_point(*corner)} {_point(*end)}"
    return f"{line}L{_point(*points[-1])}"


def _near(corner: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """Return a point near a corner, towards another point."""
    across, along = other[0] - corner[0], other[1] - corner[1]
    far = abs(across) + abs(along)
    part = min(_ROUND / far, 0.5) if far else 0.0
    return corner[0] + across * part, corner[1] + along * part


def _curve(one: Box, other: Box) -> str:
    begin, end, bend = (one.middle, one.bottom), (other.middle, other.y), 24.0
    return (
        f"M{_point(*begin)}C{_point(begin[0], begin[1] + bend)} "
        f"{_point(end[0], end[1] - bend)} {_point(*end)}"
    )


def _down(one: Box, other: Box) -> str:
    return f"M{_point(one.middle, one.bottom)}L{_point(other.middle, other.y)}"


def _path(line: str, kind: str) -> str:
    return f'<path d="{line}" stroke="{_COLOURS[kind]}" marker-end="url(#tip-{kind})"/>'


def _tip(kind: str) -> str:
    """Return the arrow head of one colour."""
    size = 'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"'
    shape = f'<path d="M0 0L8 4L0 8z" style="fill:{_COLOURS[kind]}"/>'
    return f'<marker id="tip-{kind}" {size}>{shape}</marker>'


def _rect(box: Box, kind: str = "", *, round_: int = 6) -> str:
    named = f' class="{kind}"' if kind else ""
    place = f'x="{_number(box.x)}" y="{_number(box.y)}"'
    size = f'width="{_number(box.width)}" height="{_number(box.height)}"'
    return f'<rect{named} {place} {size} rx="{round_}"/>'


def _point(x: float, y: float) -> str:
    return f"{_number(x)} {_number(y)}"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _text(text: str) -> str:
    """Escape a text for XML content and attributes."""
    return escape(_REFUSED.sub("\ufffd", text).replace("\n", " ")).replace("\t", " ")


class _Ids:
    """Mermaid ids of steps: numbers, because other ids may be Mermaid keywords."""

    def __init__(self, flow: Flow) -> None:
        self._numbers = {step_id: number for number, step_id in enumerate(flow.by_id, 1)}
        self._steps = len(self._numbers)

    def id_of(self, step_id: str) -> str:
        return f"n{self._numbers.setdefault(step_id, len(self._numbers) + 1)}"

    def to(self, step_id: str) -> str:
        """Return the end of an arrow. A missing step is shown with its name."""
        is_there = self._numbers.get(step_id, self._steps + 1) <= self._steps
        return self.id_of(step_id) if is_there else f"{self.id_of(step_id)}[{_quoted(step_id)}]"


def _shape(step: Step) -> str:
    label = _quoted(f"{step.step_id}: {step.kind}")
    return f"{{{label}}}" if step.is_router else f"[{label}]"


def _quoted(text: str) -> str:
    """Escape a label: Mermaid reads `<` as HTML and `#` as an entity."""
    return f'"{" ".join(text.split()).translate(_ENTITIES)}"'
