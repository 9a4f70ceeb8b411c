"""Tab completes commands of a conversation, the words after them, and answers."""

import shlex
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.cli.interaction.words import Words, answer_completer, command_completer, how_to_answer
from penstock.core.call import CallPath
from penstock.core.clock import Moment
from penstock.core.ids import LogId, ProfileId, QuestionId, TaskId
from penstock.core.task import Option, Question, QuestionKind, QuestionRecord

WORDS: Words = {
    "/call": lambda: ["order_status", "order_cancel", "hello"],
    "/model": lambda: ["fast"],
    "/new": tuple,
}


@pytest.mark.parametrize(
    ("line", "expected"),
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
def test_completions_of_a_line(line: str, expected: list[str]) -> None:
    assert list(command_completer(WORDS)(line)) == expected


def option(value: str, label: str = "") -> dict[str, str]:
    return {"value": value, "label": label or value}


PLACES = [option("Tokyo"), option("Quick fix"), option("a\nb"), option("\x1b[2J"), option("-x")]
LABELLED = [option("go", "Go on"), option("stop", "Halt")]


@pytest.mark.parametrize(
    ("question", "ways", "line", "expected"),
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
    question: dict[str, Any], ways: tuple[str, ...], line: str, expected: list[str]
) -> None:
    """An option that no line can hold is left out; its number answers."""
    complete = answer_completer({"kind": "ask_user"} | question, ways)
    assert list(complete(line)) == expected


ASKED = QuestionRecord(
    question=Question(
        question_id=QuestionId("q_1"),
        kind=QuestionKind.ASK_USER,
        text="Which?",
        path=CallPath("c_1"),
    ),
    log_id=LogId("ses_1"),
    task_id=TaskId("task_1"),
    profile_id=ProfileId("local"),
    agent="assistant",
    asked_at=Moment(0),
)


def asked(**more: Any) -> QuestionRecord:
    """Return a question that differs from the other in this."""
    return replace(ASKED, question=replace(ASKED.question, **more))


PASTED: list[tuple[dict[str, Any], list[list[str]]]] = [
    ({}, [["TEXT"]]),
    ({"kind": QuestionKind.APPROVAL}, [["approve"], ["reject"]]),
    ({"form": {"type": "confirm"}}, [["yes"], ["no"]]),
    ({"values": ["Tokyo", "Quick fix"]}, [["Tokyo"], ["Quick fix"]]),
    ({"values": ["$(reboot)", "it's", "a|b;c"]}, [["$(reboot)"], ["it's"], ["a|b;c"]]),
    ({"values": ["\x1b]0;pwned\x07", "fine", "a\nb", "--help", ""]}, [["1"], ["fine"], *"345"]),
]


@pytest.mark.parametrize(("more", "answers"), PASTED)
def test_each_line_on_how_to_answer_is_pasted_as_one_answer(
    more: dict[str, Any], answers: list[list[str]]
) -> None:
    """Options are text of models and scripts: nothing in them steers a terminal or a shell."""
    values = more.pop("values", ())
    options = tuple(Option(label=each, value=each) for each in values)
    shown = how_to_answer(asked(options=options, **more))
    assert "\x1b" not in shown
    lines = shown.partition("answer it: ")[2].replace("       or: ", "").splitlines()
    assert [shlex.split(line) for line in lines] == [
        ["penstock", "answer", "q_1", *answer] for answer in answers
    ]


def test_of_many_options_only_some_are_listed() -> None:
    options = tuple(Option(label=str(each), value=f"way {each}") for each in range(20))
    shown = how_to_answer(asked(options=options)).splitlines()
    assert shown[-1] == "       or one of 14 more, by name or number"
    assert shown[-2].endswith("penstock answer q_1 'way 5'")
