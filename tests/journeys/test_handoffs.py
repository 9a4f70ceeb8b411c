"""An agent hands a conversation off: who answers, what is kept, what a crash does."""

from typing import Any

import pytest
from msgspec import Struct

import penstock
from penstock import AgentContext, Hooks, ModelRetry
from penstock.agents.agent import Agent, AnyAgent
from penstock.chat.requests import NewMessage, TaskReply
from penstock.core.call import Effect
from penstock.core.errors import NotFound, SessionBusy
from penstock.core.events.events import CallSettled, TaskEnded, TaskStarted
from penstock.core.events.flow_events import HandedBack, HandedOff
from penstock.core.ids import ASSISTANT, LogId, SessionId
from penstock.core.limits import Limits
from penstock.core.task import Missing, MissingKind, TaskStatus
from penstock.models.model import ModelRequest
from penstock.models.scripted import Hold, ScriptedModel, ScriptedReply, call, say, wait
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.asking import ask
from tests.kit.dying_log import DyingLog, outlived
from tests.kit.logs import events
from tests.kit.tools import Act

TRANSFER = "transfer_to_billing"
WRITES = 5
"""How often the log of the task below is written when no process dies."""


class Bill(Struct):
    """A bill."""

    total: int


def billing(**options: Any) -> AnyAgent:
    return Agent("billing", description="Knows bills.", instructions="You bill.", **options)


def triage(*others: AnyAgent | str, **options: Any) -> AnyAgent:
    return Agent("triage", instructions="You triage.", handoffs=others or [billing()], **options)


def by_agent(**replies: Any) -> ScriptedModel:
    """Return a model that answers as the agent whose instructions it reads."""

    def reply(request: ModelRequest) -> ScriptedReply:
        name = next(each for each in replies if f"You {each}." in request.system)
        answer = replies[name]
        given: ScriptedReply = answer(request) if callable(answer) else answer
        return given

    return ScriptedModel(reply)


def in_turn(*replies: ScriptedReply) -> Any:
    """Return a function that gives these replies, one for each request."""
    left = iter(replies)
    return lambda request: next(left)


async def test_another_agent_continues_the_same_task_with_its_own_parts() -> None:
    pay = Act("pay", effect=Effect.WRITE)
    model = ScriptedModel([call(TRANSFER), call("pay"), say("Paid.")])
    clerk = billing(tools=[pay], settings=penstock.ChatSettings(llm_temperature=0.1))
    async with memory_runtime(model=model, agents=[triage(clerk, tools=[])]) as runtime:
        reply = await runtime.chat("Pay my bill", agent="triage")
    assert (reply.agent, reply.output, len(pay.runs)) == ("billing", "Paid.", 1)
    first, second, third = model.requests
    assert [tool.name for tool in first.tools] == [TRANSFER]
    assert first.tools[0].description.endswith("Knows bills.")
    assert [tool.name for tool in second.tools] == [tool.name for tool in third.tools] == ["pay"]
    assert ("You bill." in second.system, "You triage." in second.system) == (True, False)
    assert second.temperature == 0.1
    assert [type(each).__name__ for each in second.messages] == [
        "UserMessage",
        "AssistantMessage",
        "ToolMessage",
    ]


async def test_later_messages_go_to_the_new_agent_until_it_is_handed_back() -> None:
    model = by_agent(triage=call(TRANSFER), bill=say("Paid."))
    async with memory_runtime(model=model, agents=[triage()]) as runtime:
        first = await runtime.chat("Pay", agent="triage")
        second = await runtime.chat("Really?", agent="triage", session=first.session)
        assert (first.agent, second.agent) == ("billing", "billing")
        assert await runtime.hand_back(first.session) == "triage"
        assert await runtime.hand_back(first.session) == "triage"
        third = await runtime.chat("Again", agent="triage", session=first.session)
        log = await events(runtime, SessionId(first.session))
    assert third.agent == "billing"
    started = [each.agent for each in log if isinstance(each, TaskStarted)]
    assert started == ["", "billing", ""]
    assert sum(isinstance(each, HandedBack) for each in log) == 1
    assert len([each for each in model.requests if "You triage." in each.system]) == 2


async def test_a_message_to_the_new_agent_is_accepted_while_it_works() -> None:
    hold = Hold()
    model = by_agent(
        triage=call(TRANSFER), bill=in_turn(say("Paid."), wait(hold) + say("One."), say("Two."))
    )
    async with memory_runtime(model=model, agents=[triage()]) as runtime:
        first = await runtime.chat("Pay", agent="triage")
        one = await runtime.start("One", agent=first.agent, session=first.session)
        await hold.reached()
        two = await runtime.start("Two", agent=first.agent, session=first.session)
        with pytest.raises(NotFound):
            await runtime.start("Three", agent=ASSISTANT, session=first.session)
        hold.release()
        assert [(await run.reply()).output for run in (one, two)] == ["One.", "Two."]


async def test_the_new_agent_keeps_the_conversation_over_a_restart() -> None:
    model = by_agent(triage=call(TRANSFER), bill=say("Paid."))
    place = MemoryStorage()
    async with memory_runtime(model=model, agents=[triage()], place=place) as runtime:
        first = await runtime.chat("Pay", agent="triage")
    async with memory_runtime(model=model, agents=[triage()], place=place) as runtime:
        second = await runtime.chat("Really?", agent="triage", session=first.session)
    assert second.agent == "billing"
    assert "You bill." in model.requests[-1].system


async def test_a_run_yields_the_hand_off_and_its_reply_has_the_type_of_its_giver() -> None:
    model = ScriptedModel([call(TRANSFER), call("final_answer", total=7)])
    text: AnyAgent = Agent("triage", output=str, handoffs=[billing(output=Bill)])
    async with memory_runtime(model=model, agents=[text]) as runtime:
        run = await runtime.start("My bill", agent=text)
        seen = [event async for event in run]
        reply = await run.reply()
    assert penstock.HandedOff("billing") in seen
    assert reply.output == Bill(total=7)


async def test_an_agent_with_a_type_may_hand_off_to_one_of_text() -> None:
    model = ScriptedModel([call(TRANSFER), say("Paid.")])
    typed: AnyAgent = Agent("triage", output=Bill, handoffs=["billing"])
    async with memory_runtime(model=model, agents=[typed, billing()]) as runtime:
        reply = await runtime.chat("My bill", agent=typed)
    assert (reply.agent, reply.output) == ("billing", "Paid.")


async def test_agents_that_hand_off_to_each_other_come_to_an_end() -> None:
    def transfer(request: ModelRequest) -> ScriptedReply:
        refused = "was handed off" in str(request.messages[-1])
        return say("Enough.") if refused else call(request.tools[0].name)

    model = by_agent(triage=transfer, bill=transfer)
    pair = [triage("billing"), billing(handoffs=["triage"])]
    place = MemoryStorage(limits=Limits(run_depth=3))
    async with memory_runtime(model=model, agents=pair, place=place) as runtime:
        reply = await runtime.chat("Pay", agent="triage")
        log = await events(runtime, SessionId(reply.session))
        assert await runtime.hand_back(reply.session) == "triage"
    assert (reply.agent, reply.output) == ("billing", "Enough.")
    assert [each.agent for each in log if isinstance(each, HandedOff)] == [
        "billing",
        "triage",
        "billing",
    ]


async def test_of_two_hand_offs_in_one_reply_the_first_counts_after_all_calls() -> None:
    look = Act("look")
    both = [call("transfer_to_b") + call("look") + call("transfer_to_c"), say("B here.")]
    agents = [Agent("a", handoffs=["b", "c"], tools=[look]), Agent("b"), Agent("c")]
    model = ScriptedModel(both)
    async with memory_runtime(model=model, agents=agents) as runtime:
        reply = await runtime.chat("Go", agent="a")
        log = await events(runtime, SessionId(reply.session))
    assert (reply.agent, len(look.runs)) == ("b", 1)
    kinds = [type(each) for each in log if isinstance(each, CallSettled | HandedOff)]
    assert kinds == [CallSettled, CallSettled, CallSettled, HandedOff]
    results = [each.content for each in model.requests[-1].messages[2:]]
    assert results[0] == "b has the conversation now."
    assert "the same reply called transfer_to_b before; call one of them" in results[2]


async def test_an_answer_cannot_come_with_a_hand_off() -> None:
    both = call(TRANSFER) + call("final_answer", total=3)
    model = ScriptedModel([both, call(TRANSFER), say("Paid.")])
    async with memory_runtime(model=model, agents=[triage(output=Bill)]) as runtime:
        reply = await runtime.chat("Pay", agent="triage")
    assert (reply.agent, reply.content) == ("billing", "Paid.")
    assert all("Neither ran" in each.content for each in model.requests[1].messages[2:])


class Watch(Hooks[Any]):
    """Sees all outputs, and sends the first one back."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def on_output(self, ctx: AgentContext[Any], output: Any) -> None:
        self.seen.append(output)
        if len(self.seen) == 1:
            raise ModelRetry("Again.")


async def test_a_text_is_not_sent_back_for_the_output_of_the_agent_before() -> None:
    def bill(total: int) -> int:
        """Write a bill."""
        return total

    model = ScriptedModel([call("final_answer", total=9), call(TRANSFER), say("Paid.")])
    watch = Watch()
    async with memory_runtime(model=model, agents=[triage(output=bill)], hooks=[watch]) as runtime:
        reply = await runtime.chat("Pay", agent="triage")
    assert (reply.content, watch.seen) == ("Paid.", [9, "Paid."])


async def test_the_end_of_a_budget_undoes_no_hand_off() -> None:
    model = by_agent(triage=call(TRANSFER), bill=say("Paid."))
    least = penstock.ChatSettings(budget_model_calls=1)
    agents = [triage(billing(settings=least), settings=least)]
    async with memory_runtime(model=model, agents=agents) as runtime:
        first = await runtime.chat("Pay", agent="triage")
        second = await runtime.chat("Pay", agent="triage", session=first.session)
    assert (first.agent, first.finish_reason) == ("billing", "budget_exceeded")
    assert (second.agent, second.content) == ("billing", "Paid.")


async def test_a_replaced_message_goes_to_the_agent_that_had_the_conversation_then() -> None:
    model = by_agent(triage=in_turn(call(TRANSFER), say("Triage.")), bill=say("Paid."))
    async with memory_runtime(model=model, agents=[triage()]) as runtime:
        first = await ask(runtime, "Pay", agent="triage")
        again = NewMessage(
            content="Hello",
            agent="triage",
            session_id=first.session_id,
            supersedes=first.task_id,
        )
        sent = await runtime.requests.send(again)
        reply = await runtime.requests.wait(sent.task_id)
    assert reply is not None
    assert reply.content == "Triage."


async def test_nothing_is_handed_back_while_a_task_runs() -> None:
    hold = Hold()
    model = ScriptedModel([call(TRANSFER), wait(hold) + say("Paid.")])
    async with memory_runtime(model=model, agents=[triage()]) as runtime:
        run = await runtime.start("Pay", agent="triage")
        await hold.reached()
        with pytest.raises(SessionBusy):
            await runtime.hand_back(run.session)
        hold.release()
        await run.reply()


async def test_a_task_is_blocked_where_the_agent_that_took_over_is_missing() -> None:
    pay = Act("pay", requires_approval=True)
    model = by_agent(triage=call(TRANSFER), bill=in_turn(call("pay"), say("Paid.")))
    place = MemoryStorage(limits=Limits(poll_seconds=0.01, sweep_seconds=0.05))
    whole = [triage(billing(tools=[pay]))]
    async with memory_runtime(model=model, agents=whole, place=place) as runtime:
        waiting = await ask(runtime, "Pay", agent="triage")
    alone: list[AnyAgent] = [Agent("triage", instructions="You triage.")]
    async with memory_runtime(model=model, agents=alone, place=place) as runtime:
        await runtime.requests.answer(
            waiting.questions[0].question.question_id, {"decision": "approve"}
        )
        reply = await runtime.requests.wait(waiting.task_id)
        assert reply is not None
        assert reply.blocked_on == (Missing(MissingKind.AGENT, "billing"),)
    async with memory_runtime(model=model, agents=whole, place=place) as runtime:
        reply = await runtime.requests.wait(waiting.task_id)
    assert reply is not None
    assert (reply.status, reply.content, len(pay.runs)) == (TaskStatus.SUCCEEDED, "Paid.", 1)


async def tell(log: DyingLog) -> tuple[TaskReply, Act]:
    """Run a task that is handed off, in as many lives as it takes."""
    pay = Act("pay", effect=Effect.WRITE)

    def answer(request: ModelRequest) -> ScriptedReply:
        is_first = "billing has" in str(request.messages[-1])
        return call("pay") if is_first else say("Paid.")

    first = Agent(ASSISTANT, instructions="You triage.", handoffs=[billing(tools=[pay])])
    model = by_agent(triage=call(TRANSFER), bill=answer)
    reply = await outlived(log, "Pay", model=model, agents=[first])
    return reply, pay


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(1, WRITES + 1))
async def test_a_task_killed_at_any_write_is_handed_off_once(writes: int, before: bool) -> None:
    clock = FakeClock()
    log = DyingLog(clock, writes=writes, before=before)
    reply, pay = await tell(log)
    written = [each.event for each in await log.read(LogId(str(reply.session_id)))]
    assert (reply.status, reply.content) == (TaskStatus.SUCCEEDED, "Paid.")
    assert sum(isinstance(each, HandedOff) for each in written) == 1
    assert sum(isinstance(each, TaskEnded) for each in written) == 1
    assert len(pay.runs) <= 1


async def test_every_write_of_the_task_is_tried() -> None:
    clock = FakeClock()
    log = DyingLog(clock, writes=-1, before=False)
    await tell(log)
    assert log.writes == WRITES
