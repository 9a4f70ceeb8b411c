"""The promises of *Nested Tool Calls* about `/call` and programs, over HTTP, on real files."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from penstock.agents.agent import Agent
from penstock.app.runtime import Runtime
from penstock.models.scripted import ScriptedModel, call, say
from penstock.server.application import create_application
from tests.kit.manifests import PUBLISH
from tests.kit.project import ProjectFolder
from tests.kit.server import CHAT, HERE, frames

SCRIPT = """
export async function run() {
  const sent = await flo.callTool({
    tool_id: "send_media_attachment", input: { media_id: "m1" },
  });
  return { ok: true, sent: sent.error?.code ?? sent.status };
}
"""
INVOICE = """
name: make_invoice
description: Make an invoice.
direct_call: true
input_schema:
  type: object
  required: [customer, amount]
  properties:
    customer: { type: string }
    amount: { type: number }
    draft: { type: boolean }
execution: { type: script, script: "export const run = (input: unknown) => input;" }
"""
WAITING = """
export async function run() {
  const { user_message } = await flo.task.waitForUserMessage({ user_message: "Which month?" });
  const { resume_payload } = await flo.task.getContext<any>();
  return { user_message, pages: resume_payload.pages };
}
"""


@pytest.fixture
def project(tmp_path: Path, machine_code: Path) -> ProjectFolder:
    """The seed's `publish_report`, and the invoices of the examples."""
    folder = ProjectFolder(tmp_path, machine_code)
    folder.write("tools/publish_report.tool.yaml", PUBLISH)
    folder.write("tools/scripts/publish_report.mts", SCRIPT)
    folder.write("tools/make_invoice.tool.yaml", INVOICE)
    return folder


class Client:
    """A program, and a person who chats, at one server."""

    def __init__(self, runtime: Runtime, model: ScriptedModel, http: httpx2.AsyncClient) -> None:
        self.runtime = runtime
        self.model = model
        self.http = http

    async def say(self, content: str, **more: Any) -> str:
        """Say something; returns the answer."""
        answered = await self.http.post(CHAT, json={"content": content} | more)
        return str(answered.json()["assistantMessage"]["content"])

    async def call(self, tool_id: str, body: Any = None, **more: Any) -> tuple[int, Any]:
        """Call a tool; returns the status and the body, without the task's id if it has one."""
        url = f"/api/direct-calls/{tool_id}"
        answered = await self.http.post(url, json=body or {"input": {}}, **more)
        return answered.status_code, answered.json()


@asynccontextmanager
async def opened(project: ProjectFolder, *replies: Any) -> AsyncIterator[Client]:
    """Serve the project; its assistant says these, and Hello. to all else."""
    model = ScriptedModel([*replies, say("Hello.")] if replies else {"": say("Hello.")})
    async with project.opened(agents=[Agent("assistant", model=model)]) as runtime:
        transport = httpx2.ASGITransport(create_application(runtime))
        async with httpx2.AsyncClient(transport=transport, base_url=HERE) as http:
            yield Client(runtime, model, http)


async def test_n02_the_commands_answer_and_ask_no_model(project: ProjectFolder) -> None:
    """Seed N02: "slash commands are /call and /web"."""
    async with opened(project) as client:
        assert (await client.say("/call")).startswith("Direct-call tools:")
        assert "/link/" in await client.say("/web")
        assert (await client.say("/web https://penstock.example")).startswith("NOT_AVAILABLE: ")
        assert client.model.requests == []


async def test_n23_call_runs_the_tool_and_its_helper_is_allowed(project: ProjectFolder) -> None:
    """Seed N23: the `publish_report` manifest."""
    async with opened(project) as client:
        envelope = json.loads(await client.say("/call publish_report"))
    assert (envelope["status"], envelope["output"]["ok"]) == ("success", True)
    assert envelope["output"]["sent"] != "NOT_PERMITTED"


async def test_n24_a_helper_is_not_a_direct_call(project: ProjectFolder) -> None:
    """Seed N24: "stays nested-only unless it separately declares direct_call"."""
    said = 'TOOL_NOT_FOUND: no direct-call tool "send_media_attachment"'
    async with opened(project) as client:
        assert await client.say("/call send_media_attachment") == said


async def test_n25_programs_may_call_the_same_tools_as_slash_call(project: ProjectFolder) -> None:
    """Seed N25: "also governs typed direct-call invocations from external apps"."""
    async with opened(project) as client:
        status, body = await client.call("publish_report")
        assert (status, body["status"], body["taskId"][:5]) == (200, "success", "task_")
        refused = await client.call("send_media_attachment", {"input": {"media_id": "m1"}})
        typed = (await client.http.get("/openapi.json")).json()["paths"]
    assert refused == (
        404,
        {
            "status": "failed",
            "error": {
                "code": "TOOL_NOT_FOUND",
                "message": 'no direct-call tool "send_media_attachment"',
                "retryable": False,
                "continuable": True,
            },
            "taskId": None,
        },
    )
    assert "/api/direct-calls/publish_report" in typed
    assert "/api/direct-calls/send_media_attachment" not in typed


async def test_n26_n27_it_opens_two_ways_and_shows_nothing_to_a_model(
    project: ProjectFolder,
) -> None:
    """Seed N26, N27: "two runtime behaviors"; not "to the normal … LLM tool list"."""
    nested = """
        export async function run() {
          const { status } = await flo.callTool({ tool_id: "publish_report", input: {} });
          return { status };
        }
    """
    project.tool("outer", nested)
    async with opened(project, call("publish_report")) as client:
        await client.say("Publish it")
        status, body = await client.call("outer")
    assert (status, body["output"]) == (200, {"status": "success"})
    first, second = client.model.requests
    assert "publish_report" not in {each.name for each in first.tools}
    assert "TOOL_NOT_FOUND" in str(list(second.messages))


LISTED = """\
Direct-call tools:
- make_invoice: Make an invoice. (needs: customer, amount)
- publish_report: Publish a prepared report. (no input needed)"""
WRONG = """\
validation_error: input of "make_invoice" is not valid: /amount: "x" is not a number; \
/customer: is required
usage: /call make_invoice customer=<string> amount=<number> [draft=<boolean>]"""


async def test_the_examples_of_call_match_the_page(project: ProjectFolder) -> None:
    """Spec: the table of commands, and its examples."""
    async with opened(project) as client:
        assert await client.say("/call") == LISTED
        assert await client.say("/call make_invoice amount=x") == WRONG
        made = await client.say('/call make_invoice customer="two words" amount=5 draft=true')
        assert json.loads(made)["output"] == {
            "customer": "two words",
            "amount": 5,
            "draft": True,
        }


async def test_a_command_streams_as_a_call_without_thinking(project: ProjectFolder) -> None:
    """Spec: "frames are `message_start`, `tool_call`, `tool_result`, `message_complete`"."""
    body = {"content": "/call make_invoice customer=x amount=1", "stream": True}
    async with opened(project) as client:
        streamed = await client.http.post(CHAT, json=body)
        conversation = streamed.headers["x-conversation-id"]
        history = await client.http.get(CHAT, params={"conversationId": conversation})
        seen = [frame for _, frame in frames(streamed.text)]
    assert [each["type"] for each in seen] == [
        "message_start",
        "tool_call",
        "tool_result",
        "message_complete",
    ]
    assert (seen[1]["name"], seen[1]["arguments"]) == (
        "make_invoice",
        {"customer": "x", "amount": 1},
    )
    assert (seen[2]["success"], seen[2]["toolCallId"]) == (True, seen[1]["id"])
    user, assistant = history.json()["messages"]
    assert user["content"] == body["content"]
    assert assistant["content"] == seen[3]["content"]
    assert [each["name"] for each in assistant["toolCalls"]] == ["make_invoice"]


async def test_the_same_request_is_one_call_and_a_conversation_its_place(
    project: ProjectFolder,
) -> None:
    """Spec: "the same `taskId` and answer …, also when both requests come at the same time"."""
    key = {"idempotency-key": "k1"}
    async with opened(project) as client:
        both = await asyncio.gather(*(client.call("publish_report", headers=key) for _ in range(2)))
        other = await client.call("publish_report", {"input": {"x": 1}}, headers=key)
    assert both[0] == both[1]
    assert other[0] == 422
    async with opened(project) as client:  # as after a crash
        assert await client.call("publish_report", headers=key) == both[0]


async def test_a_person_answers_with_words_and_a_payload(project: ProjectFolder) -> None:
    """Spec: "`{text, resume_payload?}` (user_message)"; the task goes on by itself."""
    project.tool("wait", WAITING)
    async with opened(project) as client:
        status, body = await client.call("wait")
        (question,) = body["questions"]
        assert (status, question["kind"], question["text"]) == (
            202,
            "user_message",
            "Which month?",
        )
        url = f"/api/questions/{question['id']}/answer"
        answer = {"text": "May", "resume_payload": {"pages": 3}}
        assert (await client.http.post(url, json=answer)).status_code == 200
        late = await client.http.post(url, json={"text": "June"})
        await client.runtime.requests.wait(body["taskId"])
        task = (await client.http.get(f"/api/tasks/{body['taskId']}")).json()
    assert late.status_code == 409
    assert task["result"]["output"] == {"user_message": "May", "pages": 3}


async def test_the_next_message_that_is_no_command_is_the_answer(project: ProjectFolder) -> None:
    """Spec: "The next message of the conversation that is no command"."""
    project.tool("wait", WAITING)
    async with opened(project) as client:
        said = await client.http.post(CHAT, json={"content": "/call wait"})
        here = {"conversationId": said.json()["conversationId"]}
        refused = await client.http.post(CHAT, json={"content": "/new"} | here)
        answer = await client.say("May", **here)
    assert refused.json()["error"]["code"] == "QUESTION_OPEN"
    assert json.loads(answer)["output"]["user_message"] == "May"
