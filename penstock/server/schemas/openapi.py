"""Descriptions of routes for OpenAPI: answers, bodies and streams."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from penstock.server.requests.bodies import JSON_TYPE, Form
from penstock.server.schemas.components import COMPONENTS, ref
from penstock.server.schemas.flows import FLOWS
from penstock.server.schemas.outcomes import OUTCOMES

_VALIDATION = "HTTPValidationError"
Responses = dict[int | str, dict[str, Any]]

PROBLEM: dict[str, Any] = {
    "description": "What is wrong",
    "content": {JSON_TYPE: {"schema": ref("Problem")}},
}


def answers(name: str | None, status: int = 200, **more: str) -> Responses:
    """Return the answers of a route: a component, others such as `s202="Waiting"`, and errors."""
    found: Responses = {status: _answer(name)}
    for key, other in more.items():
        found[int(key.removeprefix("s"))] = _answer(other)
    return found | {"default": PROBLEM}


def streams(found: Responses, frame: str = "Frame") -> Responses:
    """Add a stream of frames to the answers of a route."""
    content = found.setdefault(200, {"description": "The stream"}).setdefault("content", {})
    content["text/event-stream"] = _events(frame)
    return found


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
        schemas |= COMPONENTS | OUTCOMES | FLOWS
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


def _answer(name: str | None) -> dict[str, Any]:
    if name is None:
        return {"description": "Done; nothing to say"}
    return {"description": name, "content": {JSON_TYPE: {"schema": ref(name)}}}
