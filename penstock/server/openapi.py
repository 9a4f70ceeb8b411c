"""How routes are described: answers, bodies, streams, in the words of OpenAPI."""

from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from penstock.core.envelope import Json
from penstock.server.bodies import JSON_TYPE, Form
from penstock.server.outcomes import OUTCOMES
from penstock.server.schemas import COMPONENTS, STRING, record, ref
from penstock.tools.tool import Tool

_VALIDATION = "HTTPValidationError"
Responses = dict[int | str, dict[str, Any]]

PROBLEM: dict[str, Any] = {
    "description": "What is wrong",
    "content": {JSON_TYPE: {"schema": ref("Problem")}},
}
_EVENTS = {
    "schema": STRING,
    "itemSchema": {
        "type": "object",
        "required": ["id", "event", "data"],
        "properties": {
            "id": {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?$"},
            "event": {"const": "message"},
            "data": {
                "type": "string",
                "contentMediaType": JSON_TYPE,
                "contentSchema": ref("Frame"),
            },
        },
    },
}


def answers(name: str | None, status: int = 200, **more: str) -> Responses:
    """Return what a route answers: a component, others as `s202="Waiting"`, and problems."""
    found: Responses = {status: _answer(name)}
    for key, other in more.items():
        found[int(key.removeprefix("s"))] = _answer(other)
    return found | {"default": PROBLEM}


def streams(found: Responses) -> Responses:
    """Add that a route can also answer with the chat stream."""
    content = found.setdefault(200, {"description": "The stream"}).setdefault("content", {})
    content["text/event-stream"] = _EVENTS
    return found


def takes(form: Form, *, required: bool = True) -> dict[str, Any]:
    """Return what a route says about its body."""
    content = {JSON_TYPE: {"schema": form.schema}}
    return {"requestBody": {"required": required, "content": content}}


def document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, made once."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        schemas = made.setdefault("components", {}).setdefault("schemas", {})
        for name in (_VALIDATION, "ValidationError"):
            schemas.pop(name, None)
        schemas |= COMPONENTS | OUTCOMES
        for path in made["paths"].values():
            for operation in path.values():
                if _VALIDATION in str(operation["responses"].get("422")):
                    del operation["responses"]["422"]
        app.openapi_schema = made
    return app.openapi_schema


def with_tools(whole: dict[str, Any], tools: Iterable[Tool]) -> dict[str, Any]:
    """Return the document with a path for each of these tools, which may be called directly."""
    named = {f"/api/direct-calls/{tool.spec.tool_id}": {"post": _call(tool)} for tool in tools}
    return {**whole, "paths": {**whole["paths"], **named}}


def _call(tool: Tool) -> dict[str, Any]:
    """Return the operation that a direct call of a tool is."""
    spec = tool.spec
    properties = {
        "input": _own(spec.tool_id, "input", spec.input_schema),
        "conversationId": {"type": ["string", "null"]},
        "selectedSkillIds": {"type": ["array", "null"], "items": STRING},
    }
    body = {"schema": record(properties, *properties)}
    output = _own(spec.tool_id, "output", spec.output_schema or {})
    outcome = {"allOf": [ref("CallOutcome"), {"properties": {"output": output}}]}
    return {
        "tags": ["direct calls"],
        "summary": spec.tool_id,
        "description": spec.description,
        "operationId": f"call_{spec.tool_id}",
        "parameters": [
            {"name": "wait", "in": "query", "schema": {"type": "number", "default": 120}},
            {"name": "Idempotency-Key", "in": "header", "schema": STRING},
        ],
        "requestBody": {"content": {JSON_TYPE: body}},
        "responses": {
            "200": {"description": "Settled", "content": {JSON_TYPE: {"schema": outcome}}},
            "202": _answer("CallWaiting"),
            "422": _answer("CallOutcome"),
            "default": PROBLEM,
        },
    }


def _own(tool_id: str, what: str, schema: Json) -> dict[str, Any]:
    """Return a tool's schema with a name, so that its references stay within it."""
    return {"$id": f"urn:penstock:{tool_id}:{what}"} | dict(schema)


def _answer(name: str | None) -> dict[str, Any]:
    if name is None:
        return {"description": "Done; nothing to say"}
    return {"description": name, "content": {JSON_TYPE: {"schema": ref(name)}}}
