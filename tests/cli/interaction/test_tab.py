"""Tab completes commands of a conversation, the words after them, and answers."""

from typing import Any

import pytest

from penstock.cli.interaction.tab import Words, answer_completer, command_completer

WORDS: Words = {
    "/call": lambda: ["order_status", "order_cancel", "hello"],
    "/model": lambda: ["fast"],
    "/new": tuple,
}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("/", ["/call ", "/model ", "/new "]),
        ("/c", ["/call "]),
        ("/call", ["/call "]),
        ("/call ", ["/call hello ", "/call order_cancel ", "/call order_status "]),
        ("/call ord", ["/call order_cancel ", "/call order_status "]),
        ("/call hello na", []),
        ("/model f", ["/model fast "]),
        ("/new ", []),
        ("/other x", []),
        ("//", []),
        ("", []),
        ("call", []),
    ],
)
def test_completions_of_a_line(line: str, found: list[str]) -> None:
    assert list(command_completer(WORDS)(line)) == found


def option(value: str, label: str = "") -> dict[str, str]:
    return {"value": value, "label": label or value}


PLACES = [option("Tokyo"), option("Quick fix"), option("a\nb"), option("\x1b[2J"), option("-x")]
LABELLED = [option("go", "Go on"), option("stop", "Halt")]


@pytest.mark.parametrize(
    ("question", "ways", "line", "found"),
    [
        ({"options": PLACES}, (), "", ["Tokyo", "Quick fix", "-x"]),
        ({"options": PLACES}, (), "q", ["Quick fix"]),
        ({"options": PLACES}, (), "Quick f", ["Quick fix"]),
        ({"options": PLACES}, (), "z", []),
        ({"options": PLACES}, ("/cancel",), "/", ["/cancel"]),
        ({"options": PLACES}, ("/cancel",), "t", ["Tokyo"]),
        ({"options": LABELLED}, (), "g", ["Go on"]),
        ({"options": LABELLED}, (), "s", ["stop"]),
        ({"options": LABELLED, "form": {"multiSelect": True}}, (), "go, h", ["go, Halt"]),
        ({"options": LABELLED, "form": {"multiSelect": True}}, (), "1,", ["1,Go on", "1,Halt"]),
        ({"form": {"type": "confirm"}}, (), "", ["yes", "no"]),
        ({"form": {"type": "input"}}, (), "", []),
        ({"kind": "approval"}, (), "", ["yes", "no", "edit"]),
        ({"kind": "approval"}, (), "e", ["edit"]),
    ],
)
def test_an_answer_is_completed_as_a_whole_line(
    question: dict[str, Any], ways: tuple[str, ...], line: str, found: list[str]
) -> None:
    """An option that no line can hold is left out; its number answers."""
    complete = answer_completer({"kind": "ask_user"} | question, ways)
    assert list(complete(line)) == found
