"""How routes are described."""

from penstock.core.schema import Schema
from penstock.server.application import create_application
from penstock.server.bodies import Form
from penstock.server.openapi import PROBLEM, answers, document, streams, takes, with_tools
from penstock.testing.runtime import memory_runtime
from tests.kit.tools import Act


def test_what_a_route_answers() -> None:
    found = answers("Exchange", s202="Waiting")
    assert list(found) == [200, 202, "default"]
    assert found["default"] is PROBLEM
    assert answers(None, 204)[204] == {"description": "Done; nothing to say"}


def test_a_route_that_streams_says_so() -> None:
    found = streams(answers(None, 204))
    assert list(found[200]["content"]) == ["text/event-stream"]


def test_what_a_route_takes() -> None:
    body = takes(Form({"a": {}}), required=False)["requestBody"]
    assert body["required"] is False
    assert body["content"]["application/json"]["schema"]["properties"] == {"a": {}}


async def test_the_document_is_made_once() -> None:
    async with memory_runtime() as runtime:
        app = create_application(runtime)
        assert document(app) is document(app)
        assert "HTTPValidationError" not in document(app)["components"]["schemas"]


def test_a_tool_s_schema_keeps_its_own_references() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/count"}},
        "$defs": {"count": {"type": "integer"}},
    }
    whole = with_tools({"paths": {"/x": {}}}, [Act("count", input_schema=schema)])
    operation = whole["paths"]["/api/direct-calls/count"]["post"]
    body = Schema(operation["requestBody"]["content"]["application/json"]["schema"])
    assert set(whole["paths"]) == {"/x", "/api/direct-calls/count"}
    assert body.problems({"input": {"n": 1}, "conversationId": None}) == []
    assert [each.path for each in body.problems({"input": {"n": "x"}})] == ["/input/n"]
