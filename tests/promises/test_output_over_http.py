"""Typed outputs over HTTP: the schema of a message, and where its output is shown."""

from typing import Any

import pytest

from penstock.models.scripted import ScriptedModel, call, say
from penstock.store.projections import Page
from tests.kit.server import CHAT, frames, served

TICKET = {
    "type": "object",
    "properties": {"title": {"type": "string"}},
    "required": ["title"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("name", ["outputSchema", "output_schema"])
async def test_a_message_with_a_schema_is_answered_with_an_output(name: str) -> None:
    model = ScriptedModel([call("final_answer", title="fire")] * 2)
    async with served(model=model) as server:
        body = (await server.say("It burns", **{name: TICKET})).json()
        streamed = await server.stream("It burns", **{name: TICKET})
        session = body["assistantMessage"]["conversationId"]
        listed = await server.client.get(CHAT, params={"conversationId": session})
    assert body["assistantMessage"]["output"] == {"title": "fire"}
    assert body["assistantMessage"]["content"] == '{"title":"fire"}'
    _, last = frames(streamed.text)[-1]
    assert (last["type"], last["output"]) == ("message_complete", {"title": "fire"})
    assert listed.json()["messages"][-1]["output"] == {"title": "fire"}


async def test_both_names_with_different_schemas_are_refused() -> None:
    async with served() as server:
        response = await server.say("Hi", outputSchema=TICKET, output_schema={"type": "null"})
    assert response.status_code == 422
    (problem,) = response.json()["error"]["details"]
    assert problem["issue"] == "is another name of 'outputSchema', and both have different values"


async def test_an_output_of_null_is_present_and_no_output_is_absent() -> None:
    model = ScriptedModel([call("final_answer", value=None), say("Hi.")])
    async with served(model=model) as server:
        typed = (await server.say("Hi", outputSchema={"type": "null"})).json()
        plain = (await server.say("Hi")).json()
    assert typed["assistantMessage"]["output"] is None
    assert "output" not in plain["assistantMessage"]


BAD_SCHEMAS: list[tuple[Any, str]] = [
    ({"type": "nothing"}, "is not a usable JSON Schema: "),
    ({"$ref": "https://example.com/a.json"}, "is not a usable JSON Schema: "),
    ({"type": "string", "pattern": "(?=a)b"}, "is not a usable JSON Schema: "),
    ({"description": "x" * 70_000}, "must have at most 64 KiB as JSON"),
    ("Ticket", '"Ticket" is not of types "null", "object"'),
]


@pytest.mark.parametrize(("schema", "issue"), BAD_SCHEMAS)
async def test_a_schema_that_cannot_be_used_is_refused(schema: Any, issue: str) -> None:
    async with served() as server:
        response = await server.say("Hi", outputSchema=schema)
        tasks, _ = await server.runtime.parts.storage.projections.tasks(page=Page())
    assert response.status_code == 422
    (problem,) = response.json()["error"]["details"]
    assert problem["field"] == "/outputSchema"
    assert issue in problem["issue"]
    assert tasks == []
