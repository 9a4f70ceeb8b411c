"""The components of the OpenAPI document."""

import json
from enum import StrEnum
from functools import cache
from typing import Any

import pytest

from penstock.core.call import Effect
from penstock.core.json_values.schema import Schema
from penstock.core.messages import NOTHING_SPENT, Usage
from penstock.core.task import EXPIRED, QuestionKind, QuestionStatus, TaskStatus, standing
from penstock.server.schemas import (
    COMPONENTS,
    FRAMES,
    MAPPING,
    STRING,
    frame,
    listed,
    page_of,
    record,
    ref,
)
from penstock.server.task_schemas import TASKS

USAGE = Usage(input_tokens=1, output_tokens=2, model_calls=3, tool_calls=4, cost_usd=0.5).to_wire()
META = {"total": 1, "limit": 20, "offset": 0}
MODEL = {"id": "m", "name": "M", "provider": "p", "available": True, "tools": True}
ARTIFACT = {"id": "a", "toolName": "t", "totalCharacters": 1, "offset": 0, "text": "x"}


@cache
def component(name: str) -> Schema:
    whole = json.dumps(ref(name) | {"$defs": COMPONENTS | TASKS})
    return Schema(json.loads(whole.replace("#/components/schemas/", "#/$defs/")))


@pytest.mark.parametrize("name", COMPONENTS | TASKS)
def test_each_component_is_a_schema_of_an_object(name: str) -> None:
    """A schema that accepts every value describes nothing."""
    others: tuple[Any, ...] = (7, "x", None, [], {"unknown": "knows this"})
    for other in others:
        assert component(name).problems(other), other


@pytest.mark.parametrize(
    ("name", "key", "words"),
    [
        ("Task", "status", TaskStatus),
        ("TaskState", "status", TaskStatus),
        ("Waiting", "status", TaskStatus),
        ("Question", "kind", QuestionKind),
        ("QuestionAsked", "kind", QuestionKind),
    ],
)
def test_a_closed_set_is_the_one_of_the_domain(name: str, key: str, words: type[StrEnum]) -> None:
    assert (COMPONENTS | TASKS)[name]["properties"][key]["enum"] == [each.value for each in words]


def test_a_question_has_a_status_of_the_domain_or_has_expired() -> None:
    result = COMPONENTS["Question"]["properties"]["status"]["enum"]
    assert result == [*map(str, QuestionStatus), standing(QuestionStatus.CANCELLED, EXPIRED)]


def test_a_tool_has_an_effect_of_the_domain() -> None:
    tool = COMPONENTS["Tools"]["properties"]["tools"]["items"]["properties"]
    assert tool["effect"]["enum"] == [each.value for each in Effect]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Usage", USAGE),
        ("Usage", NOTHING_SPENT.to_wire()),
        ("Models", {"models": [MODEL | {"contextTokens": None}], "default": "m"}),
        ("Artifact", ARTIFACT | {"hasMore": False}),
        ("Questions", {"questions": [], "meta": META}),
        ("Problem", {"error": {"code": "X", "message": "No."}}),
        ("TaskError", {"type": "error", "message": "", "code": "X", "retryable": True}),
    ],
)
def test_a_value_has_every_key_of_its_schema_and_no_other(name: str, value: Any) -> None:
    whole = value | ({"taskId": "task_1"} if name == "TaskError" else {})
    schema = component(name)
    assert schema.problems(whole) == []
    assert schema.problems(whole | {"other": 1})
    for key in whole:
        assert schema.problems({name: each for name, each in whole.items() if name != key}), key
        assert schema.problems(whole | {key: of_another_kind(whole[key])}), key


def of_another_kind(value: Any) -> Any:
    return ["x"] if not isinstance(value, list) else "x"


@pytest.mark.parametrize("key", ["inputTokens", "outputTokens", "modelCalls", "toolCalls"])
def test_usage_is_never_negative(key: str) -> None:
    assert component("Usage").problems(USAGE | {key: -1})


def test_every_frame_schema_is_selected_by_type() -> None:
    values = {name: schema["properties"]["type"]["const"] for name, schema in FRAMES.items()}
    both = {"ToolResult": "ToolOutcome", "ToolFailure": "ToolOutcome"}
    assert {kind: both.get(name, name) for name, kind in values.items()} == MAPPING


def test_a_record_has_its_keys_and_no_others() -> None:
    schema = Schema(record({"a": STRING, "b": STRING}, "b"))
    assert schema.problems({"a": "x"}) == []
    assert schema.problems({"a": "x", "b": "x"}) == []
    for wrong in ({}, {"b": "x"}, {"a": "x", "c": "x"}, {"a": 1}, {"a": "x", "b": None}):
        assert len(schema.problems(wrong)) == 1, wrong


def test_a_frame_has_its_type() -> None:
    schema = Schema(frame("error", {"message": STRING}))
    assert schema.problems({"type": "error", "message": "x"}) == []
    for wrong in ({"type": "other", "message": "x"}, {"message": "x"}, {"type": "error"}):
        assert len(schema.problems(wrong)) == 1, wrong


def test_a_page_has_its_items_and_meta() -> None:
    page = page_of("agents", "Agent")
    assert page["properties"]["agents"] == listed(ref("Agent"))
    meta = Schema(page["properties"]["meta"])
    assert meta.problems(META) == []
    for key in META:
        assert meta.problems(META | {key: -1})
    assert page["required"] == ["agents", "meta"]
    assert page["additionalProperties"] is False
