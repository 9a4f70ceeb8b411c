"""Templates: valid and invalid placeholders, expanded in one pass."""

from typing import Any

import pytest

from penstock.manifest.template import (
    MISSING,
    BrokenPlaceholder,
    Placeholder,
    PlaceholderFault,
    ValueSource,
    parse,
)

VALUES: dict[tuple[str, ...], Any] = {
    ("task",): "say ${{result.a.summary}} $&",
    ("result", "a", "n"): 3,
    ("result", "a", "ok"): True,
    ("result", "a", "l"): [1, {"k": None}],
}


def look_up(ref: Placeholder) -> Any:
    return VALUES.get((ref.kind, *ref.names), MISSING)


@pytest.mark.parametrize(
    ("text", "expected"),
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
def test_a_text_is_expanded_in_one_pass(text: str, expected: str) -> None:
    """V1 to V4, V7, V11, V12."""
    assert parse(text).expand(look_up) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${{result.a.l}}", [1, {"k": None}]),
        ("${{ result.a.n }}", 3),
        ("x ${{result.a.n}}", "x 3"),
        (" ${{result.a.n}}", " 3"),
        ("${{result.b}}", ""),
        ("$${{task}}", "${{task}}"),
    ],
)
def test_the_value_of_a_single_placeholder_keeps_its_type(text: str, expected: Any) -> None:
    """V5."""
    assert parse(text).value(look_up) == expected


@pytest.mark.parametrize(
    ("inside", "kind", "names"),
    [
        ("task", ValueSource.TASK, ()),
        ("input.notes", ValueSource.INPUT, ("notes",)),
        ("result.a", ValueSource.RESULT, ("a",)),
        ("result.a.b.c", ValueSource.RESULT, ("a", "b", "c")),
        ("loop.again.iteration", ValueSource.LOOP, ("again", "iteration")),
        ("loop.again.max", ValueSource.LOOP, ("again", "max")),
        ("fork.f-1.answer", ValueSource.FORK, ("f-1", "answer")),
        ("fork.f_1.notes", ValueSource.FORK, ("f_1", "notes")),
        ("config.KEY", ValueSource.CONFIG, ("KEY",)),
        ("flow.input.x", ValueSource.FLOW_INPUT, ("x",)),
    ],
)
def test_a_placeholder_names_a_value(
    inside: str, kind: ValueSource, names: tuple[str, ...]
) -> None:
    (ref,) = parse(f"<${{{{{inside}}}}}>").refs
    assert (ref.kind, ref.names, ref.offset) == (kind, names, 1)


@pytest.mark.parametrize(
    ("inside", "fault"),
    [
        ("", PlaceholderFault.UNKNOWN),
        ("Task", PlaceholderFault.UNKNOWN),
        ("tasks", PlaceholderFault.UNKNOWN),
        ("task.x", PlaceholderFault.TOO_DEEP),
        ("input", PlaceholderFault.UNKNOWN),
        ("input.", PlaceholderFault.UNKNOWN),
        ("input.a.b", PlaceholderFault.TOO_DEEP),
        ("inputs.a", PlaceholderFault.UNKNOWN),
        ("result", PlaceholderFault.UNKNOWN),
        ("result.", PlaceholderFault.UNKNOWN),
        ("result.a..b", PlaceholderFault.UNKNOWN),
        ("result.a b", PlaceholderFault.UNKNOWN),
        ("loop.again", PlaceholderFault.UNKNOWN),
        ("loop.again.times", PlaceholderFault.UNKNOWN),
        ("loop.again.max.x", PlaceholderFault.TOO_DEEP),
        ("fork.f", PlaceholderFault.UNKNOWN),
        ("fork.f.note", PlaceholderFault.UNKNOWN),
        ("config", PlaceholderFault.UNKNOWN),
        ("flow.input", PlaceholderFault.UNKNOWN),
        ("flow.output.x", PlaceholderFault.UNKNOWN),
        ("flow.input.a.b", PlaceholderFault.TOO_DEEP),
        ("secrets.X", PlaceholderFault.UNKNOWN),
        ("task | upper", PlaceholderFault.UNKNOWN),
    ],
)
def test_an_invalid_placeholder_has_a_reason(inside: str, fault: PlaceholderFault) -> None:
    text = f"${{{{{inside}}}}}"
    assert parse(f"x {text}").broken == [BrokenPlaceholder(fault, text, 2)]


def test_a_placeholder_must_be_closed_on_its_line() -> None:
    template = parse("first ${{ task\nsecond }} ${{task}}")
    assert [each.fault for each in template.broken] == [PlaceholderFault.UNCLOSED]
    assert [each.text for each in template.refs] == ["${{task}}"]


@pytest.mark.chaos
@pytest.mark.parametrize(
    "text", ["${{" * 60_000, "${{task}}" * 20_000, "$${{" * 40_000, "${{\n" * 40_000]
)
def test_a_hostile_text_is_parsed_in_linear_time(text: str) -> None:
    assert parse(text).expand(lambda _: "") is not None


def test_a_closing_on_another_line_does_not_count() -> None:
    assert [
        each.text for each in parse("${{ a\n${{task}} }} ${{x").pieces if not isinstance(each, str)
    ] == [
        "${{",
        "${{task}}",
        "${{",
    ]


def test_short_templates_are_cached_and_long_ones_are_not() -> None:
    short, long = "${{task}}", "${{task}}" + "x" * 10_000
    assert parse(short) is parse(f"{short}")
    assert parse(long) is not parse(f"{long}")
    assert parse(long) == parse(long)
