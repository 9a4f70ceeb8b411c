"""Tasks that began elsewhere, over HTTP or in another process, read with their types."""

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

import penstock
from penstock.agents.agent import Agent
from penstock.chat.python.public_events import Asked, Ended, OutputDelta
from penstock.core.call import Effect
from penstock.models.scripted import ScriptedModel, call, finish
from tests.kit.server import served
from tests.kit.tools import Act, echo

CHAT = "/api/agents/triage/chat"


class Ticket(BaseModel):
    """A report of a fault."""

    title: str


FIRE = {"title": "fire"}


async def test_a_task_that_began_over_http_has_the_type_of_its_agent() -> None:
    triage = Agent("triage", model=ScriptedModel([finish(FIRE)]), output=Ticket)
    async with served(agents=[triage]) as server:
        sent = await server.client.post(CHAT, json={"content": "It burns"})
        run = server.runtime.attach(sent.headers["x-task-id"], agent=triage)
        seen = [event async for event in run]
        reply = await run.reply()
    assert sent.json()["assistantMessage"]["output"] == FIRE
    assert reply.output.title == "fire"
    assert seen[-2:] == [OutputDelta(FIRE), Ended("succeeded")]
    assert (run.session, reply.agent) == (sent.headers["x-conversation-id"], "triage")


async def test_a_schema_of_a_message_over_http_is_read_as_a_type() -> None:
    model = ScriptedModel([finish(FIRE)])
    async with served(model=model) as server:
        schema = Ticket.model_json_schema()
        sent = await server.say("It burns", outputSchema=schema)
        task_id = sent.headers["x-task-id"]
        typed = await server.runtime.attach(task_id, output=Ticket).reply()
        plain = await server.runtime.attach(task_id).reply()
    assert (typed.output, plain.output) == (Ticket(title="fire"), FIRE)


async def test_a_program_answers_the_question_of_a_task_that_began_over_http() -> None:
    model = ScriptedModel([call("send", to="Ann"), finish(FIRE)])
    send = Act("send", echo, requires_approval=True, effect=Effect.WRITE)
    triage = Agent("triage", model=model, tools=[send], output=Ticket)
    async with served(agents=[triage]) as server:
        sent = await server.client.post(CHAT, json={"content": "Go"})
        assert sent.status_code == 202
        run = server.runtime.attach(sent.json()["taskId"], agent=triage)
        async for event in run:
            if isinstance(event, Asked):
                await run.approve(event.question)
        assert (await run.reply()).output == Ticket(title="fire")


START = """
import asyncio
import penstock
from penstock import Agent
from penstock.testing import ScriptedModel, finish

triage = Agent("triage", model=ScriptedModel([finish({"title": "fire"})]), output=dict[str, str])

async def main():
    async with penstock.open(".", agents=[triage]) as runtime:
        run = await runtime.start("It burns", agent=triage)
        await run.reply()
        print(run.task_id)

asyncio.run(main())
"""


@pytest.mark.programs
@pytest.mark.slow("starts a process")
async def test_a_task_of_another_process_has_the_type_that_this_program_names(
    tmp_path: Path,
) -> None:
    """The other process has gone, and its agent is not known here: the log has all."""
    command = [sys.executable, "-c", START]
    ran = subprocess.run(  # noqa: ASYNC221  nothing else runs in this loop
        command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    async with penstock.open(tmp_path) as runtime:
        run = runtime.attach(ran.stdout.strip(), output=Ticket)
        assert (await run.reply()).output == Ticket(title="fire")
        assert [event async for event in run][-2:] == [OutputDelta(FIRE), Ended("succeeded")]
