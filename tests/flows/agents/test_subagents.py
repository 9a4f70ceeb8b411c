"""Agents started by a tool call."""

import asyncio
from typing import Any

import pytest

from penstock.agents.agent import Agent
from penstock.builtins.ask_user import AskUser
from penstock.builtins.subagent import TOOLS
from penstock.chat.requests import NewMessage
from penstock.core.events.events import CallSettled
from penstock.core.events.flow_events import AgentStarted, FlowNotified
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.core.task import TaskStatus
from penstock.models.model import ModelRequest
from penstock.models.scripted import Hold, ScriptedModel, ScriptedReply, call, say, wait
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.resources import NO_PROJECT
from penstock.tools.tool import Tool
from tests.kit.asking import ask
from tests.kit.flows import finish, worker
from tests.kit.tools import Act, Gate

ODD = Agent("odd", instructions="Mind ${{result.x}}.", profile=worker("x").profile)


def model_of(inner: list[ScriptedReply], *chat: ScriptedReply) -> ScriptedModel:
    left = list(chat)

    def answer(request: ModelRequest) -> ScriptedReply:
        is_session = any(tool.name == "finish" for tool in request.tools)
        return (inner if is_session else left).pop(0)

    return ScriptedModel(answer)


async def happened(model: ScriptedModel, **more: Any) -> list[Any]:
    agents = [worker("scout"), worker("tight", max_turns=1), ODD]
    async with memory_runtime(model=model, tools=TOOLS, agents=agents, **more) as runtime:
        reply = await ask(runtime, "Go")
        records = await runtime.parts.storage.log.read(LogId(reply.session_id))
    return [each.event for each in records]


async def test_a_placeholder_without_a_value_causes_a_warning_and_the_agent_continues() -> None:
    """V7: missing is empty text and a `flow_warning`."""
    model = model_of([finish("ok")], call("subagent", agent="odd", task="t"), say("Done."))
    events = await happened(model)
    (began,) = [each for each in events if isinstance(each, AgentStarted)]
    assert began.system.endswith("Mind .")
    (warning,) = [each for each in events if isinstance(each, FlowNotified)]
    assert (warning.kind, warning.body["agentName"]) == ("flow_warning", "odd")


@pytest.mark.parametrize(
    ("inner", "agent", "message"),
    [
        ([call("look"), say("no")], "tight", "no finish within 1 turns"),
        ([], "scout", f"an input cannot be read: {NO_PROJECT}"),
    ],
)
async def test_an_agent_without_a_result_fails_the_call(
    inner: list[ScriptedReply], agent: str, message: str
) -> None:
    inputs = {"n": "file://x"} if agent == "scout" else {}
    asked = call("subagent", agent=agent, task="t", inputs=inputs)
    events = await happened(model_of(inner, asked, say("Oh.")))
    *_, settled = [each for each in events if isinstance(each, CallSettled)]
    assert settled.envelope.error is not None
    assert settled.envelope.error.code == "TOOL_FAILED"
    assert settled.envelope.error.message == f'agent "{agent}" did not finish: {message}'


async def test_a_chat_that_is_cancelled_ends_the_agent_with_it() -> None:
    gate = Gate()
    held = Act("wait", gate)
    model = model_of([call("wait")], call("subagent", agent="waits", task="t"))
    agents = [worker("waits", tools=("wait",))]
    async with memory_runtime(model=model, tools=[*TOOLS, held], agents=agents) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Go"))
        await gate.reached()
        await runtime.requests.cancel(sent.task_id)
        reply = await runtime.requests.wait(sent.task_id)
    assert reply is not None
    assert reply.status is TaskStatus.CANCELLED


async def test_after_a_restart_the_agent_continues_where_it_was() -> None:
    """13.2: the agent "runs as a frame of the session's log"."""
    here, hold = MemoryStorage(limits=Limits(shutdown_seconds=0.05)), Hold()
    look = Act("look")
    agents = [worker("looks", tools=("look",))]
    inner = [call("look"), wait(hold) + finish("seen"), finish("seen")]
    model = model_of(inner, call("subagent", agent="looks", task="t"), say("Done."))
    tools: list[Tool] = [*TOOLS, look]
    async with memory_runtime(model=model, tools=tools, agents=agents, place=here) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Go"))
        await asyncio.wait_for(hold.reached(), 1)
    async with memory_runtime(model=model, tools=tools, agents=agents, place=here) as runtime:
        reply = await runtime.requests.wait(sent.task_id)
    assert reply is not None
    assert (reply.content, look.runs) == ("Done.", [{}])
    assert [len(each.messages) for each in model.requests] == [1, 1, 3, 3, 3]


async def test_a_waiting_agent_continues_after_its_file_is_deleted() -> None:
    """A run in progress keeps what it started with."""
    asks = call("ask_user", question="Now?", type="confirm")
    model = model_of([asks, finish("ok")], call("subagent", agent="scout", task="t"), say("Done."))
    place = MemoryStorage()
    tools: list[Tool] = [*TOOLS, AskUser()]
    async with memory_runtime(
        model=model, tools=tools, agents=[worker("scout")], place=place
    ) as runtime:
        asked = await ask(runtime, "Go")
    async with memory_runtime(model=model, tools=tools, place=place) as runtime:
        await runtime.requests.answer(asked.questions[0].question.question_id, {"value": True})
        reply = await runtime.requests.wait(asked.task_id)
        records = await runtime.parts.storage.log.read(LogId(asked.session_id))
    assert reply is not None
    assert reply.content == "Done."
    called = [each.event for each in records if isinstance(each.event, CallSettled)][-1]
    assert called.envelope.output["summary"] == "ok"
