"""Tasks whose tools come from toolsets, over restarts: asked again, with fewer, more or none."""

from typing import Any

import pytest

from penstock import Agent, AgentContext
from penstock.agents.agent import AnyAgent
from penstock.chat.requests import TaskReply
from penstock.core.call import Effect
from penstock.core.events.events import TaskBlocked
from penstock.core.ids import ASSISTANT, LogId
from penstock.core.limits import Limits
from penstock.core.task import Missing, MissingKind, TaskStatus
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.clock import FakeClock, settle
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.asking import ask
from tests.kit.dying_log import DyingLog, live, see_through
from tests.kit.logs import events
from tests.kit.tools import Act

DONE = "Paid."
MISSING = Missing(MissingKind.TOOLSET, "bank")


class Bank:
    """A toolset with the given tools; it fails the first `fails` times."""

    name = "bank"

    def __init__(self, *given: Act, fails: int = 0) -> None:
        self.given = given
        self.fails = fails
        self.asked = 0

    async def tools(self, ctx: AgentContext[object]) -> Any:
        self.asked += 1
        if self.asked <= self.fails:
            raise ConnectionError("the bank is closed")
        return list(self.given)


def pay(**options: Any) -> Act:
    return Act("pay", **options)


def scripted() -> ScriptedModel:
    return ScriptedModel({"Pay": [call("pay"), say(DONE)], "And?": [say("Nothing.")]})


def place_at(clock: FakeClock) -> MemoryStorage:
    return MemoryStorage(clock=clock, limits=Limits(shutdown_seconds=0))


def process(place: MemoryStorage, bank: Bank, *more: AnyAgent, model: Any = None) -> Any:
    clerk = Agent("clerk", tools=[bank])
    return memory_runtime(model=model or scripted(), agents=[clerk, *more], place=place)


async def waiting(place: MemoryStorage, bank: Bank) -> TaskReply:
    """Have a task wait for a person about a tool of a toolset."""
    async with process(place, bank) as runtime:
        return await ask(runtime, "Pay", agent="clerk")


async def finished(runtime: Any, task: TaskReply) -> TaskReply:
    """Approve the payment, and wait."""
    question = task.questions[0].question.question_id
    await runtime.requests.answer(question, {"decision": "approve"})
    reply: TaskReply = await runtime.requests.wait(task.task_id)
    return reply


async def test_a_process_that_continues_a_task_asks_its_toolset_again() -> None:
    place, act = place_at(FakeClock()), pay(requires_approval=True)
    task = await waiting(place, Bank(act))
    bank = Bank(act)
    async with process(place, bank) as runtime:
        reply = await finished(runtime, task)
    assert (reply.status, reply.content) == (TaskStatus.SUCCEEDED, DONE)
    assert (bank.asked, len(act.runs)) == (1, 1)


async def test_a_toolset_that_fails_later_blocks_the_task_which_keeps_its_answer() -> None:
    clock, act = FakeClock(), pay(requires_approval=True)
    place = place_at(clock)
    task = await waiting(place, Bank(act))
    bank = Bank(act, fails=2)
    async with process(place, bank) as runtime:
        reply = await finished(runtime, task)
        assert (reply.status, reply.blocked_on) == (TaskStatus.BLOCKED, (MISSING,))
        record = await runtime.parts.storage.projections.find_task(task.task_id)
        assert record.blocked_on == (MISSING,)
        for seconds in (1.9, 0.2, 3.8):  # again after 2 s, then after 4
            clock.advance(seconds)
            await settle()
        assert bank.asked == 2
        clock.advance(2)
        await settle()
        reply = await runtime.requests.wait(task.task_id)
        happened = await events(runtime, task.session_id)
    assert (reply.status, reply.content) == (TaskStatus.SUCCEEDED, DONE)
    assert (bank.asked, len(act.runs)) == (3, 1)
    assert [each for each in happened if isinstance(each, TaskBlocked)] == [
        TaskBlocked(blocked_on=(MISSING,))
    ] * 2


async def test_a_blocked_toolset_is_named_with_what_happens_next() -> None:
    place, act = place_at(FakeClock()), pay(requires_approval=True)
    task = await waiting(place, Bank(act))
    async with process(place, Bank(act, fails=9)) as runtime:
        await finished(runtime, task)
        reply = await runtime.attach(task.task_id).reply()
    assert reply.status == "suspended"
    assert reply.error
    assert "toolset 'bank' failed in this process" in reply.error.message
    assert "It is asked again within two minutes" in reply.error.message


async def test_a_call_whose_tool_is_gone_fails_and_the_task_continues() -> None:
    place = place_at(FakeClock())
    task = await waiting(place, Bank(pay(requires_approval=True)))
    model = scripted()
    async with process(place, Bank(), model=model) as runtime:
        reply = await finished(runtime, task)
    assert (reply.status, reply.content) == (TaskStatus.SUCCEEDED, DONE)
    assert "There is no tool 'pay'" in model.requests[-1].messages[-1].content
    assert model.requests[-1].tools == ()


async def test_a_started_write_whose_tool_is_gone_may_have_happened() -> None:
    clock = FakeClock()
    log = DyingLog(clock, writes=-1, before=False)
    place = MemoryStorage(clock=clock, log=log, limits=Limits(shutdown_seconds=0))

    async def cut(input: Any, invocation: Any) -> str:
        log.died.set()
        await invocation.wait_stopped()
        return ""

    async with process(place, Bank(Act("pay", cut, effect=Effect.WRITE))) as runtime:
        await live(runtime, log, ask(runtime, "Pay", agent="clerk"))
    log.revive()
    clock.advance(place.limits.lease_seconds + 1)
    model = scripted()
    async with process(place, Bank(), model=model) as runtime:
        (session,) = await runtime.sessions(agent="clerk")
        clock.advance(place.limits.sweep_seconds)
        await settle()
        last = (await runtime.history(session.id))[-1]
    assert last.text == DONE
    read = model.requests[-1].messages[-1].content
    assert "may or may not have happened. There is no tool 'pay'" in read
    assert "INTERRUPTED" in read


async def test_a_tool_that_is_new_after_a_restart_is_offered_in_the_next_task() -> None:
    place, act = place_at(FakeClock()), pay(requires_approval=True)
    task = await waiting(place, Bank(act))
    model = ScriptedModel(
        {"Pay": [call("pay"), call("lend"), say(DONE)], "And?": [call("lend"), say("Lent.")]}
    )
    lend = Act("lend")
    async with process(place, Bank(act, lend), model=model) as runtime:
        first = await finished(runtime, task)
        await ask(runtime, "And?", agent="clerk", session=task.session_id)
    assert first.content == DONE
    offered = [[each.name for each in request.tools] for request in model.requests]
    assert offered == [["pay"], ["pay"], ["pay", "lend"], ["pay", "lend"]]
    assert "There is no tool 'lend'" in model.requests[1].messages[-1].content
    assert len(lend.runs) == 1


async def test_agents_that_are_tools_and_agents_that_take_over_have_toolsets_too() -> None:
    inner, next_one = pay(), Act("pay")
    banker = Agent("banker", model=scripted(), tools=[Bank(inner)], description="Pays.")
    pays = ScriptedModel([call("pay"), say(DONE)])
    billing = Agent("billing", model=pays, tools=[Bank(next_one)])
    model = ScriptedModel(
        {"Go": [call("banker", task="Pay"), say("Asked.")], "Pay": [call("transfer_to_billing")]}
    )
    front = Agent("front", model=model, tools=[banker], handoffs=[billing])
    place = place_at(FakeClock())
    async with memory_runtime(agents=[front, billing], place=place) as runtime:
        assert (await runtime.chat("Go", agent="front")).content == "Asked."
        reply = await runtime.chat("Pay", agent="front")
    assert (reply.content, reply.agent) == (DONE, "billing")
    assert (len(inner.runs), len(next_one.runs)) == (1, 1)


WRITES = 8


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(1, WRITES + 1))
async def test_a_task_killed_at_any_write_ends_with_the_tools_of_its_toolset(
    writes: int, before: bool
) -> None:
    clock = FakeClock()
    log = DyingLog(clock, writes=writes, before=before)
    place = MemoryStorage(clock=clock, log=log, limits=Limits(shutdown_seconds=0))
    act, reply = pay(effect=Effect.WRITE, requires_approval=True), None
    bank = Bank(act)
    while reply is None:
        agent = Agent(ASSISTANT, tools=[bank])
        async with memory_runtime(model=scripted(), agents=[agent], place=place) as runtime:
            story = see_through(runtime, "Pay", lambda question: {"decision": "approve"})
            reply = await live(runtime, log, story)
        log.revive()
        clock.advance(place.limits.lease_seconds + 1)
    assert (reply.status, reply.content) == (TaskStatus.SUCCEEDED, DONE)
    assert len(act.runs) <= 1
    assert bank.asked >= 1
    assert await log.read(LogId(str(reply.session_id)))
