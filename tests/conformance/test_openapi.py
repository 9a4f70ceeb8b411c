"""The served OpenAPI document, and whether the server keeps what it says."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from penstock.agents.agent import Agent
from penstock.app.runtime import Runtime
from penstock.core.json_values.schema import Schema
from penstock.models.scripted import ScriptedModel, call, say
from penstock.server.schemas import COMPONENTS, FRAMES, MAPPING
from tests.kit.conversation_events import (
    Story,
    a_failing_tool,
    approval,
    frames_of,
    loop_detected,
    no_tools,
    two_parallel_tools,
)
from tests.kit.listener import in_a_thread
from tests.kit.server import CHAT, in_memory, served
from tests.kit.tools import Act

ROUTES = {
    "GET /api/agents",
    "GET /api/agents/{agent_id}",
    "GET /api/agents/{agent_id}/settings",
    "GET /api/agents/{agent_id}/chat",
    "POST /api/agents/{agent_id}/chat",
    "DELETE /api/agents/{agent_id}/chat",
    "GET /api/agents/{agent_id}/chat/models",
    "GET /api/agents/{agent_id}/chat/tools",
    "GET /api/agents/{agent_id}/chat/stream",
    "GET /api/agents/{agent_id}/chat/conversations",
    "POST /api/agents/{agent_id}/chat/conversations",
    "DELETE /api/agents/{agent_id}/chat/conversations/{conversation_id}",
    "DELETE /api/agents/{agent_id}/chat/messages/{message_id}",
    "POST /api/agents/{agent_id}/chat/messages/{message_id}/regenerate",
    "GET /api/tasks/{task_id}",
    "POST /api/tasks/{task_id}/cancel",
    "GET /api/tasks/{task_id}/events",
    "POST /api/links/{token}",
    "GET /api/direct-calls",
    "GET /api/direct-calls/{tool_id}",
    "POST /api/direct-calls/{tool_id}",
    "GET /api/questions",
    "GET /api/questions/{question_id}",
    "POST /api/questions/{question_id}/answer",
    "GET /api/blobs/{blob_id}",
    "GET /api/artifacts/{artifact_id}",
    "GET /api/health",
    "GET /api/ready",
    "GET /api/agents/{agent_id}/tools/metrics",
}


async def document() -> dict[str, Any]:
    """Return the document as it is served."""
    async with served() as server:
        served_as: dict[str, Any] = (await server.client.get("/openapi.json")).json()
        return served_as


async def test_the_document_names_every_route() -> None:
    paths = (await document())["paths"]
    named = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert named >= ROUTES


async def test_every_reference_leads_somewhere() -> None:
    whole = await document()
    text = json.dumps(whole)
    named = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert named - set(whole["components"]["schemas"]) == set()


async def test_the_union_of_events_is_documented() -> None:
    whole = await document()
    found = whole["paths"]["/api/agents/{agent_id}/chat"]["post"]["responses"]["200"]["content"]
    item = found["text/event-stream"]["itemSchema"]["properties"]["data"]["contentSchema"]
    assert item == {"$ref": "#/components/schemas/Frame"}
    union = whole["components"]["schemas"]["Frame"]
    assert union["discriminator"]["propertyName"] == "type"
    assert set(union["discriminator"]["mapping"]) == set(MAPPING)
    assert len(union["oneOf"]) == len(MAPPING)


async def test_the_stream_of_a_task_has_its_events() -> None:
    """11.3: "With `Accept: text/event-stream`: the same live", and no frames of a chat."""
    path = (await document())["paths"]["/api/tasks/{task_id}/events"]["get"]
    stream = path["responses"]["200"]["content"]["text/event-stream"]
    item = stream["itemSchema"]["properties"]["data"]["contentSchema"]
    assert item == {"$ref": "#/components/schemas/TaskEvent"}


@pytest.mark.parametrize(
    "tell", [no_tools, two_parallel_tools, a_failing_tool, loop_detected, approval]
)
def test_every_frame_matches_the_document(tell: Callable[[], Story]) -> None:
    text = json.dumps({"$ref": "#/$defs/Frame", "$defs": COMPONENTS})
    schema = Schema(json.loads(text.replace("#/components/schemas/", "#/$defs/")))
    for _, frame in frames_of(tell()):
        assert schema.problems(frame) == []
    assert schema.problems({"type": "message_start"})
    assert set(FRAMES) >= {"MessageStart", "TaskError"}


@asynccontextmanager
async def populated() -> AsyncIterator[Runtime]:
    """A runtime whose model answers everything, and asks before it mails."""
    model = ScriptedModel({"Mail": [call("mail")], "": say("Hello.")})
    tools, agents = [Act("mail", requires_approval=True)], [Agent("assistant"), Agent("other")]
    async with in_memory(model=model, tools=tools, agents=agents) as runtime:
        yield runtime


DELETES_ALL = """
[[operations]]
include-name = "DELETE /api/agents/{agent_id}/chat"
parameters = { agent_id = "other" }
"""
"""What is followed is to be there still."""


@pytest.mark.slow(reason="a thousand requests that somebody else thought of")
def test_no_request_makes_the_server_break_its_word(tmp_path: Path) -> None:
    """`schemathesis` on the served OpenAPI finds no 5xx and no schema violation."""
    with in_a_thread(populated) as url, httpx2.Client(base_url=url) as client:
        parked = client.post(CHAT, json={"content": "Mail"}).json()
        asked = parked["suspended"]["questions"][0]["id"]
        said = client.post(CHAT, json={"content": "Hi"}).json()["userMessage"]
        known = {
            "agent_id": "assistant",
            "question_id": asked,
            "task_id": said["metadata"]["taskId"],
            "query.conversationId": said["conversationId"],
            "query.follow": "false",
        }
        lines = [f'"{name}" = "{value}"' for name, value in known.items()]
        config = tmp_path / "schemathesis.toml"
        config.write_text("\n".join(["[parameters]", *lines, DELETES_ALL]))
        ran = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config)),
                *("run", f"{url}/openapi.json", "--max-examples", "5", "--workers", "1"),
                *("--phases", "coverage,fuzzing", "--seed", "1"),
                *("--exclude-checks", "positive_data_acceptance"),
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-2000:]


FREE = {
    *("agent", "agentId", "before", "conversationId", "lastEventId", "parent", "search"),
    *("taskId", "tool", "webhookId"),
    *("exp", "name", "sig", "type"),  # of a signed link
}
"""Parameters of a query that any text may be."""


async def test_parameters_with_a_closed_set_of_values_name_them() -> None:
    async with served() as server:
        paths = (await server.client.get("/openapi.json")).json()["paths"]
    found = {
        (path, each["name"], str(each["schema"]))
        for path, operations in paths.items()
        for operation in operations.values()
        for each in operation.get("parameters", ())
        if each["in"] == "query" and "'string'" in str(each["schema"])
    }
    closed = {each for each in found if "'enum'" in each[2] or "'date-time'" in each[2]}
    assert {name for _, name, _ in found - closed} <= FREE
    sorts = {path: schema for path, name, schema in found if name == "sort"}
    assert len(sorts) == 9
    assert "['updatedAt', 'createdAt', 'title']" in str(sorts)


@pytest.mark.parametrize("path", ["/api/agents", f"{CHAT}/conversations", "/api/questions"])
async def test_a_list_takes_each_sort_that_the_document_names(path: str) -> None:
    async with served() as server:
        document = (await server.client.get("/openapi.json")).json()
        template = path.replace("/assistant/", "/{agent_id}/")
        known = next(
            each["schema"]
            for each in document["paths"][template]["get"]["parameters"]
            if each["name"] == "sort"
        )
        for name in known["enum"]:
            assert (await server.client.get(f"{path}?sort={name}")).status_code == 200
        wrong = await server.client.get(f"{path}?sort=no-such")
        usual = await server.client.get(path)
        named = await server.client.get(f"{path}?sort={known['default']}")
    assert (wrong.status_code, wrong.json()["error"]["details"][0]["field"]) == (422, "/sort")
    assert usual.json() == named.json()
