"""Puts a question to the person at the terminal."""

import io
from typing import Any

import pytest

from penstock.chat.representations import question_record
from penstock.cli.interaction.asking import Read, ask, ask_here, show_question, text_answer
from penstock.cli.terminal.keyboard import Complete, nothing
from penstock.core.call import CallPath
from penstock.core.clock import Moment
from penstock.core.ids import LogId, ProfileId, QuestionId, TaskId
from penstock.core.task import Question, QuestionKind, QuestionRecord


def person(*lines: str) -> Read:
    said = iter(lines)

    def read(prompt: str, *, complete: Complete = nothing, draft: str = "") -> str:
        line = next(said, None)
        if line is None:
            raise EOFError
        return line

    return read


APPROVALS: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (("y",), {"decision": "approve"}),
    (("YES ",), {"decision": "approve"}),
    (("what?", "", "y"), {"decision": "approve"}),
    (("n", ""), {"decision": "reject"}),
    (("no", "too dear"), {"decision": "reject", "note": "too dear"}),
    (("e", '{"to": "bob"}'), {"decision": "approve", "input": {"to": "bob"}}),
    (("e", "{", "", '{"a": 1}'), {"decision": "approve", "input": {"a": 1}}),
    (("e", ""), {"decision": "approve", "input": {"to": "Ann"}}),
]


@pytest.mark.parametrize(("lines", "body"), APPROVALS)
def test_an_approval_is_yes_no_or_another_input(
    lines: tuple[str, ...], body: dict[str, Any]
) -> None:
    asked = {"kind": "approval", "arguments": {"to": "Ann"}}
    assert ask(asked, person(*lines)) == body


OPTIONS = [{"label": "Go on", "value": "go"}, {"label": "Stop", "value": "stop"}]
ANSWERS = [
    ("1", {"value": "go"}),
    ("STOP", {"value": "stop"}),
    ("go on", {"value": "go"}),
    ("3", {"text": "3"}),
    (" neither ", {"text": "neither"}),
]


@pytest.mark.parametrize(("line", "body"), ANSWERS)
def test_an_option_is_chosen_by_number_value_or_label(line: str, body: dict[str, str]) -> None:
    question = {"kind": "ask_user", "options": OPTIONS}
    assert text_answer(question, line) == body
    assert ask(question, person(line)) == body


@pytest.mark.parametrize(
    ("form", "line", "body"),
    [
        ({"type": "confirm"}, " Y ", {"value": True}),
        ({"type": "confirm"}, "no", {"value": False}),
        ({"type": "confirm"}, "hm", {"text": "hm"}),
        ({"type": "select", "multiSelect": True}, "1, stop", {"value": ["go", "stop"]}),
    ],
)
def test_a_line_answers_yes_or_no_and_several_options(
    form: dict[str, Any], line: str, body: dict[str, Any]
) -> None:
    options = OPTIONS if form["type"] == "select" else []
    question = {"kind": "ask_user", "options": options, "form": form}
    assert ask(question, person(line)) == body


def test_ctrl_d_postpones_the_answer() -> None:
    with pytest.raises(EOFError):
        ask({"kind": "approval"}, person("hm"))


PAYLOADS: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (("May", ""), {"text": "May"}),
    (("May", '{"pages": 3}'), {"text": "May", "resume_payload": {"pages": 3}}),
    (("May", "{", "", "null"), {"text": "May", "resume_payload": None}),
]


@pytest.mark.parametrize(("lines", "body"), PAYLOADS)
def test_a_script_receives_text_and_data(lines: tuple[str, ...], body: dict[str, Any]) -> None:
    assert ask({"kind": "user_message", "text": "?", "schema": {}}, person(*lines)) == body
    assert ask({"kind": "user_message", "text": "?"}, person("May")) == {"text": "May"}


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


@pytest.mark.parametrize(
    ("lines", "body"), [("the red one\n", {"text": "the red one"}), ("", None)]
)
def test_a_question_is_shown_where_programs_do_not_read(
    lines: str,
    body: dict[str, Any] | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    show_question(question_record(ASKED))
    assert ask_here(question_record(ASKED)) == body
    printed = capsys.readouterr()
    assert "Which?" in printed.err
    assert "Which?" not in printed.out


FORK_FORM = {"type": "select", "allowDecide": True}
FORKS: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    (FORK_FORM, "1", {"value": "go"}),
    (FORK_FORM, " /Decide", {"decide": True}),
    (FORK_FORM, "/cancel", {"cancel": True}),
    ({"type": "select", "allowDecide": False}, "/decide", {"text": "/decide"}),
]


@pytest.mark.parametrize(("form", "line", "body"), FORKS)
def test_at_a_fork_the_agent_may_decide_and_the_run_may_end(
    form: dict[str, Any], line: str, body: dict[str, Any]
) -> None:
    """14.2: "`{decide: true}` when the step names an agent", "`{cancel: true}`: run aborted"."""
    question = {"kind": "fork", "options": OPTIONS, "form": form}
    assert ask(question, person(line)) == body


@pytest.mark.parametrize(
    ("question", "begins"),
    [
        ({"kind": "ask_user", "form": {"type": "input", "defaultValue": "A\x1b[1m\nnn"}}, "[A"),
        ({"kind": "ask_user", "form": None}, "answer> "),
        ({"kind": "ask_user", "form": {"type": "confirm"}}, "[y]es or [n]o> "),
        ({"kind": "user_message"}, "answer> "),
        ({"kind": "ask_user", "options": OPTIONS}, "an option, or a text of your own> "),
        ({"kind": "ask_user", "options": OPTIONS, "form": {"type": "select"}}, "answer> "),
        ({"kind": "fork", "form": FORK_FORM}, "answer, or /decide or /cancel> "),
        ({"kind": "fork", "form": {"type": "select"}}, "answer, or /cancel> "),
    ],
)
def test_the_prompt_shows_the_default_and_the_other_answers(
    question: dict[str, Any], begins: str
) -> None:
    """14.2: "nothing or `null` when there is a `defaultValue`": the text, or the default."""
    shown: list[str] = []

    def read(prompt: str, *, complete: Complete = nothing, draft: str = "") -> str:
        shown.append(prompt)
        return ""

    assert ask(question, read) == {"text": ""}
    assert begins in shown[0]
    assert not {"\x1b", "\n"} & set(shown[0])
