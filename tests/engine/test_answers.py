"""Whether an answer fits its question, kind by kind; the refused ones too."""

import math
from typing import Any

import pytest

from penstock.core.limits import Limits
from penstock.core.question import Option, Question, QuestionKind
from penstock.engine.answers import OTHER, check_answer, find_option
from tests.kit.events import question

DEPTH = Limits().json_depth
COLORS = (
    Option(label="Red", value="red", aliases=("r", "crimson")),
    Option(label="Blue", value="blue"),
)
SCHEMA = {"type": "object", "required": ["to"], "properties": {"to": {"type": "string"}}}
APPROVAL = question("a", input_schema=SCHEMA)


def nested(levels: int, members: dict[str, Any]) -> dict[str, Any]:
    """Return an object with these members that has so many objects inside each other."""
    inner: dict[str, Any] = {}
    for _ in range(levels - 1):
        inner = {"a": inner}
    return members | {"a": inner}


def asking(**more: Any) -> Question:
    known = question("a", **more)
    return Question(
        question_id=known.question_id,
        kind=QuestionKind.ASK_USER,
        text=known.text,
        path=known.path,
        options=known.options,
        schema=known.schema,
        form=known.form,
    )


CHOICE = asking(options=COLORS)
FREE = asking()
NUMBER = asking(schema={"type": "integer"})
SELECT = asking(options=COLORS, form={"type": "select"})
OPEN = asking(
    options=(*COLORS, Option(label=OTHER, value=OTHER)),
    form={"type": "select", "allowCustom": True},
)
SEVERAL = asking(options=COLORS, form={"type": "select", "multiSelect": True})
CONFIRM = asking(form={"type": "confirm"})
INPUT = asking(form={"type": "input", "defaultValue": "Ann"})
WORDS = asking(form={"type": "input"})
FORK, QUIET = (
    asking(options=COLORS, form={"type": "select", "allowNotes": notes, "allowDecide": notes})
    for notes in (True, False)
)


@pytest.mark.parametrize(
    ("asked", "body", "kept"),
    [
        (APPROVAL, {"decision": "approve"}, {"decision": "approve"}),
        (APPROVAL, {"decision": "reject", "note": "no"}, {"decision": "reject", "note": "no"}),
        (APPROVAL, {"decision": "reject", "note": ""}, {"decision": "reject"}),
        (
            APPROVAL,
            {"decision": "approve", "input": {"to": "bob"}},
            {"decision": "approve", "input": {"to": "bob"}},
        ),
        (CHOICE, {"value": "red"}, {"value": "red"}),
        (CHOICE, {"text": "2"}, {"value": "blue"}),
        (CHOICE, {"text": " CRIMSON "}, {"value": "red"}),
        (CHOICE, {"answer": "R"}, {"value": "red"}),
        (CHOICE, {"text": "3"}, {"text": "3"}),
        (CHOICE, {"text": "something else"}, {"text": "something else"}),
        (CHOICE, {"cancel": True}, {"cancel": True}),
        (CHOICE, {"value": "red", "notes": "bright"}, {"value": "red", "notes": "bright"}),
        (FREE, {"text": "Whatever."}, {"text": "Whatever."}),
        (NUMBER, {"value": 3}, {"value": 3}),
        (NUMBER, {"text": "3"}, {"value": 3}),
        (SELECT, {"value": "Blue"}, {"value": "blue"}),
        (OPEN, {"text": "green"}, {"value": "green"}),
        (SEVERAL, {"value": ["blue", "red"]}, {"value": ["blue", "red"]}),
        (SEVERAL, {"text": "1, blue"}, {"value": ["red", "blue"]}),
        (SEVERAL, {"value": []}, {"value": []}),
        (CONFIRM, {"text": "Yes"}, {"value": True}),
        (CONFIRM, {"value": False}, {"value": False}),
        (INPUT, {"text": "Bob"}, {"value": "Bob"}),
        (INPUT, {}, {"value": "Ann"}),
        (INPUT, {"text": ""}, {"value": "Ann"}),
        (INPUT, {"value": " \n"}, {"value": "Ann"}),
        (INPUT, {"answer": None}, {"value": "Ann"}),
        (WORDS, {"text": ""}, {"value": ""}),
        (FORK, {"value": "red", "notes": "n"}, {"value": "red", "notes": "n"}),
        (FORK, {"decide": True}, {"decide": True}),
        (FORK, {"decide": True, "notes": ""}, {"decide": True}),
        (QUIET, {"value": "red", "notes": ""}, {"value": "red"}),
    ],
)
def test_what_an_answer_means(asked: Question, body: dict[str, Any], kept: Any) -> None:
    """T11, 14.2: "nothing or `null` when there is a `defaultValue`": blank text is nothing."""
    assert check_answer(asked, body, DEPTH) == (kept, [])


@pytest.mark.parametrize(
    ("asked", "body", "field", "issue"),
    [
        (APPROVAL, {}, "/decision", "approve or reject"),
        (APPROVAL, {"decision": ["approve"]}, "/decision", "approve or reject"),
        (APPROVAL, {"decision": "approve", "note": 3}, "/note", "text"),
        (APPROVAL, {"decision": "approve", "input": "x"}, "/input", "object"),
        (APPROVAL, {"decision": "approve", "input": {"to": 3}}, "/input/to", "3 is not"),
        (APPROVAL, {"decision": "reject", "input": {"to": "x"}}, "/input", "approve alone"),
        (APPROVAL, {"decision": "approve", "admin": True}, "/admin", "not known here"),
        (CHOICE, {}, "", "exactly one"),
        (CHOICE, {"value": "red", "text": "blue"}, "", "exactly one"),
        (CHOICE, {"value": "green"}, "/value", "one of: red, blue"),
        (CHOICE, {"value": None}, "/value", "one of: red, blue"),
        (CHOICE, {"text": "  "}, "/text", "must be text"),
        (CHOICE, {"value": "red", "notes": "x" * 10_001}, "/notes", "10000"),
        (FREE, {"text": ""}, "/text", "must be text"),
        (FREE, {"value": 3}, "/value", "must be text"),
        (NUMBER, {"value": "3"}, "/value", "is not"),
        (NUMBER, {"text": "three"}, "/text", "is not"),
        (SELECT, {"value": "green"}, "/value", "answer must be one of: red, blue"),
        (OPEN, {"text": OTHER}, "/text", "describe your answer"),
        (OPEN, {"text": " "}, "/text", "describe your answer"),
        (SEVERAL, {"value": ["red", "red"]}, "/value", "answer must be a list of: red, blue"),
        (SEVERAL, {"value": ["green"]}, "/value", "answer must be a list of: red, blue"),
        (SEVERAL, {"value": 7}, "/value", "answer must be a list of: red, blue"),
        (CONFIRM, {"text": "perhaps"}, "/text", "answer must be true or false"),
        (CONFIRM, {"value": 1}, "/value", "answer must be true or false"),
        (INPUT, {"value": 7}, "/value", "answer must be text"),
        (QUIET, {"value": "red", "notes": "n"}, "/notes", "takes no notes"),
        (QUIET, {"decide": True}, "/decide", "is not known here"),
        (FORK, {"decide": True, "notes": "n"}, "/notes", "not with decide"),
        (FORK, {"cancel": True, "notes": "n"}, "/notes", "not with cancel"),
    ],
)
def test_what_is_refused_and_why(
    asked: Question, body: dict[str, Any], field: str, issue: str
) -> None:
    kept, (problem,) = check_answer(asked, body, DEPTH)
    assert kept == {}
    assert problem["field"] == field
    assert issue in problem["issue"]


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("1", "red"),
        (" 2 ", "blue"),
        ("0", None),
        ("3", None),
        ("²", None),
        ("RED", "red"),
        ("", None),
    ],
)
def test_an_option_by_its_number_its_name_or_an_alias(said: str, value: str | None) -> None:
    found = find_option(COLORS, said)
    assert (found.value if found else None) == value


WAIT = Question(
    question_id=APPROVAL.question_id,
    kind=QuestionKind.USER_MESSAGE,
    text="Which month?",
    path=APPROVAL.path,
    schema=SCHEMA,
)


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"text": "May"}, []),
        ({"text": "May", "resume_payload": {"to": "x"}}, []),
        ({"text": " "}, ["/text"]),
        ({"text": "May", "resume_payload": {}}, ["/resume_payload/to"]),
        ({"value": "May"}, ["/value", "/text"]),
    ],
)
def test_a_message_that_was_waited_for(body: dict[str, Any], fields: list[str]) -> None:
    kept, problems = check_answer(WAIT, body, DEPTH)
    assert [each["field"] for each in problems] == fields
    assert kept == ({} if fields else body)


SUMS = asking(schema={"type": "object"})


@pytest.mark.parametrize(
    ("asked", "body", "field"),
    [
        (APPROVAL, {"decision": "approve", "input": {"to": "x", "n": math.inf}}, "/input/n"),
        (APPROVAL, {"decision": "approve", "input": {"to": "x", "n": 2**53}}, "/input/n"),
        (APPROVAL, {"decision": "approve", "input": nested(DEPTH, {"to": "x"})}, "/input/a/a/a/…"),
        (WAIT, {"text": "x", "resume_payload": {"to": "x", "n": -math.inf}}, "/resume_payload/n"),
        (SUMS, {"value": {"n": math.inf}}, "/value/n"),
        (SUMS, {"text": '{"n": 1e999}'}, "/value/n"),
    ],
)
def test_what_no_log_could_keep_is_no_answer(
    asked: Question, body: dict[str, Any], field: str
) -> None:
    """9: "422 with the problems, the question stays open"; it became null, or failed the call."""
    kept, (problem,) = check_answer(asked, body, DEPTH)
    assert (kept, problem["field"]) == ({}, field)


def test_an_answer_may_be_nested_as_deep_as_an_input() -> None:
    edited = nested(DEPTH - 1, {"to": "x"})
    assert check_answer(APPROVAL, {"decision": "approve", "input": edited}, DEPTH)[1] == []


def test_json_without_an_end_is_just_words() -> None:
    _, (problem,) = check_answer(NUMBER, {"text": "[" * 100_000}, DEPTH)
    assert problem["field"] == "/text"
