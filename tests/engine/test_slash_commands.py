"""Slash commands in messages of people."""

import pytest

from penstock.engine.slash_commands import (
    MissingArgument,
    clears_history,
    command_parts,
    is_answered_by_model,
    is_command,
    is_informational,
    text_for_model,
)

SAID = [
    ("Hello", False, False, True, "Hello"),
    (" /call", False, False, True, " /call"),
    ("//call x", False, False, True, "/call x"),
    ("/call x", True, False, False, "/call x"),
    ("/new", True, True, False, "/new"),
    ("/new  Say hello ", True, True, True, "Say hello"),
    ("/new\nSay hello", True, True, True, "Say hello"),
    ("/news today", True, False, False, "/news today"),
    ("/", True, False, False, "/"),
    ("/ new", True, False, False, "/ new"),
    ("///", False, False, True, "//"),
]


@pytest.mark.parametrize(("content", "command", "fresh", "answered", "read"), SAID)
def test_a_message_has_a_kind_and_a_text_for_the_model(
    content: str, command: bool, fresh: bool, answered: bool, read: str
) -> None:
    """Spec: "`//x` is sent to the model as `/x`"."""
    assert (is_command(content), clears_history(content)) == (command, fresh)
    assert is_answered_by_model(content) == answered
    assert text_for_model(content) == read


@pytest.mark.parametrize(
    ("content", "name", "rest"),
    [
        ("/call", "call", ""),
        ("/call look n=1", "call", "look n=1"),
        ("/call\n  look {\n}", "call", "look {\n}"),
        ("/", "", ""),
        ("/ x", "", "x"),
    ],
)
def test_a_command_has_a_name_and_a_rest(content: str, name: str, rest: str) -> None:
    assert command_parts(content) == (name, rest)


@pytest.mark.parametrize(
    ("content", "tells"),
    [("/call", True), ("/call  ", True), ("/web", True), ("/call look", False), ("/new", False),
     ("//call", False), ("call", False), ("/calls", False), ("/web https://a.test", False)],
)  # fmt: skip
def test_informational_commands_need_not_wait(content: str, tells: bool) -> None:
    assert is_informational(content) is tells


@pytest.mark.parametrize(
    ("expected", "is_text", "value"),
    [("3", True, "3"), ("3", False, 3), ("x", False, "x"), ("[" * 100_000, False, "[" * 100_000)],
)
def test_an_answer_is_a_text_or_json_where_it_is_some(
    expected: str, is_text: bool, value: object
) -> None:
    assert MissingArgument(question="?", is_text=is_text).value_of(expected) == value
