"""Cancelling a task at any point of its work."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

import pytest

from penstock.chat.requests import NewMessage
from penstock.core.call import Effect
from penstock.core.events.events import CallStarted, CancelRequested, Entry, Record
from penstock.core.task import TaskStatus
from penstock.models.scripted import (
    Hold,
    ScriptedModel,
    ScriptedReply,
    call,
    say,
    wait,
)
from penstock.store.logs.log import Lease
from penstock.testing.clock import FakeClock
from penstock.testing.log import MemoryLog
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.assistant import assert_whole
from tests.kit.logs import code, settled
from tests.kit.tools import Act, Gate


async def test_a_cancel_stops_the_model() -> None:
    hold = Hold()
    model = ScriptedModel([say("Once upon") + wait(hold), say("Next.")])
    async with memory_runtime(model=model) as runtime:
        sent = await runtime.requests.send(NewMessage(content="A story"))
        await hold.reached()
        await runtime.requests.cancel(sent.task_id)
        reply = await runtime.requests.wait(sent.task_id)
        assert reply
        assert reply.error
        assert (reply.status, reply.error.code) == (TaskStatus.CANCELLED, "CANCELLED")
        again = await runtime.chat("And now?", session=sent.session_id)
    assert again.content == "Next."
    assert model.unfinished == 1


@pytest.mark.parametrize(
    ("effect", "expected"), [(Effect.READ, "CANCELLED"), (Effect.WRITE, "INTERRUPTED")]
)
async def test_a_cancel_stops_a_running_tool(effect: Effect, expected: str) -> None:
    gate = Gate()
    tools = [Act("act", gate, effect=effect), Act("look")]
    model = ScriptedModel([call("look") + call("act"), say("I see.")])
    async with memory_runtime(model=model, tools=tools) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Act"))
        await gate.reached()
        await runtime.requests.cancel(sent.task_id)
        await runtime.requests.wait(sent.task_id)
        outcomes = await settled(runtime, sent.session_id)
        assert {each.tool_id: code(each) for each in outcomes} == {"look": "ok", "act": expected}
        await runtime.chat("What happened?", session=sent.session_id)
    assert_whole(model.requests[-1])


class CancelledAtTheStart(MemoryLog):
    """The task is cancelled just before the start of a call is written."""

    def append(self, lease: Lease, entries: Sequence[Entry]) -> Awaitable[Sequence[Record]]:
        begins = [each for each in entries if isinstance(each.event, CallStarted)]
        return self._late(lease, entries, begins[0]) if begins else super().append(lease, entries)

    async def _late(
        self, lease: Lease, entries: Sequence[Entry], started: Entry
    ) -> Sequence[Record]:
        await self.send(lease.log_id, [Entry(CancelRequested(), started.task_id)])
        return await super().append(lease, entries)


@pytest.mark.parametrize("beside", [say(), call("look")], ids=["alone", "beside another"])
async def test_a_cancel_at_the_start_of_a_write_prevents_it(beside: ScriptedReply) -> None:
    """2.3: "open ones settle `CANCELLED` (a `write` that had begun: `INTERRUPTED`)"."""
    clock = FakeClock()
    place = MemoryStorage(clock=clock, log=CancelledAtTheStart(clock))
    act, look = Act("act", effect=Effect.WRITE), Act("look")
    model = ScriptedModel([beside + call("act"), say("Never.")])
    async with memory_runtime(model=model, tools=[act, look], place=place) as runtime:
        reply = await runtime.chat("Act")
        outcomes = await settled(runtime, reply.session)
    assert (reply.status, act.runs) == (TaskStatus.CANCELLED, [])
    assert {each.tool_id: code(each) for each in outcomes}["act"] == "INTERRUPTED"


async def test_a_cancel_ends_a_tool_that_swallows_it() -> None:
    here = asyncio.Event()

    async def stubborn(input: Any, invocation: Any) -> str:
        here.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "no"
        return "never"

    model = ScriptedModel([call("stubborn"), say("never said")])
    async with memory_runtime(model=model, tools=[Act("stubborn", stubborn)]) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Act"))
        await here.wait()
        await runtime.requests.cancel(sent.task_id)
        reply = await runtime.requests.wait(sent.task_id)
        assert reply
        assert reply.status is TaskStatus.CANCELLED
        outcomes = await settled(runtime, sent.session_id)
    assert len(outcomes) == 1
    assert len(model.requests) == 1


async def test_a_cancel_of_a_queued_task_does_not_affect_the_running_one() -> None:
    hold = Hold()
    model = ScriptedModel({"first": wait(hold) + say("1"), "third": say("3")})
    async with memory_runtime(model=model) as runtime:
        first = await runtime.requests.send(NewMessage(content="first"))
        await hold.reached()
        second, third = [
            await runtime.requests.send(NewMessage(content=text, session_id=first.session_id))
            for text in ("second", "third")
        ]
        await runtime.requests.cancel(second.task_id)
        hold.release()
        replies = [await runtime.requests.wait(each.task_id) for each in (first, second, third)]
    assert [reply.status.value for reply in replies if reply] == [
        "succeeded",
        "cancelled",
        "succeeded",
    ]
