"""A task whose agent, model or tool only another process has: it waits for that process."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.agents.agent import Agent
from penstock.app.runtime import Runtime, outcome_of
from penstock.chat.requests import BLOCKED, NewCall, TaskReply
from penstock.core.call import Effect
from penstock.core.envelope import Status
from penstock.core.events.events import TaskBlocked, TaskResumed
from penstock.core.ids import SessionId, TaskId
from penstock.core.limits import Limits
from penstock.core.task import Missing, MissingKind, TaskRecord, TaskStatus
from penstock.models.scripted import ScriptedModel, call, say
from penstock.store.projections import Page
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.asking import ask
from tests.kit.dying_log import DyingLog, live
from tests.kit.logs import events
from tests.kit.tools import Act

pytestmark = pytest.mark.chaos
Begin = Callable[[Runtime], Awaitable[TaskReply]]
AGENT = Missing(MissingKind.AGENT, "clerk")
TOOL = Missing(MissingKind.TOOL, "pay")
DONE = "Paid."


class Pay(Act):
    """A tool that asks a person before it runs."""

    def __init__(self) -> None:
        super().__init__("pay", requires_approval=True, direct_call=True)


def clerk(**settings: Any) -> Agent:
    return Agent("clerk", **settings)


def scripted() -> ScriptedModel:
    return ScriptedModel({"Pay!": [call("pay"), say(DONE)]})


def whole() -> dict[str, Any]:
    """What the process brings in which the task began."""
    return {"model": scripted(), "tools": [Pay()], "agents": [clerk()]}


async def parked(place: MemoryStorage) -> TaskReply:
    """Have a task wait for a person, in a process that has all it needs."""
    async with memory_runtime(place=place, **whole()) as runtime:
        return await ask(runtime, "Pay!", agent="clerk")


ROWS: dict[str, tuple[dict[str, Any], set[Missing]]] = {
    "no agent": ({"model": scripted(), "tools": [Pay()]}, {AGENT}),
    "nothing": ({}, {AGENT}),
    "no tool": ({"model": scripted(), "agents": [clerk()]}, {TOOL}),
    "no model": ({"tools": [Pay()], "agents": [clerk()]}, {Missing(MissingKind.MODEL, "scripted")}),
    "the agent has other tools now": (
        {"model": scripted(), "tools": [Pay()], "agents": [clerk(tools=[Act("look")])]},
        {TOOL},
    ),
}


@pytest.mark.parametrize(("brought", "missing"), ROWS.values(), ids=list(ROWS))
async def test_an_answer_is_stored_until_a_process_has_the_missing_part(
    brought: dict[str, Any], missing: set[Missing]
) -> None:
    place = MemoryStorage(limits=Limits(poll_seconds=0.01, sweep_seconds=0.05))
    waiting = await parked(place)
    question_id = waiting.questions[0].question.question_id
    async with memory_runtime(place=place, **brought) as runtime:
        await runtime.requests.answer(question_id, {"decision": "approve"})
        reply = await runtime.requests.wait(waiting.task_id)
        assert reply
        assert (reply.status, set(reply.blocked_on)) == (TaskStatus.BLOCKED, missing)
        record = await runtime.parts.storage.projections.find_task(waiting.task_id)
        assert record
        assert (record.status, set(record.blocked_on)) == (TaskStatus.BLOCKED, missing)
    async with memory_runtime(place=place, **whole()) as runtime:
        reply = await runtime.requests.wait(waiting.task_id)
        assert reply
        assert (reply.status, reply.content) == (TaskStatus.SUCCEEDED, DONE)
        record = await runtime.parts.storage.projections.find_task(waiting.task_id)
        assert record
        assert (record.status, record.blocked_on) == (TaskStatus.SUCCEEDED, ())


@dataclass
class Killed:
    """Where a process was killed in a tool that reads."""

    clock: FakeClock = field(default_factory=FakeClock)
    is_lethal: bool = True
    deaths: int = 0

    def __post_init__(self) -> None:
        """Make the log that dies, and the place around it."""
        self.log = DyingLog(self.clock, writes=-1, before=False)
        limits = Limits(poll_seconds=0.01, shutdown_seconds=0)
        self.place = MemoryStorage(clock=self.clock, log=self.log, limits=limits)

    async def look(self, input: Any, invocation: Any) -> str:
        if self.is_lethal:
            await invocation.ledger.held.commit()
            self.deaths += 1
            self.log.died.set()
            await asyncio.Event().wait()
        return "done"

    def brought(self) -> dict[str, Any]:
        """What the process brings that was killed."""
        look = Act("look", self.look, effect=Effect.READ, direct_call=True)
        model = ScriptedModel({"Look!": [call("look"), say(DONE)], "And?": [say("Nothing.")]})
        return {"model": model, "tools": [look], "agents": [clerk()]}

    async def begin(self, begin: Begin) -> TaskRecord:
        """Begin a task; the process dies in its tool."""
        async with memory_runtime(place=self.place, **self.brought()) as runtime:
            await live(runtime, self.log, begin(runtime))
            (task, *_), _ = await runtime.parts.storage.projections.tasks(page=Page())
        self.log.revive()
        self.is_lethal = False
        self.clock.advance(self.place.limits.lease_seconds + 1)
        return task


async def chatting(runtime: Runtime) -> TaskReply:
    return await ask(runtime, "Look!", agent="clerk")


async def calling(runtime: Runtime) -> TaskReply:
    task_id = await runtime.start_call(NewCall(tool_id="look", input={}))
    reply = await runtime.requests.wait(task_id)
    assert reply
    return reply


async def ended(runtime: Runtime, task_id: TaskId) -> TaskReply:
    reply = await runtime.requests.wait(task_id)
    assert reply
    return reply


async def blocked(runtime: Runtime, task_id: TaskId) -> list[Missing]:
    reply = await runtime.requests.wait(task_id)
    assert reply
    assert reply.status is TaskStatus.BLOCKED
    return list(reply.blocked_on)


async def test_a_task_killed_in_a_tool_does_not_fail_where_its_agent_is_missing() -> None:
    """Three processes in a row lack the agent; one note of it is written, and no crash counted."""
    killed = Killed()
    task = await killed.begin(chatting)
    for _ in range(3):
        async with memory_runtime(place=killed.place) as runtime:
            assert await blocked(runtime, task.task_id) == [AGENT]
    async with memory_runtime(place=killed.place, **killed.brought()) as runtime:
        reply = await runtime.requests.wait(task.task_id)
        assert reply
        assert reply.content == DONE
        happened = await events(runtime, task.log_id)
    values = [each for each in happened if isinstance(each, TaskBlocked | TaskResumed)]
    assert values == [TaskBlocked(blocked_on=(AGENT,)), TaskResumed(crashed=True)]


async def test_a_killed_direct_call_waits_for_its_tool() -> None:
    killed = Killed()
    task = await killed.begin(calling)
    async with memory_runtime(place=killed.place) as runtime:
        reply = await runtime.requests.wait(task.task_id)
        assert reply
        outcome = outcome_of(reply)
        assert (outcome.status, outcome.error and outcome.error.code) == (Status.SUSPENDED, BLOCKED)
        assert outcome.error
        assert "tool 'look' is missing in this process" in outcome.error.message
    async with memory_runtime(place=killed.place, **killed.brought()) as runtime:
        reply = await runtime.requests.wait(task.task_id)
        assert reply
        assert reply.status is TaskStatus.SUCCEEDED


async def test_a_message_after_a_blocked_task_is_blocked_and_answered_later() -> None:
    killed = Killed()
    task = await killed.begin(chatting)
    session_id = SessionId(task.log_id)
    async with memory_runtime(
        place=killed.place, agents=[clerk()], model=killed.brought()["model"]
    ) as runtime:
        assert await blocked(runtime, task.task_id) == [Missing(MissingKind.TOOL, "look")]
        reply = await ask(runtime, "And?", agent="clerk", session=session_id)
        assert reply.status is TaskStatus.BLOCKED
    async with memory_runtime(place=killed.place, **killed.brought()) as runtime:
        ends = [await runtime.requests.wait(each) for each in (task.task_id, reply.task_id)]
        assert [each and each.content for each in ends] == [DONE, "Nothing."]


async def test_a_blocked_task_can_be_cancelled_where_its_agent_is_missing() -> None:
    killed = Killed()
    task = await killed.begin(chatting)
    async with memory_runtime(place=killed.place) as runtime:
        await blocked(runtime, task.task_id)
        await runtime.requests.cancel(task.task_id)
        reply = await runtime.requests.wait(task.task_id)
        assert reply
        assert reply.status is TaskStatus.CANCELLED


async def test_a_task_resumes_as_soon_as_its_process_gets_the_agent() -> None:
    killed = Killed()
    task = await killed.begin(chatting)
    brought = killed.brought()
    (agent,) = brought.pop("agents")
    async with memory_runtime(place=killed.place, **brought) as runtime:
        assert await blocked(runtime, task.task_id) == [AGENT]
        runtime.parts.chat.agents.add(agent)
        waiting = asyncio.ensure_future(runtime.requests.wait(task.task_id))
        killed.clock.advance(killed.place.limits.sweep_seconds)
        reply = await waiting
        assert reply
        assert reply.content == DONE


async def test_crashes_are_counted_over_processes_that_lack_the_agent() -> None:
    """Else a poison would never be found where two kinds of processes share a database."""
    killed = Killed()
    task = await killed.begin(chatting)
    for deaths in range(1, 5):
        async with memory_runtime(place=killed.place) as runtime:
            await blocked(runtime, task.task_id)
        killed.is_lethal = True
        async with memory_runtime(place=killed.place, **killed.brought()) as runtime:
            await live(runtime, killed.log, ended(runtime, task.task_id))
        killed.log.revive()
        killed.clock.advance(killed.place.limits.lease_seconds + 1)
        assert killed.deaths == deaths + 1
    async with memory_runtime(place=killed.place, **killed.brought()) as runtime:
        reply = await runtime.requests.wait(task.task_id)
        assert reply
        assert reply.error
        assert "died 5 times in a row at the same place of this task, in 'look'" in (
            reply.error.message
        )


async def test_a_tool_name_that_a_model_invented_blocks_no_task() -> None:
    model = ScriptedModel([call("nothing_like_it"), say("I was wrong.")])
    async with memory_runtime(model=model, agents=[clerk()]) as runtime:
        assert (await ask(runtime, "Go", agent="clerk")).content == "I was wrong."
