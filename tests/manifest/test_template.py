"""Templates: what is a place, what is not, and that one pass is all."""

from typing import Any

import pytest

from penstock.manifest.template import MISSING, Broken, Fault, Kind, Ref, parse

VALUES: dict[tuple[str, ...], Any] = {
    ("task",): "say ${{result.a.summary}} $&",
    ("result", "a", "n"): 3,
    ("result", "a", "ok"): True,
    ("result", "a", "l"): [1, {"k": None}],
}


def look_up(ref: Ref) -> Any:
    return VALUES.get((ref.kind, *ref.names), MISSING)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", ""),
        ("no place", "no place"),
        ("<${{task}}>", "<say ${{result.a.summary}} $&>"),
        ("${{ task }}", "say ${{result.a.summary}} $&"),
        ("${{\ttask\t}}", "say ${{result.a.summary}} $&"),
        ("$${{task}}", "${{task}}"),
        ("$$${{task}}", "$${{task}}"),
        ("${{result.a.n}} ${{result.a.ok}} ${{result.a.l}}", '3 true [1,{"k":null}]'),
        ("a${{result.b.x}}c", "ac"),
        ("{task} $task ${task} }}", "{task} $task ${task} }}"),
        ("${{ secrets.X }}!", "${{ secrets.X }}!"),
        ("${{task", "${{task"),
        ("${{task\n}}", "${{task\n}}"),
    ],
)
def test_a_text_is_expanded_in_one_pass(text: str, wanted: str) -> None:
    """V1 to V4, V7, V11, V12."""
    assert parse(text).expand(look_up) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("${{result.a.l}}", [1, {"k": None}]),
        ("${{ result.a.n }}", 3),
        ("x ${{result.a.n}}", "x 3"),
        (" ${{result.a.n}}", " 3"),
        ("${{result.b}}", ""),
        ("$${{task}}", "${{task}}"),
    ],
)
def test_a_value_that_is_nothing_but_one_place_keeps_its_type(text: str, wanted: Any) -> None:
    """V5."""
    assert parse(text).value(look_up) == wanted


@pytest.mark.parametrize(
    ("inside", "kind", "names"),
    [
        ("task", Kind.TASK, ()),
        ("input.notes", Kind.INPUT, ("notes",)),
        ("result.a", Kind.RESULT, ("a",)),
        ("result.a.b.c", Kind.RESULT, ("a", "b", "c")),
        ("loop.again.iteration", Kind.LOOP, ("again", "iteration")),
        ("loop.again.max", Kind.LOOP, ("again", "max")),
        ("fork.f-1.answer", Kind.FORK, ("f-1", "answer")),
        ("fork.f_1.notes", Kind.FORK, ("f_1", "notes")),
        ("config.KEY", Kind.CONFIG, ("KEY",)),
        ("flow.input.x", Kind.FLOW_INPUT, ("x",)),
    ],
)
def test_a_place_names_a_value(inside: str, kind: Kind, names: tuple[str, ...]) -> None:
    (ref,) = parse(f"<${{{{{inside}}}}}>").refs
    assert (ref.kind, ref.names, ref.offset) == (kind, names, 1)


@pytest.mark.parametrize(
    ("inside", "fault"),
    [
        ("", Fault.UNKNOWN),
        ("Task", Fault.UNKNOWN),
        ("tasks", Fault.UNKNOWN),
        ("task.x", Fault.TOO_DEEP),
        ("input", Fault.UNKNOWN),
        ("input.", Fault.UNKNOWN),
        ("input.a.b", Fault.TOO_DEEP),
        ("inputs.a", Fault.UNKNOWN),
        ("result", Fault.UNKNOWN),
        ("result.", Fault.UNKNOWN),
        ("result.a..b", Fault.UNKNOWN),
        ("result.a b", Fault.UNKNOWN),
        ("loop.again", Fault.UNKNOWN),
        ("loop.again.times", Fault.UNKNOWN),
        ("loop.again.max.x", Fault.TOO_DEEP),
        ("fork.f", Fault.UNKNOWN),
        ("fork.f.note", Fault.UNKNOWN),
        ("config", Fault.UNKNOWN),
        ("flow.input", Fault.UNKNOWN),
        ("flow.output.x", Fault.UNKNOWN),
        ("flow.input.a.b", Fault.TOO_DEEP),
        ("secrets.X", Fault.UNKNOWN),
        ("task | upper", Fault.UNKNOWN),
    ],
)
def test_a_place_that_names_nothing_says_why(inside: str, fault: Fault) -> None:
    text = f"${{{{{inside}}}}}"
    assert parse(f"x {text}").broken == [Broken(fault, text, 2)]


def test_a_place_must_be_closed_on_its_line() -> None:
    template = parse("first ${{ task\nsecond }} ${{task}}")
    assert [each.fault for each in template.broken] == [Fault.UNCLOSED]
    assert [each.text for each in template.refs] == ["${{task}}"]


@pytest.mark.parametrize(
    "text", ["${{" * 60_000, "${{task}}" * 20_000, "$${{" * 40_000, "${{\n" * 40_000]
)
def test_a_hostile_text_is_read_in_one_go(text: str) -> None:
    assert parse(text).expand(lambda _: "") is not None


def test_a_closing_counts_only_in_the_line_of_its_place() -> None:
    assert [
        each.text for each in parse("${{ a\n${{task}} }} ${{x").pieces if not isinstance(each, str)
    ] == [
        "${{",
        "${{task}}",
        "${{",
    ]


def test_a_short_text_stays_parsed_and_a_long_one_does_not() -> None:
    short, long = "${{task}}", "${{task}}" + "x" * 10_000
    assert parse(short) is parse(f"{short}")
    assert parse(long) is not parse(f"{long}")
    assert parse(long) == parse(long)
