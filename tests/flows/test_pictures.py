"""Mermaid text and SVG pictures of flows."""

from xml.etree import ElementTree as ET

import pytest

from penstock.flows.picture_layout import jumps
from penstock.flows.pictures import mermaid, svg
from tests.flows.texts import read
from tests.kit.worked_examples import MANY, W1, W6, WORKED

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
def test_every_step_dependency_and_jump_is_drawn(steps: str) -> None:
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


def test_a_backward_jump_looks_different_from_a_forward_one() -> None:
    ways = [each.get("class") for each in parts(drawn(W6), "jump")]
    assert ways == ["jump back", "jump on"]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_escaped(name: str) -> None:
    quoted = name.encode("unicode_escape").decode().replace('"', '\\"')
    steps = (
        f'- {{id: a, agent: "{quoted}"}}\n- {{id: b, question: q, branches: {{"{quoted}": a}}}}\n'
    )
    picture = drawn(steps)
    tags = {each.tag.removeprefix(SVG) for each in picture.iter()}
    assert tags == {"svg", "title", "style", "defs", "marker", "path", "rect", "g", "text"}
    assert not any(key.startswith("on") for each in picture.iter() for key in each.attrib)
    message = "".join(picture.itertext())
    assert not set("\u202e\u2066\n") & set(message.replace("\n", "", message.count("\n")))
    assert any(each.text and "�" in each.text for each in picture.iter()) == ("\u202e" in name)


def test_characters_that_xml_forbids_are_replaced() -> None:
    steps = '- {id: a, agent: "\\x00\\x1b[2J\\uffff"}\n'
    [title] = [each.text for each in parts(drawn(steps), "node")[0].iter(f"{SVG}title")]
    assert title == "a: ��[2J�"


def test_the_same_flow_gives_the_same_picture() -> None:
    flow = read(W6).flow
    assert flow is not None
    assert svg(flow) == svg(flow)
    assert svg(flow).endswith("</svg>\n")


def mermaid_lines(steps: str) -> list[str]:
    flow = read(steps).flow
    assert flow is not None
    return mermaid(flow).splitlines()


def test_a_segment_is_a_box_with_the_dependencies_in_it() -> None:
    assert mermaid_lines(W1) == [
        "flowchart TD",
        '  subgraph s1["1"]',
        '    n1["web: agent"]',
        '    n2["code: agent"]',
        '    n3["report: agent"]',
        "  end",
        "  n1 --> n3",
        "  n2 --> n3",
    ]


def test_a_loop_has_two_jumps_and_the_next_segment_follows() -> None:
    lines = mermaid_lines(W6)
    assert "  s1 --> s2" in lines
    again = next(line for line in lines if "again: agent-loop-decision" in line)
    assert again == '    n4{"again: agent-loop-decision"}'
    assert lines[-2:] == ['  n4 -. "loop" .-> n2', '  n4 -. "exit" .-> n5']


SHELL = "- {{id: a, command: make{}}}\n- {{id: b, agent: scout}}\n"
CAPPED = """\
- {id: a, agent: s}
- {id: q, agent: s, task: t, branches: {r: a, g: b}, max_iterations: 2}
- {id: x, command: y}
- {id: b, agent: s}
"""
JOINED = """\
- {id: pick, question: Q, branches: {One: a, Two: b}}
- {id: a, agent: scout}
- {id: b, agent: scout, end: true}
- {id: c, agent: scout}
"""


@pytest.mark.parametrize(
    ("steps", "arrows"),
    [
        (SHELL.format(""), ["s1 --> s2"]),
        (SHELL.format(", end: true"), []),
        (SHELL.format(", on_complete: a"), []),
        ("- {id: a, agent: s, end: true}\n- {id: b, agent: s}\n", []),
        (
            "- {id: a, agent: s, on_complete: b}\n- {id: x, command: y}\n- {id: b, agent: s}\n",
            ["s2 --> s3"],
        ),
        (JOINED, ["s2 --> s3"]),
        (JOINED.replace("scout, end", "scout, blockedBy: [a], end"), []),
        ("- {id: q, question: Q, branches: {A: b}}\n- {id: b, agent: s}\n", []),
        ("- {id: q, check: b, present: b, absent: b}\n- {id: b, agent: s}\n", []),
        (
            CAPPED,
            ["s1 --> s2", "s2 --> s3", "s3 --> s4"],
        ),
    ],
    ids=[
        "on",
        "end",
        "jump",
        "end of agents",
        "an unreached one would",
        "one of two ends",
        "both wait for the end",
        "fork",
        "conditional",
        "capped way back",
    ],
)
def test_the_next_segment_follows_where_control_may_fall_through(
    steps: str, arrows: list[str]
) -> None:
    assert [each.strip() for each in mermaid_lines(steps) if " --> s" in each] == arrows


def test_jumps_are_labelled_with_their_branches() -> None:
    steps = """\
- {id: pick, question: Q, branches: {'Say "no"': a, Go: b}}
- {id: a, agent: scout, on_complete: b}
- {id: there, check: a, present: b, absent: b}
- {id: b, command: make, on_error: a-1}
- {id: a-1, agent: scout}
"""
    assert [line for line in mermaid_lines(steps) if "-." in line] == [
        '  n1 -. "Say #quot;no#quot;" .-> n2',
        '  n1 -. "Go" .-> n4',
        '  n2 -. "on_complete" .-> n4',
        '  n3 -. "present" .-> n4',
        '  n3 -. "absent" .-> n4',
        '  n4 -. "on_error" .-> n5',
    ]


def test_a_label_is_shown_unchanged() -> None:
    """Jumps with labels: a branch may be called as one likes."""
    branches = r'{"<b>C#</b>\r\n x": a, No: a}'
    lines = mermaid_lines(
        f"- {{id: q, question: Q, branches: {branches}}}\n- {{id: a, agent: scout}}\n"
    )
    assert '  n1 -. "#lt;b#gt;C#35;#lt;/b#gt; x" .-> n2' in lines


def test_mermaid_keywords_are_safe_as_ids() -> None:
    assert '    n1["end: agent"]' in mermaid_lines("- {id: end, agent: scout}\n")


def test_a_dependency_on_a_missing_step_is_left_out() -> None:
    lines = mermaid_lines("- {id: a, agent: scout, blockedBy: [nobody]}\n- {id: b, agent: scout}\n")
    assert not any("-->" in line for line in lines)


def test_steps_with_similar_ids_have_separate_nodes() -> None:
    lines = mermaid_lines(
        "- {id: a-b, agent: scout}\n- {id: a__b, agent: scout, blockedBy: [a-b]}\n"
    )
    assert '    n1["a-b: agent"]' in lines
    assert '    n2["a__b: agent"]' in lines
    assert "  n1 --> n2" in lines


def test_a_jump_to_a_missing_step_ends_at_its_name() -> None:
    (jump,) = [
        line for line in mermaid_lines("- {id: a, agent: scout, on_error: gone}\n") if "-." in line
    ]
    assert jump == '  n1 -. "on_error" .-> n2["gone"]'
