"""A typed output over crashes and erasures, and on the wires of providers."""

import asyncio
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from penstock.agents.agent import Agent
from penstock.app.runtime import Runtime
from penstock.chat.requests import NewMessage, TaskReply
from penstock.core.events.events import TaskEnded
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.core.task import TaskOutput, TaskStatus
from penstock.models.providers import ModelConfig
from penstock.models.resolve import ModelRegistry
from penstock.models.scripted import ScriptedModel, call, say
from penstock.store.logs.log import Log
from penstock.store.projections import Page
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.asking import ask as send
from tests.kit.assistant import assert_whole
from tests.kit.dying_log import DyingLog, live
from tests.kit.model_server import Canned, anthropic_reply, block, called, fake_server
from tests.kit.model_server import events as chunks
from tests.kit.tools import Act


class Ticket(BaseModel):
    """A report of a fault."""

    title: str
    severity: Literal["low", "high"]


BURNS = "The printer burns"
FIRE = {"title": "fire", "severity": "low"}
TEXT = '{"title":"fire","severity":"low"}'
FITS = call("final_answer", **FIRE)


async def ask(runtime: Runtime) -> TaskReply:
    """Send the message to the agent, once, and wait for the end of its task."""
    tasks, _ = await runtime.parts.storage.projections.tasks(page=Page())
    if not tasks:
        await runtime.requests.send(NewMessage(content=BURNS, agent="triage"))
        tasks, _ = await runtime.parts.storage.projections.tasks(page=Page())
    reply = await runtime.requests.wait(tasks[0].task_id)
    assert reply
    return reply


async def outlive(
    agent: Agent[Any, Any], log: DyingLog, clock: FakeClock, *tools: Act
) -> TaskReply:
    """Open runtimes until one brings the task to its end."""
    place = MemoryStorage(clock=clock, log=log, limits=Limits(shutdown_seconds=0))
    reply = None
    while reply is None:
        async with memory_runtime(agents=[agent], tools=tools, place=place) as runtime:
            reply = await live(runtime, log, ask(runtime))
        log.revive()
        clock.advance(place.limits.lease_seconds + 1)
    return reply


async def outputs(log: Log, reply: TaskReply) -> list[TaskOutput | None]:
    records = await log.read(LogId(reply.session_id))
    return [each.event.output for each in records if isinstance(each.event, TaskEnded)]


SCRIPT = [call("look"), call("final_answer", title="fire"), FITS]
WRITES = 4


async def test_the_story_without_a_crash() -> None:
    clock = FakeClock()
    log = DyingLog(clock, writes=-1, before=False)
    agent = Agent("triage", model=ScriptedModel({BURNS: SCRIPT}), output=Ticket)
    reply = await outlive(agent, log, clock, Act("look"))
    assert await outputs(log, reply) == [TaskOutput(value=FIRE, type_name="Ticket")]
    assert log.writes == WRITES


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(1, WRITES + 1))
async def test_a_task_killed_at_any_write_has_the_same_output(writes: int, before: bool) -> None:
    """After the model's last reply is on disk, the model is not asked again."""
    clock, model = FakeClock(), ScriptedModel({BURNS: SCRIPT})
    log = DyingLog(clock, writes=writes, before=before)
    agent = Agent("triage", model=model, output=Ticket)
    reply = await outlive(agent, log, clock, Act("look"))
    assert reply.status is TaskStatus.SUCCEEDED
    assert await outputs(log, reply) == [TaskOutput(value=FIRE, type_name="Ticket")]
    is_cut = before or writes in {1, 2}
    assert len(model.requests) <= len(SCRIPT) + is_cut


async def test_an_output_function_that_was_cut_is_reported_and_not_repeated() -> None:
    runs: list[str] = []
    clock = FakeClock()
    log = DyingLog(clock, writes=3, before=True)

    def book(title: str) -> Ticket:
        """Book a repair."""
        runs.append(title)
        return Ticket(title=title, severity="low")

    script = [call("final_answer", title="one"), call("final_answer", title="two")]
    model = ScriptedModel({BURNS: script})
    reply = await outlive(Agent("triage", model=model, output=book), log, clock)
    assert runs == ["one", "two"]
    assert "INTERRUPTED" in model.requests[-1].messages[-1].content
    assert [each and each.value for each in await outputs(log, reply)] == [
        {"title": "two", "severity": "low"}
    ]


def openai_answer() -> Canned:
    function = called("tool_calls", index=0, id="call_1", name="final_answer", arguments=TEXT)
    return Canned(chunks(function))


def anthropic_answer() -> Canned:
    piece = {"type": "input_json_delta", "partial_json": TEXT}
    made = block(0, "tool_use", piece, id="toolu_1", name="final_answer", input={})
    return Canned(anthropic_reply(made, stop="tool_use"))


WIRES = [
    ("openai-compatible", openai_answer),
    ("anthropic", anthropic_answer),
    pytest.param("openai-chat", openai_answer, marks=pytest.mark.slow("loads an SDK")),
]


@pytest.mark.parametrize(("provider", "answer"), WIRES)
async def test_the_message_after_a_typed_answer_is_accepted_on_the_wire(
    provider: str, answer: Any
) -> None:
    """The second request contains the call, its result, the output as text, and the message."""
    async with fake_server(answer(), answer()) as server:
        config = ModelConfig(
            name="mine", provider=provider, model="m", base_url=server.url, api_key="sk-key"
        )
        agent = Agent("triage", model=ModelRegistry([config]).get("mine"), output=Ticket)
        async with memory_runtime(agents=[agent]) as runtime:
            first = await send(runtime, BURNS, agent=agent)
            again = await send(runtime, "Again", agent=agent, session=first.session_id)
        await agent.model.close()  # type: ignore[union-attr]
    assert (first.content, again.content) == (TEXT, TEXT)
    said = [each for each in server.bodies[1]["messages"] if each["role"] != "system"]
    roles = [each["role"] for each in said]
    assert roles[0] == roles[-1] == "user"
    assert roles[1] == roles[3] == "assistant"
    assert roles[2] in {"tool", "user"}
    assert "Accepted." in repr(said[2])
    assert "fire" in repr(said[3])
    assert "Again" in repr(said[4])


async def test_the_next_message_continues_a_complete_turn() -> None:
    """The call, its result, the output as text: no provider sees a call without its result."""
    model = ScriptedModel([say("Look:") + FITS, FITS])
    agent = Agent("triage", model=model, output=Ticket)
    async with memory_runtime(agents=[agent]) as runtime:
        first = await send(runtime, BURNS, agent=agent)
        await send(runtime, "Again", agent=agent, session=first.session_id)
    request = model.requests[1]
    assert_whole(request)
    kinds = [type(message).__name__ for message in request.messages]
    assert kinds == [
        *("UserMessage", "AssistantMessage", "ToolMessage", "AssistantMessage", "UserMessage")
    ]
    assert [message.content for message in request.messages][1:] == [
        "Look:",
        "Accepted.",
        '{"title":"fire","severity":"low"}',
        "Again",
    ]


async def test_tasks_with_outputs_run_beside_each_other() -> None:
    model = ScriptedModel({BURNS: [FITS]})
    agent = Agent("triage", model=model, output=Ticket)
    async with memory_runtime(agents=[agent]) as runtime:
        replies = await asyncio.gather(*(send(runtime, BURNS, agent=agent) for _ in range(9)))
    assert {reply.content for reply in replies} == {'{"title":"fire","severity":"low"}'}
