"""The text of a flow as one mapping."""

import pytest

from penstock.agents.folders import MOST_BYTES
from penstock.flows.reading.document import parse_flow
from penstock.flows.reading.flow import read_flow
from tests.flows.texts import findings_of

BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"
ALIAS = "anchors, aliases, merge keys and tags are not allowed in a manifest"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", ["1 error yaml-not-mapping: a manifest must be a mapping, found null"]),
        ("- 3", ["1 error yaml-not-mapping: a manifest must be a mapping, found array [3]"]),
        ("\n\nx", ['3 error yaml-not-mapping: a manifest must be a mapping, found string "x"']),
        (
            "---\n- 3\n---\na: 1",
            ["2 error yaml-not-mapping: a manifest must be a mapping, found array [3]"],
        ),
        (b"a: \xff", ["1 error file-encoding: not UTF-8 at byte 3"]),
        ("ä\ud800", ["1 error file-encoding: not UTF-8 at byte 2"]),
        (
            b"\0\1\2",
            [
                (
                    "1 error yaml-syntax: not valid YAML: unacceptable character #x0000: "
                    "control characters are not allowed"
                )
            ],
        ),
        ("a: [", ["1 error yaml-syntax: not valid YAML: did not find expected node content"]),
        (
            "x" * 10_000_000,
            ["1 error file-too-large: the flow has 10000000 bytes; the limit is 1048576"],
        ),
        (
            "ä" * 600_000,
            ["1 error file-too-large: the flow has 1200000 bytes; the limit is 1048576"],
        ),
        (
            "```yaml\na: 1\n```",
            [
                (
                    "1 error yaml-syntax: not valid YAML: the file begins with a "
                    "Markdown fence; remove the Markdown fence"
                )
            ],
        ),
        (BOMB, [f"1 error yaml-alias: {ALIAS}"]),
        ("a: 1\n<<: {b: 1}", [f"2 error yaml-alias: {ALIAS}"]),
        ("a: !!binary 1", [f"1 error yaml-alias: {ALIAS}"]),
        (
            "---\na: 1\n---\nb: 1\n---\nc: 1",
            ["5 error yaml-many-documents: a flow has at most two documents; found 3"],
        ),
        (
            "a: 1\n---\nb: 1",
            ["2 error yaml-many-documents: one manifest per file; found 2 documents"],
        ),
    ],
)
def test_what_is_no_flow_is_a_finding(text: str | bytes, wanted: list[str]) -> None:
    assert findings_of(text)[: len(wanted)] == wanted
    assert read_flow(text).flow is None


@pytest.mark.parametrize(
    "text",
    [
        "{" * 100_000,
        "[" * 100_000,
        "a: " * 1_000,
        "? [a]\n: b",
        "steps: [" + "{id: a, agent: b}, " * 5_000 + "]",
        "steps: {a: b}\nname: [x]\ninputs: 3\nconfig: [1]",
        "\u2028---\n\x85",
        "---\n---",
        "%YAML 9.9\n---\na: 1",
    ],
    ids=range(9),
)
def test_nothing_raises_and_something_is_said(text: str) -> None:
    assert findings_of(text)
    assert len(text) < MOST_BYTES


def test_two_parts_are_joined_and_lines_are_those_of_the_file() -> None:
    """The two are joined; line numbers are those of the file."""
    text = "\n---\nname: demo\ndescription: d\n---\nstep:\nsteps:\n- {id: a, agent: b}"
    document = parse_flow(text, "f.yaml")
    assert (list(document.value), document.problems) == (
        ["name", "description", "step", "steps"],
        [],
    )
    assert document.keys["name",].line == 3
    assert document.values["steps", 0, "agent"].line == 8
    assert document.values["steps", 0, "agent"].column == 18
    assert len(document.keys) == 6
    assert ("nothing",) not in document.keys


def test_a_key_in_both_parts_is_an_error() -> None:
    """A key in both is an error."""
    assert findings_of("---\nname: a\n---\nname: b\n")[-1] == (
        '4 error yaml-duplicate-key: key "name" appears twice; first at line 2'
    )


@pytest.mark.parametrize(
    "text", ["---\n{}\n---\n", "---\n{}\n", "---\n{}\n---\n\n", "# x\n---\n{}\n---\n"]
)
def test_an_empty_second_part_is_allowed(text: str) -> None:
    """An empty second part is allowed."""
    assert all("missing-field" in each for each in findings_of(text))


def test_a_byte_order_mark_and_windows_lines_change_nothing() -> None:
    text = "\ufeff---\r\nname: demo\r\n---\r\nnaem: x\r\n"
    assert '4 warning unknown-field: unknown field "naem" in the flow; did you mean "name"?' in (
        findings_of(text)
    )
