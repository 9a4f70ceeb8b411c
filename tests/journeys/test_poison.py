"""A task at which the process repeatedly dies ends in an error; others are not delayed."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from penstock.chat.requests import NewMessage, TaskReply
from penstock.core.call import Effect
from penstock.core.limits import Limits
from penstock.core.task import TaskStatus
from penstock.models.model import ModelEvent, ModelRequest, TextDelta
from penstock.models.scripted import SCRIPTED, ScriptedModel, call, say
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.dying_log import DyingLog, live, see_through
from tests.kit.tools import Act

pytestmark = pytest.mark.chaos
TOOLS: dict[str, dict[str, Any]] = {
    "a read": {"effect": Effect.READ},
    "a write that may be repeated": {"effect": Effect.WRITE, "idempotent": True},
    "a script": {"effect": Effect.WRITE, "is_frame": True},
}


async def lives(log: DyingLog, clock: FakeClock, **runtime: Any) -> tuple[TaskReply, int]:
    """Live as often as it takes; returns how the task ended, and how many died of it."""
    place = MemoryStorage(clock=clock, log=log, limits=Limits(shutdown_seconds=0))
    deaths = 0
    while True:
        async with memory_runtime(place=place, **runtime) as opened:
            reply = await live(opened, log, see_through(opened, "Go", lambda question: {}))
        if reply is not None:
            return reply, deaths
        deaths += 1
        log.revive()
        clock.advance(place.limits.lease_seconds + 1)


@pytest.mark.parametrize("spec", TOOLS.values(), ids=list(TOOLS))
@pytest.mark.parametrize("notes", [False, True], ids=["at once", "after it was on disk"])
async def test_a_call_that_kills_the_process_eventually_fails_its_task(
    spec: dict[str, Any], notes: bool
) -> None:
    clock = FakeClock()
    log = DyingLog(clock, writes=-1, before=False)

    async def kill(input: Any, invocation: Any) -> None:
        if notes:
            await invocation.ledger.held.commit()
        log.died.set()
        await asyncio.Event().wait()

    tool = Act("kill", kill, **spec)
    model = ScriptedModel(lambda request: call("kill"))
    reply, deaths = await lives(log, clock, model=model, tools=[tool])
    assert (deaths, len(tool.runs), reply.status) == (5, 5, TaskStatus.FAILED)
    assert reply.error
    assert reply.error.message.startswith("the process died 5 times in a row at the same place")


class Killing:
    """A model in whose reply the process dies."""

    card = SCRIPTED

    def __init__(self, log: DyingLog) -> None:
        self._log = log

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield TextDelta("I ")
        self._log.died.set()
        await asyncio.Event().wait()

    async def close(self) -> None:
        pass


async def test_a_reply_in_which_the_process_dies_eventually_fails_its_task() -> None:
    clock = FakeClock()
    log = DyingLog(clock, writes=-1, before=False)
    reply, deaths = await lives(log, clock, model=Killing(log))
    assert (deaths, reply.status) == (5, TaskStatus.FAILED)


async def test_a_write_that_kills_the_process_is_reported_to_the_model_and_not_repeated() -> None:
    clock = FakeClock()
    log = DyingLog(clock, writes=-1, before=False)

    async def kill(input: Any, invocation: Any) -> None:
        log.died.set()
        await asyncio.Event().wait()

    tool = Act("kill", kill, effect=Effect.WRITE)
    model = ScriptedModel([call("kill"), say("It was cut.")])
    reply, deaths = await lives(log, clock, model=model, tools=[tool])
    assert (deaths, len(tool.runs), reply.content) == (1, 1, "It was cut.")


async def test_the_next_message_is_answered_after_such_a_failed_task() -> None:
    clock = FakeClock()
    log = DyingLog(clock, writes=-1, before=False)

    async def kill(input: Any, invocation: Any) -> None:
        log.died.set()
        await asyncio.Event().wait()

    model = ScriptedModel({"Go": [call("kill")], "Well?": [say("Still here.")]})
    tools = [Act("kill", kill)]
    failed, _ = await lives(log, clock, model=model, tools=tools)
    place = MemoryStorage(clock=clock, log=log)
    async with memory_runtime(place=place, model=model, tools=tools) as runtime:
        sent = await runtime.requests.send(
            NewMessage(content="Well?", session_id=failed.session_id)
        )
        reply = await runtime.requests.wait(sent.task_id)
    assert reply
    assert reply.content == "Still here."
