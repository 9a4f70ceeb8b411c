"""Whether an answer fits its question, kind by kind; the refused ones too."""

import math
from typing import Any

import pytest

from penstock.core.json_values.json_text import JSON_DEPTH
from penstock.core.task import Option, Question, QuestionKind
from penstock.engine.answers import OTHER, answer_in_words, check_answer, find_option
from tests.kit.session_events import question

DEPTH = JSON_DEPTH
COLORS = (
    Option(label="Red", value="red", aliases=("r", "crimson")),
    Option(label="Blue", value="blue"),
)
SCHEMA = {"type": "object", "required": ["to"], "properties": {"to": {"type": "string"}}}
APPROVAL = question("a", input_schema=SCHEMA)


def nested(levels: int, members: dict[str, Any]) -> dict[str, Any]:
    """Return an object with these members that is nested this deep."""
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
COMMAS = asking(
    options=(Option(label="red, white", value="red, white"), COLORS[1]),
    form={"type": "select", "multiSelect": True},
)
LISTED = asking(
    options=tuple(Option(label=each, value=each) for each in ("10", "20")),
    schema={"type": "integer"},
)
NUMBER = asking(schema={"type": "integer"})
SELECT = asking(options=COLORS, form={"type": "select"})
OPEN = asking(
    options=(*COLORS, Option(label=OTHER, value=OTHER)),
    form={"type": "select", "allowCustom": True},
)
OPEN_SEVERAL = asking(
    options=OPEN.options, form={"type": "select", "multiSelect": True, "allowCustom": True}
)
SEVERAL_FORK = Question(
    question_id=OPEN.question_id,
    kind=QuestionKind.FORK,
    text=OPEN.text,
    path=OPEN.path,
    options=COLORS,
    form={"type": "select", "multiSelect": True},
)
SEVERAL = asking(options=COLORS, form={"type": "select", "multiSelect": True})
CONFIRM = asking(form={"type": "confirm"})
INPUT = asking(form={"type": "input", "defaultValue": "Ann"})
WORDS = asking(form={"type": "input"})
SAID = ("value", "text", "answer")
MEANT = ("1", "Blue", "BLUE", "crimson", "")
"""What means an option in words, and is none in an answer over the API."""
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
        (SELECT, {"value": "blue"}, {"value": "blue"}),
        (SELECT, {"answer": "blue"}, {"value": "blue"}),
        (OPEN, {"text": "green"}, {"value": "green"}),
        (SEVERAL, {"value": ["blue", "red"]}, {"value": ["blue", "red"]}),
        (SEVERAL, {"answer": ["red"]}, {"value": ["red"]}),
        (SEVERAL, {"value": []}, {"value": []}),
        (CONFIRM, {"value": False}, {"value": False}),
        (CONFIRM, {"answer": True, "cancel": None}, {"value": True}),
        (OPEN_SEVERAL, {"value": ["red", "green"]}, {"value": ["red", "green"]}),
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
def test_an_answer_is_matched_to_its_question(
    asked: Question, body: dict[str, Any], kept: Any
) -> None:
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
        (
            APPROVAL,
            {"decision": "reject", "input": {"to": "x"}},
            "/input",
            "only with the decision approve",
        ),
        (
            APPROVAL,
            {"decision": "approve", "admin": True},
            "/admin",
            "not known; the known fields are",
        ),
        (CHOICE, {}, "", "exactly one"),
        (CHOICE, {"value": "red", "text": "blue"}, "", "exactly one"),
        (CHOICE, {"value": "green"}, "/value", "one of: red, blue"),
        (CHOICE, {"value": None}, "/value", "one of: red, blue"),
        (CHOICE, {"text": "  "}, "/text", "must be text: one of red, blue, or words of your own"),
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
        *((CONFIRM, {n: "yes"}, f"/{n}", "answer must be true or false") for n in SAID),
        *((CONFIRM, {n: "true"}, f"/{n}", "answer must be true or false") for n in SAID),
        (CONFIRM, {"value": None}, "/value", "answer must be true or false"),
        (CONFIRM, {"value": [True]}, "/value", "answer must be true or false"),
        *((SEVERAL, {n: "red"}, f"/{n}", "answer must be a list of: red, blue") for n in SAID),
        *((SEVERAL, {n: "1, 2"}, f"/{n}", "answer must be a list of: red, blue") for n in SAID),
        (SEVERAL, {"value": ["1"]}, "/value", "answer must be a list of: red, blue"),
        (SEVERAL, {"value": [["red"]]}, "/value", "answer must be a list of: red, blue"),
        (SEVERAL_FORK, {"value": []}, "/value", "answer must be a list of: red, blue"),
        (OPEN_SEVERAL, {"text": "green"}, "/text", "answer must be a list of: red, blue"),
        (OPEN_SEVERAL, {"value": ["green", "grey"]}, "/value", "answer must be a list of"),
        (OPEN_SEVERAL, {"value": [OTHER]}, "/value", "describe your answer"),
        (OPEN_SEVERAL, {"value": ["red", 7]}, "/value", "answer must be a list of: red, blue"),
        *((SELECT, {n: said}, f"/{n}", "answer must be one of") for n in SAID for said in MEANT),
        (SELECT, {"value": ["red"]}, "/value", "answer must be one of: red, blue"),
        (OPEN, {"value": None}, "/value", "answer must be one of: red, blue"),
        (OPEN, {"text": "x" * 10_001}, "/text", "describe your answer"),
        (INPUT, {"cancel": "yes"}, "/cancel", "must be true"),
        (FORK, {"decide": 1}, "/decide", "must be true"),
        (FORK, {"decide": True, "value": "red"}, "/decide", "cannot be combined with an answer"),
        (CONFIRM, {"cancel": True, "value": False}, "/cancel", "cannot be combined with an answer"),
        (CONFIRM, {"value": 1}, "/value", "answer must be true or false"),
        (INPUT, {"value": 7}, "/value", "answer must be text"),
        (QUIET, {"value": "red", "notes": "n"}, "/notes", "takes no notes"),
        (QUIET, {"decide": True}, "/decide", "is not known; the known fields are value"),
        (FORK, {"decide": True, "notes": "n"}, "/notes", "not with decide"),
        (FORK, {"cancel": True, "notes": "n"}, "/notes", "not with cancel"),
    ],
)
def test_an_invalid_answer_is_refused_with_field_and_issue(
    asked: Question, body: dict[str, Any], field: str, issue: str
) -> None:
    kept, (problem,) = check_answer(asked, body, DEPTH)
    assert kept == {}
    assert problem["field"] == field
    assert issue in problem["issue"]


@pytest.mark.parametrize(
    ("expected", "value"),
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
def test_an_option_by_its_number_its_name_or_an_alias(expected: str, value: str | None) -> None:
    found = find_option(COLORS, expected)
    assert (found.value if found else None) == value


@pytest.mark.parametrize(
    ("asked", "message", "body"),
    [
        *((CONFIRM, message, {"value": True}) for message in ("yes", "Y", " YES ", "true")),
        *((CONFIRM, message, {"value": False}) for message in ("no", "N", "false")),
        (CONFIRM, "perhaps", {"text": "perhaps"}),
        (SELECT, "2", {"value": "blue"}),
        (SELECT, " crimson", {"value": "red"}),
        (SELECT, "3", {"text": "3"}),
        (OPEN, "1", {"value": "red"}),
        (OPEN, "green", {"text": "green"}),
        (OPEN, OTHER, {"text": OTHER}),
        (OPEN, "3", {"text": "3"}),
        (SEVERAL, "1, Blue", {"value": ["red", "blue"]}),
        (SEVERAL, "blue", {"value": ["blue"]}),
        (SEVERAL, "red, 9", {"value": ["red", "9"]}),
        (SEVERAL, "", {"value": []}),
        (OPEN_SEVERAL, "r, green", {"value": ["red", "green"]}),
        (COMMAS, "red, white", {"value": ["red, white"]}),
        (INPUT, "yes", {"text": "yes"}),
        (INPUT, "", {"text": ""}),
        (CHOICE, "2", {"value": "blue"}),
        (CHOICE, "neither", {"text": "neither"}),
        (FREE, "1", {"text": "1"}),
        (NUMBER, "3", {"text": "3"}),
        (LISTED, "2", {"text": "20"}),
    ],
)
def test_a_person_answers_in_words_in_a_chat_and_at_a_terminal(
    asked: Question, message: str, body: dict[str, Any]
) -> None:
    """14.2: "In chats and terminals `yes no y n` answer confirm, and numbers choose options"."""
    has_schema = asked.schema is not None
    words = answer_in_words(
        message, kind=asked.kind, options=asked.options, form=asked.form, has_schema=has_schema
    )
    assert words == body


def test_the_value_of_an_option_may_be_a_number_that_the_schema_requires() -> None:
    assert check_answer(LISTED, {"text": "20"}, DEPTH) == ({"value": 20}, [])


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
        (SUMS, {"text": '{"n": 1e999}'}, "/text"),
    ],
)
def test_an_answer_that_no_log_can_store_is_refused(
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


@pytest.mark.parametrize("body", ["red", b"red", 5, None, True, ["red"], [("decision", "approve")]])
@pytest.mark.parametrize(
    ("asked", "example"),
    [
        (APPROVAL, '{"decision": "approve"}'),
        (CHOICE, '{"value": "red"}'),
        (SEVERAL, '{"value": ["red"]}'),
        (asking(form={"type": "confirm"}), '{"value": true}'),
        (FREE, '{"value": "…"}'),
    ],
)
def test_an_answer_that_is_not_an_object_is_refused_with_an_example(
    asked: Question, example: str, body: Any
) -> None:
    said = f"an answer is an object, such as {example}; found {body!r}"
    assert check_answer(asked, body, DEPTH) == ({}, [{"field": "", "issue": said}])
