"""A flow as SVG: read as XML, with every step and every way, whatever the names are."""

from xml.etree import ElementTree as ET

import pytest

from penstock.flows.pictures.graph import jumps
from penstock.flows.pictures.svg import svg
from tests.flows.texts import read
from tests.kit.worked import MANY, W6, WORKED

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "</text></svg><script>alert(1)</script>",
    '"\' onload="alert(1)',
    "]]> & &amp; <!-- --> <?x ?>",
    "\u202egnp.exe\u2066",
    "日本語" * 20,
    "a\nb\tc",
]


def drawn(steps: str) -> ET.Element:
    flow = read(steps).flow
    assert flow is not None
    return ET.fromstring(svg(flow))  # noqa: S314  it is our own


def parts(picture: ET.Element, kind: str) -> list[ET.Element]:
    return [each for each in picture.iter(f"{SVG}g") if kind in each.get("class", "").split()]


@pytest.mark.parametrize("steps", [*WORKED.values(), MANY], ids=[*WORKED, "30 steps"])
def test_every_step_every_wait_and_every_way_is_there(steps: str) -> None:
    """Segments as boxes, dependencies, jumps with labels."""
    flow = read(steps).flow
    assert flow is not None
    picture = drawn(steps)
    assert {each.get("data-step") for each in parts(picture, "node")} == set(flow.by_id)
    ways = [(each.get("data-from"), each.get("data-to")) for each in parts(picture, "jump")]
    assert ways == [(step.step_id, to) for step in flow.steps for _, to in jumps(step)]
    labels = [each.text for each in picture.iter(f"{SVG}text") if each.get("class") == "label"]
    assert labels == [label for step in flow.steps for label, _ in jumps(step)]
    waits = {(each.get("data-from"), each.get("data-to")) for each in parts(picture, "needs")}
    assert waits <= {(one, step.step_id) for step in flow.steps for one in step.blocked_by}


def test_no_two_boxes_of_steps_overlap() -> None:
    boxes = [
        [float(rect.get(name, "")) for name in ("x", "y", "width", "height")]
        for each in parts(drawn(MANY), "node")
        for rect in each.iter(f"{SVG}rect")
    ]
    assert len(boxes) == 30
    for number, (x, y, width, height) in enumerate(boxes):
        for left, top, *_ in boxes[:number]:
            assert abs(x - left) >= width or abs(y - top) >= height


def test_a_way_back_looks_different_from_a_way_on() -> None:
    ways = [each.get("class") for each in parts(drawn(W6), "jump")]
    assert ways == ["jump back", "jump on"]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_only_names(name: str) -> None:
    quoted = name.encode("unicode_escape").decode().replace('"', '\\"')
    steps = (
        f'- {{id: a, agent: "{quoted}"}}\n- {{id: b, question: q, branches: {{"{quoted}": a}}}}\n'
    )
    picture = drawn(steps)
    tags = {each.tag.removeprefix(SVG) for each in picture.iter()}
    assert tags == {"svg", "title", "style", "defs", "marker", "path", "rect", "g", "text"}
    assert not any(key.startswith("on") for each in picture.iter() for key in each.attrib)
    said = "".join(picture.itertext())
    assert not set("\u202e\u2066\n") & set(said.replace("\n", "", said.count("\n")))
    assert any(each.text and "�" in each.text for each in picture.iter()) == ("\u202e" in name)


def test_what_xml_does_not_take_is_replaced() -> None:
    steps = '- {id: a, agent: "\\x00\\x1b[2J\\uffff"}\n'
    [title] = [each.text for each in parts(drawn(steps), "node")[0].iter(f"{SVG}title")]
    assert title == "a: ��[2J�"


def test_the_same_flow_is_the_same_picture() -> None:
    flow = read(W6).flow
    assert flow is not None
    assert svg(flow) == svg(flow)
    assert svg(flow).endswith("</svg>\n")
