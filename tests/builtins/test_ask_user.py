"""The tool that asks the person."""

from typing import Any

import pytest

from penstock.agents.tool_offer import definition
from penstock.builtins.ask_user import TOOLS
from penstock.core.call import Effect
from penstock.core.envelope import Envelope, Status
from penstock.core.errors import InvalidAnswer, Suspend
from penstock.core.json_values.schema import Schema
from penstock.core.task import QuestionKind
from penstock.testing.invocation import Workbench, open_workbench

COLOURS = ["red", "blue"]
PLAIN = [{"label": "Red wine", "value": "red", "aliases": ["rouge"]}, "white"]


async def asked(input: dict[str, Any]) -> Workbench:
    bench = await open_workbench(*TOOLS)
    with pytest.raises(Suspend):
        await bench.call("ask_user", {"question": "Which?", **input})
    return bench


async def answered(input: dict[str, Any], body: dict[str, Any]) -> Envelope:
    bench = await asked(input)
    await bench.answer(body)
    bench.enter()
    return await bench.call("ask_user", {"question": "Which?", **input})


def typed() -> list[tuple[dict[str, Any], dict[str, Any], Any]]:
    return [
        ({"type": "input"}, {"text": "words"}, "words"),
        ({"type": "input"}, {"value": ""}, ""),
        ({"type": "input", "defaultValue": "x"}, {"value": None}, "x"),
        ({"type": "input", "defaultValue": "x"}, {}, "x"),
        ({"type": "input", "defaultValue": "x"}, {"text": ""}, "x"),
        ({"type": "select", "options": COLOURS}, {"value": "blue"}, "blue"),
        ({"type": "select", "options": COLOURS}, {"text": "blue"}, "blue"),
        ({"type": "select", "options": COLOURS, "allowCustom": True}, {"text": "green"}, "green"),
        (
            {"type": "select", "options": COLOURS, "multiSelect": True},
            {"value": ["blue", "red"]},
            ["blue", "red"],
        ),
        ({"type": "select", "options": COLOURS, "multiSelect": True}, {"value": []}, []),
        (
            {"type": "select", "options": COLOURS, "multiSelect": True},
            {"answer": COLOURS},
            COLOURS,
        ),
        ({"type": "confirm"}, {"value": True}, True),
        ({"type": "confirm", "options": ["a"]}, {"value": False}, False),
        ({"type": "confirm"}, {"answer": True}, True),
    ]


@pytest.mark.parametrize(("input", "body", "answer"), typed())
async def test_a_question_with_a_type_gives_its_answer(
    input: dict[str, Any], body: dict[str, Any], answer: Any
) -> None:
    """T07: "free-text input, single-select, and yes/no confirm".

    T10: "For confirm, answer is true or false"; "For multiSelect, answer is an array".
    """
    assert (await answered(input, body)).output == {"answer": answer}


@pytest.mark.parametrize(
    ("input", "body", "expected"),
    [
        ({"type": "input"}, {"value": 5}, "answer must be text"),
        ({"type": "input"}, {"text": "x" * 10_001}, "answer must be text"),
        ({"type": "select", "options": COLOURS}, {"text": "3"}, "must be one of: red, blue"),
        ({"type": "select", "options": COLOURS}, {}, "answer must be one of: red, blue"),
        (
            {"type": "select", "options": COLOURS, "allowCustom": True},
            {"text": "other (describe)"},
            "describe your answer",
        ),
        (
            {"type": "select", "options": COLOURS, "multiSelect": True},
            {"value": ["red", "red"]},
            "answer must be a list of: red, blue",
        ),
        ({"type": "confirm"}, {"value": "maybe"}, "answer must be true or false"),
    ],
)
async def test_a_bad_answer_leaves_the_question_open(
    input: dict[str, Any], body: dict[str, Any], expected: str
) -> None:
    bench = await asked(input)
    with pytest.raises(InvalidAnswer, match=expected):
        await bench.answer(body)
    assert len(bench.questions) == 1


async def test_a_typed_question_is_shown_with_its_form() -> None:
    """T11: "Other (describe)", the last option of `allowCustom`."""
    bench = await asked(
        {"type": "select", "options": COLOURS, "allowCustom": True, "context": "For the wall."}
    )
    (question,) = bench.questions
    assert (question.kind, question.text) == (QuestionKind.ASK_USER, "Which?")
    assert question.context == "For the wall."
    assert [each.label for each in question.options] == ["red", "blue", "Other (describe)"]
    assert question.form == {"type": "select", "multiSelect": False, "allowCustom": True}


@pytest.mark.parametrize(
    ("input", "body", "output"),
    [
        ({}, {"text": "words"}, {"status": "answered", "value": "words"}),
        ({"options": PLAIN}, {"value": "red"}, {"status": "answered", "value": "red"}),
        ({"options": PLAIN}, {"text": " ROUGE"}, {"status": "answered", "value": "red"}),
        ({"options": PLAIN}, {"text": "2"}, {"status": "answered", "value": "white"}),
        (
            {"options": PLAIN},
            {"text": "what is rosé?"},
            {"status": "follow_up", "user_message": "what is rosé?"},
        ),
        ({"options": PLAIN}, {"cancel": True}, {"status": "cancelled"}),
    ],
)
async def test_a_question_without_a_type_returns_its_status(
    input: dict[str, Any], body: dict[str, Any], output: dict[str, Any]
) -> None:
    """`status: answered | follow_up | cancelled`; numbers from 1 also choose."""
    found = (await answered(input, body)).output
    assert found.pop("question_id").startswith("q_")
    assert ("instruction" in found) is (output["status"] != "answered")
    found.pop("instruction", None)
    assert found == output


async def test_cancelling_a_typed_question_rejects_it() -> None:
    envelope = await answered({"type": "confirm"}, {"cancel": True})
    assert envelope.error
    assert envelope.error.code == "REJECTED"


@pytest.mark.parametrize(
    ("input", "path"),
    [
        ({"type": "select"}, "/options"),
        ({"type": "select", "options": ["a", "a"]}, "/options"),
        ({"type": "select", "options": ["a"] * 51}, "/options"),
        ({"type": "radio"}, "/type"),
        ({"question": ""}, "/question"),
        ({"question": "x" * 4097}, "/question"),
        ({"context": "x" * 8193}, "/context"),
        ({"options": ["a" * 513]}, "/options/0"),
        ({"options": [""]}, "/options/0"),
        ({"options": [{"label": "x", "value": "y", "other": 1}]}, "/options/0"),
        ({"options": ["A", " a "]}, "/options"),
        ({"question": "é" * 2_049}, "/question"),
        ({"context": "é" * 4_097}, "/context"),
        ({"options": [str(each) for each in range(21)]}, "/options"),
        ({"options": ["é" * 257]}, "/options"),
        ({"options": [{"label": "X", "value": "1"}, {"label": "x ", "value": "2"}]}, "/options"),
        ({"options": [{"label": "x", "value": "y", "aliases": ["Y"]}, "y"]}, "/options"),
        ({"timeout": 5}, ""),
    ],
)
async def test_a_question_that_makes_no_sense_is_not_asked(
    input: dict[str, Any], path: str
) -> None:
    bench = await open_workbench(*TOOLS)
    envelope = await bench.call("ask_user", {"question": "Which?", **input})
    assert envelope.status is Status.VALIDATION_ERROR
    assert envelope.error
    assert envelope.error.details
    assert path in {each["path"] for each in envelope.error.details["problems"]}
    assert bench.questions == []


async def test_a_question_goes_to_its_bounds() -> None:
    options = [f"{number}".zfill(512) for number in range(50)]
    aliases = [f"alias {number}" for number in range(20)]
    for more in (
        {"question": "x" * 4096, "context": "x" * 8192},
        {"type": "select", "options": options},
        {"options": [{"label": "x", "value": "y", "aliases": aliases}]},
    ):
        assert (await asked(more)).questions


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ({"answer": True}, "Answered: yes"),
        ({"answer": ["a", "b"]}, "Answered: a, b"),
        ({"status": "answered", "value": "x"}, "Answered: x"),
        ({"status": "follow_up", "user_message": "why?"}, "Answered: why?"),
        ({"status": "cancelled"}, "Not answered"),
    ],
)
def test_preview(output: Any, line: str) -> None:
    assert TOOLS[0].preview(output) == line


def test_every_model_may_ask() -> None:
    spec = TOOLS[0].spec
    assert spec.is_global
    assert spec.effect is Effect.NONE
    assert len(spec.description) >= 60


async def test_the_parameters_are_those_of_the_seed() -> None:
    """T09: `question`, `type`, `options`, `multiSelect`, `allowCustom`, `defaultValue`."""
    (tool,) = TOOLS
    found = tool.spec.input_schema["properties"]
    seed = {"question", "type", "options", "multiSelect", "allowCustom", "defaultValue"}
    assert found.keys() - {"context"} == seed
    assert found["type"]["enum"] == ["input", "select", "confirm"]
    assert tool.spec.input_schema["required"] == ["question"]


def test_a_model_is_offered_the_form_of_the_seed() -> None:
    """T09: `{question: string; type: …; options?: string[]; …}`, which returns `{answer}`."""
    (tool,) = TOOLS
    offered = definition(tool).parameters
    types = {name: each.get("type") for name, each in offered["properties"].items()}
    assert types == {
        "question": "string",
        "type": None,
        "options": "array",
        "multiSelect": "boolean",
        "allowCustom": "boolean",
        "defaultValue": "string",
    }
    assert offered["required"] == ["question", "type"]
    assert offered["properties"]["type"]["enum"] == ["input", "select", "confirm"]
    assert offered["properties"]["options"]["items"]["type"] == "string"


@pytest.mark.parametrize("kind", ["input", "select", "confirm"])
async def test_valid_input_of_a_model_is_accepted(kind: str) -> None:
    """All that the offered form allows fits the form that the tool takes."""
    sent = {
        "question": "Which?",
        "type": kind,
        "options": COLOURS,
        "multiSelect": False,
        "allowCustom": True,
        "defaultValue": "x",
    }
    assert Schema(TOOLS[0].spec.parameters).problems(sent) == []
    assert (await asked(sent)).questions


@pytest.mark.parametrize(
    ("input", "form"),
    [
        ({"type": "input", "options": ["a"], "multiSelect": True}, {"type": "input"}),
        ({"type": "confirm", "options": ["a"], "defaultValue": "a"}, {"type": "confirm"}),
        (
            {"type": "select", "options": ["a"], "defaultValue": "a"},
            {"type": "select", "multiSelect": False, "allowCustom": False},
        ),
    ],
)
async def test_fields_of_another_type_are_ignored(
    input: dict[str, Any], form: dict[str, Any]
) -> None:
    """T09: "select only", "input only"; 14.1: "a field of another type is ignored"."""
    (question,) = (await asked(input)).questions
    assert question.form == form
    assert len(question.options) == (1 if form["type"] == "select" else 0)
