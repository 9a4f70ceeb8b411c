"""The OpenAPI document: routes, their answers and bodies, and tools that allow direct calls."""

from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from penstock.core.envelope import Json
from penstock.server.flow_schemas import FLOWS
from penstock.server.parameters import ID, JSON_TYPE, KEY_CHARACTERS, Form
from penstock.server.schemas import (
    ANYTHING,
    COMPONENTS,
    NUMBER,
    OBJECT,
    STRING,
    TEXT_OR_NULL,
    TIME,
    TIME_OR_NULL,
    TRUTH,
    Schema,
    listed,
    page_of,
    record,
    ref,
)
from penstock.server.task_schemas import OPERATIONS, TASKS
from penstock.tools.tool import Tool

_ERROR = record(
    {
        "code": STRING,
        "message": STRING,
        "retryable": TRUTH,
        "continuable": TRUTH,
        "details": OBJECT,
    },
    "details",
)
_ENVELOPE = {
    "status": {"enum": ["success", "failed", "timeout", "validation_error"]},
    "output": ANYTHING,
    "error": _ERROR,
}

OUTCOMES: dict[str, Schema] = {
    "DirectCall": record(
        {
            "toolId": STRING,
            "description": STRING,
            "inputSchema": OBJECT,
            "outputSchema": OBJECT,
            "effect": {"enum": ["none", "read", "write"]},
            "requiresApproval": TRUTH,
        },
        "outputSchema",
    ),
    "DirectCalls": page_of("directCalls", "DirectCall"),
    "CallOutcome": record(_ENVELOPE | {"taskId": TEXT_OR_NULL}, "output", "error"),
    "Schedule": record(
        {
            **dict.fromkeys(("id", "name", "agent", "timezone", "callback_id"), STRING),
            **dict.fromkeys(("cron_expression", "conversation_id", "reason"), TEXT_OR_NULL),
            **dict.fromkeys(("last_status", "last_task_id"), TEXT_OR_NULL),
            **dict.fromkeys(("next_run", "last_run"), TIME_OR_NULL),
            **dict.fromkeys(("created_at", "updated_at"), TIME),
            "type": {"enum": ["once", "delayed", "cron"]},
            "delay_seconds": {"type": ["integer", "null"]},
            "next_runs": listed(TIME),
            "callback_type": {"enum": ["message", "workflow", "function"]},
            "input": OBJECT,
            "concurrency": {"enum": ["forbid", "allow"]},
            "suspension_timeout": {"type": ["object", "null"]},
            "status": {"enum": ["active", "paused", "completed"]},
            "source": {"enum": ["api", "file"]},
            "missed": NUMBER,
        }
    ),
    "Schedules": page_of("schedules", "Schedule"),
    "ScheduleRun": record({"task_id": STRING}),
    "OpenedLink": record(
        {
            "key": TEXT_OR_NULL,
            "conversationId": STRING,
            "agentId": STRING,
            "expiresAt": TEXT_OR_NULL,
        }
    ),
    "CallWaiting": record(
        {
            "taskId": STRING,
            "status": {"const": "suspended"},
            "error": _ERROR,
            "questions": listed(ref("OpenQuestion")),
        },
        "status",
        "error",
        "questions",
    ),
}
"""Every schema of a direct call, of a schedule, and of a link."""


_VALIDATION = "HTTPValidationError"
Responses = dict[int | str, dict[str, Any]]

PROBLEM: dict[str, Any] = {
    "description": "The error",
    "content": {JSON_TYPE: {"schema": ref("Problem")}},
}


def answers(name: str | None, status: int = 200, **more: str) -> Responses:
    """Return the answers of a route: a component, others such as `s202="Waiting"`, and errors."""
    responses: Responses = {status: _component_answer(name)}
    for key, other in more.items():
        responses[int(key.removeprefix("s"))] = _component_answer(other)
    return responses | {"default": PROBLEM}


def streams(responses: Responses, frame: str = "Frame") -> Responses:
    """Add a stream of frames to the answers of a route."""
    content = responses.setdefault(200, {"description": "The stream"}).setdefault("content", {})
    content["text/event-stream"] = _events(frame)
    return responses


def takes(form: Form, *, required: bool = True) -> dict[str, Any]:
    """Return the description of a route's body."""
    content = {JSON_TYPE: {"schema": form.schema}}
    return {"requestBody": {"required": required, "content": content}}


def document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, which is built once."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        schemas = made.setdefault("components", {}).setdefault("schemas", {})
        for name in (_VALIDATION, "ValidationError"):
            schemas.pop(name, None)
        schemas |= COMPONENTS | OUTCOMES | FLOWS | TASKS | OPERATIONS
        for path in made["paths"].values():
            for operation in path.values():
                if _VALIDATION in str(operation["responses"].get("422")):
                    del operation["responses"]["422"]
        app.openapi_schema = made
    return app.openapi_schema


def _events(frame: str) -> dict[str, Any]:
    """Return the description of a stream of frames."""
    data = {"type": "string", "contentMediaType": JSON_TYPE, "contentSchema": ref(frame)}
    return {
        "itemSchema": {
            "type": "object",
            "required": ["id", "event", "data"],
            "properties": {
                "id": {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?$"},
                "event": {"const": "message"},
                "data": data,
            },
        },
    }


def _component_answer(name: str | None) -> dict[str, Any]:
    if name is None:
        return {"description": "Done, without a body"}
    return {"description": name, "content": {JSON_TYPE: {"schema": ref(name)}}}


MAX_SECONDS = 300
DEFAULT_SECONDS = 120
"""How many seconds a request waits for a call."""
REFUSALS = ("400", "401", "409", "413", "415", "429")
"""Status codes before a call starts; their answers have the format of all errors."""
_VALUES = {"const", "default", "enum", "examples"}
"""JSON Schema keywords whose values are not schemas."""
_WAIT: Schema = {"type": "number", "minimum": 0, "maximum": MAX_SECONDS, "default": DEFAULT_SECONDS}
_KEY: Schema = {"type": "string", "minLength": 1, "maxLength": KEY_CHARACTERS}


def with_tools(whole: dict[str, Any], tools: Iterable[Tool]) -> dict[str, Any]:
    """Return the document with a path for each of these tools, and with their schemas."""
    every, components = tuple(tools), whole.get("components", {})
    paths = {
        f"/api/direct-calls/{tool.spec.tool_id}": {
            "get": _read_operation(tool),
            "post": _call_operation(tool),
        }
        for tool in every
    }
    schemas = {name: schema for tool in every for name, schema in _schemas(tool).items()}
    named = {**components, "schemas": {**components.get("schemas", {}), **schemas}}
    return {**whole, "paths": {**whole["paths"], **paths}, "components": named}


def _read_operation(tool: Tool) -> dict[str, Any]:
    """Return the operation that describes a tool."""
    tool_id = tool.spec.tool_id
    return {
        "tags": ["direct calls"],
        "summary": f"Input and output of {tool_id}",
        "operationId": f"show_{tool_id}",
        "responses": {
            "200": _answer("The schemas of the tool", ref("DirectCall")),
            "default": PROBLEM,
        },
    }


def _call_operation(tool: Tool) -> dict[str, Any]:
    """Return the operation of a direct call of a tool."""
    spec = tool.spec
    needs_input = bool(spec.input_schema.get("required"))
    properties = {
        "input": ref(_name(tool, "input")),
        "conversationId": ID,
        "selectedSkillIds": {"type": ["array", "null"], "items": STRING},
    }
    optional = [each for each in properties if each != "input" or not needs_input]
    output = {"properties": {"output": ref(_name(tool, "output"))}}
    outcome = {"allOf": [ref("CallOutcome"), output]} if spec.output_schema else ref("CallOutcome")
    refused = {"anyOf": [ref("CallOutcome"), ref("Problem")]}
    return {
        "tags": ["direct calls"],
        "summary": spec.tool_id,
        "description": spec.description,
        "operationId": f"call_{spec.tool_id}",
        "parameters": [
            {"name": "wait", "in": "query", "schema": _WAIT},
            {"name": "Idempotency-Key", "in": "header", "schema": _KEY},
        ],
        "requestBody": {"required": needs_input, **_content(record(properties, *optional))},
        "responses": {
            "200": _answer("The call is settled: it succeeded, failed, or timed out", outcome),
            "202": _answer("The call waits for a person, or still runs", ref("CallWaiting")),
            **dict.fromkeys(REFUSALS, PROBLEM),
            "403": _answer("A permission is missing", refused),
            "404": _answer("There is no such tool or conversation", refused),
            "422": _answer("The input is not valid", ref("CallOutcome")),
            "default": PROBLEM,
        },
    }


def _schemas(tool: Tool) -> dict[str, Any]:
    """Return the schemas of a tool as components; their references stay within them."""
    own = {"input": tool.spec.input_schema, "output": tool.spec.output_schema}
    named = {_name(tool, what): schema for what, schema in own.items() if schema}
    return {name: _moved(_plain(schema), ref(name)["$ref"]) for name, schema in named.items()}


def _name(tool: Tool, what: str) -> str:
    return f"tool.{tool.spec.tool_id}.{what}"


def _plain(schema: Json) -> dict[str, Any]:
    """Return a schema without keywords that are valid only at the root of a document."""
    return {key: value for key, value in schema.items() if key not in {"$id", "$schema"}}


def _moved(schema: Any, place: str) -> Any:
    """Return a schema with its internal references moved to its new position."""
    if isinstance(schema, list):
        return [_moved(each, place) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {key: _moved_member(key, value, place) for key, value in schema.items()}


def _moved_member(key: str, value: Any, place: str) -> Any:
    if key == "$ref" and isinstance(value, str) and (value == "#" or value.startswith("#/")):
        return place + value[1:]
    return value if key in _VALUES else _moved(value, place)


def _answer(description: str, schema: Schema) -> dict[str, Any]:
    return {"description": description, **_content(schema)}


def _content(schema: Schema) -> dict[str, Any]:
    return {"content": {JSON_TYPE: {"schema": schema}}}
