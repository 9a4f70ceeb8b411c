"""The OpenAPI document: routes, and tools that allow direct calls."""

import json
from typing import Any

import pytest

from penstock.core.json_values.schema import Schema
from penstock.server.application import create_application
from penstock.server.openapi import (
    OUTCOMES,
    PROBLEM,
    answers,
    document,
    streams,
    takes,
    with_tools,
)
from penstock.server.parameters import Form
from penstock.server.schemas import COMPONENTS
from penstock.testing.runtime import memory_runtime
from tests.kit.server import served
from tests.kit.tools import Act


def test_the_answers_of_a_route_are_described() -> None:
    result = answers("Exchange", s202="Waiting")
    assert list(result) == [200, 202, "default"]
    assert result["default"] is PROBLEM
    assert answers(None, 204)[204] == {"description": "Done, without a body"}


def test_a_streaming_route_is_described_as_one() -> None:
    """Each item is described: a `schema` would be of the stream as a list of them."""
    content = streams(answers(None, 204))[200]["content"]
    assert list(content) == ["text/event-stream"]
    assert list(content["text/event-stream"]) == ["itemSchema"]


def test_the_body_of_a_route_is_described() -> None:
    body = takes(Form({"a": {}}), required=False)["requestBody"]
    assert body["required"] is False
    assert body["content"]["application/json"]["schema"]["properties"] == {"a": {}}


async def test_the_document_is_built_once() -> None:
    async with memory_runtime() as runtime:
        app = create_application(runtime)
        assert document(app) is document(app)
        assert "HTTPValidationError" not in document(app)["components"]["schemas"]


WHOLE = COMPONENTS | OUTCOMES


def component(name: str) -> Schema:
    """Return the schema of one component."""
    whole = json.dumps({"$ref": f"#/$defs/{name}", "$defs": WHOLE})
    return Schema(json.loads(whole.replace("#/components/schemas/", "#/$defs/")))


@pytest.mark.parametrize("name", OUTCOMES)
def test_each_schema_is_of_an_object_with_known_keys(name: str) -> None:
    others: tuple[Any, ...] = (7, None, [], {"unknown": "knows this"})
    for other in others:
        assert component(name).problems(other), other


def test_an_outcome_is_an_envelope_with_its_task() -> None:
    outcome = component("CallOutcome")
    assert outcome.problems({"status": "success", "output": None, "taskId": "task_1"}) == []
    assert outcome.problems({"status": "suspended", "taskId": "task_1"})


COUNT = {
    "$id": "urn:count",
    "type": "object",
    "required": ["n"],
    "properties": {
        "n": {"$ref": "#/$defs/count"},
        "more": {"$ref": "#"},
        "$ref": {"const": {"$ref": "#/left/alone"}},
    },
    "$defs": {"count": {"type": "integer"}},
}
OUTPUT = {"type": "array", "items": {"$ref": "#/$defs/one"}, "$defs": {"one": {"type": "null"}}}
STATUSES = "200 202 400 401 409 413 415 429 403 404 422 default"


def described(**spec: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the operation of a tool, and the whole document."""
    whole = with_tools({"paths": {"/x": {}}}, [Act("count", **spec)])
    return whole["paths"]["/api/direct-calls/count"]["post"], whole


def body_of(operation: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of what a call takes."""
    result: dict[str, Any] = operation["requestBody"]["content"]["application/json"]["schema"]
    return result


def test_references_in_the_schemas_of_a_tool_stay_inside_them() -> None:
    operation, whole = described(input_schema=COUNT, output_schema=OUTPUT)
    place = "#/components/schemas/tool.count.input"
    moved = whole["components"]["schemas"]["tool.count.input"]
    assert body_of(operation)["properties"]["input"] == {"$ref": place}
    assert "$id" not in str(whole)
    assert moved["properties"] == {
        "n": {"$ref": f"{place}/$defs/count"},
        "more": {"$ref": place},
        "$ref": {"const": {"$ref": "#/left/alone"}},
    }
    assert set(whole["paths"]) == {"/x", "/api/direct-calls/count"}


def test_the_schema_of_a_body_accepts_the_input_of_the_tool() -> None:
    operation, whole = described(input_schema=COUNT)
    body = Schema(body_of(operation) | {"components": whole["components"]})
    assert body.problems({"input": {"n": 1}, "conversationId": None}) == []
    assert [each.path for each in body.problems({"input": {"n": "x"}})] == ["/input/n"]
    assert body.problems({})


@pytest.mark.parametrize(("schema", "needed"), [(COUNT, True), ({"type": "object"}, False)])
def test_a_body_is_required_if_the_tool_needs_an_input(
    schema: dict[str, Any], *, needed: bool
) -> None:
    operation, _ = described(input_schema=schema)
    assert operation["requestBody"]["required"] is needed
    assert ("input" in body_of(operation)["required"]) is needed


def test_every_status_and_every_bound_of_a_parameter_is_described() -> None:
    operation, _ = described()
    assert " ".join(operation["responses"]) == STATUSES
    wait, key = (each["schema"] for each in operation["parameters"])
    assert (wait["minimum"], wait["maximum"], wait["default"]) == (0, 300, 120)
    assert (key["minLength"], key["maxLength"]) == (1, 255)


async def test_the_path_of_a_tool_describes_all_its_methods() -> None:
    """Shows: "`schemathesis` on the served OpenAPI finds no 5xx and no schema violation"."""
    async with served(tools=[Act("count", direct_call=True)]) as server:
        path = "/api/direct-calls/count"
        whole = (await server.client.get("/openapi.json")).json()
        allowed = (await server.client.options(path)).headers["allow"]
    assert ", ".join(method.upper() for method in whole["paths"][path]) == allowed


async def test_the_document_of_a_server_includes_its_tools_and_their_schemas() -> None:
    async with served(tools=[Act("count", input_schema=COUNT, direct_call=True)]) as server:
        whole = (await server.client.get("/openapi.json")).json()
        assert "tool.count.input" not in document(server.app)["components"]["schemas"]
    assert {"CallOutcome", "Problem", "tool.count.input"} <= set(whole["components"]["schemas"])


def test_the_schemas_of_a_tool_can_be_read() -> None:
    whole = with_tools({"paths": {}}, [Act("count", input_schema=COUNT)])
    look = whole["paths"]["/api/direct-calls/count"]["get"]
    assert (look["tags"], look["operationId"]) == (["direct calls"], "show_count")
    assert look["summary"] == "Input and output of count"
    shown = look["responses"]["200"]["content"]["application/json"]["schema"]
    assert shown == {"$ref": "#/components/schemas/DirectCall"}
    assert look["responses"].keys() == {"200", "default"}
