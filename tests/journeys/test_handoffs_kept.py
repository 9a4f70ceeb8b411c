"""A conversation after a hand-off: whose it is, its budget, its history, what erasing leaves."""

import re
from typing import Any

import pytest
from msgspec import Struct

from penstock.agents.agent import Agent, AnyAgent, ChatSettings
from penstock.chat.requests import TaskReply
from penstock.core.call import Effect
from penstock.core.errors import NotFound
from penstock.core.events.events import TaskEnded
from penstock.core.events.flow_events import HandedBack, HandedOff
from penstock.core.ids import ASSISTANT, LogId, SessionId
from penstock.core.limits import Limits
from penstock.core.task import TaskStatus
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, say
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.dying_log import DyingLog, live, see_through
from tests.kit.logs import events
from tests.kit.server import served
from tests.kit.tools import Act

pytestmark = pytest.mark.chaos
TRANSFER = "transfer_to_billing"
CHAT = "/api/agents/triage/chat"


class Bill(Struct):
    """A bill."""

    total: int


def pair(**options: Any) -> list[AnyAgent]:
    billing: AnyAgent = Agent("billing", instructions="You bill.", **options)
    return [Agent("triage", output=str, instructions="You triage.", handoffs=[billing]), billing]


# ---- whose it is ----


async def test_the_agent_that_has_a_conversation_can_be_named() -> None:
    model = ScriptedModel([call(TRANSFER), say("Paid."), say("Yes."), say("And yes.")])
    triage, billing = pair()
    async with memory_runtime(model=model, agents=[triage]) as runtime:
        first = await runtime.chat("Pay", agent=triage)
        second = await runtime.chat("Sure?", agent=first.agent, session=first.session)
        third = await runtime.chat("Sure?", agent=billing, session=first.session)
        (session,) = await runtime.sessions()
    assert (second.agent, second.output, third.output) == ("billing", "Yes.", "And yes.")
    assert session.agent == "triage"


async def test_a_conversation_is_not_that_of_a_third_agent() -> None:
    model = ScriptedModel([call(TRANSFER), say("Paid.")])
    triage, _ = pair()
    async with memory_runtime(model=model, agents=[triage, Agent("third")]) as runtime:
        first = await runtime.chat("Pay", agent=triage)
        with pytest.raises(NotFound, match="agent 'third' has no conversation"):
            await runtime.chat("Sure?", agent="third", session=first.session)
        await runtime.hand_back(first.session)
        with pytest.raises(NotFound, match="agent 'billing' has no conversation"):
            await runtime.chat("Sure?", agent="billing", session=first.session)


async def test_the_other_agent_can_be_named_after_a_restart() -> None:
    model = ScriptedModel([call(TRANSFER), say("Paid."), say("Yes.")])
    place = MemoryStorage()
    async with memory_runtime(model=model, agents=pair(), place=place) as runtime:
        first = await runtime.chat("Pay", agent="triage")
    async with memory_runtime(model=model, agents=pair(), place=place) as runtime:
        second = await runtime.chat("Sure?", agent="billing", session=first.session)
    assert second.output == "Yes."


# ---- its budget and its bounds ----


async def test_the_budget_of_a_task_includes_all_its_agents() -> None:
    model = ScriptedModel([call("look"), call(TRANSFER), say("Paid."), say("Late.")])
    strict = ChatSettings(budget_model_calls=2)
    agents = pair(settings=strict)
    async with memory_runtime(model=model, tools=[Act("look")], agents=agents) as runtime:
        reply = await runtime.chat("Pay", agent="triage")
    assert (reply.finish_reason, reply.usage.model_calls) == ("budget_exceeded", 2)
    assert reply.agent == "billing"


async def test_each_agent_has_its_own_number_of_turns() -> None:
    model = ScriptedModel([call("look", n=1), call(TRANSFER), call("look", n=2), say("Paid.")])
    agents = pair(settings=ChatSettings(max_iterations=2))
    async with memory_runtime(model=model, tools=[Act("look")], agents=agents) as runtime:
        reply = await runtime.chat("Pay", agent="triage")
    assert (reply.finish_reason, reply.output) == ("stop", "Paid.")


async def test_three_agents_in_a_circle_stop_at_the_bound() -> None:
    def transfer(request: ModelRequest) -> ScriptedReply:
        refused = "limits.run_depth" in str(request.messages[-1])
        return say("Enough.") if refused else call(request.tools[0].name)

    names = ["a", "b", "c"]
    agents = [Agent(each, handoffs=[names[n - 2]], tools=[]) for n, each in enumerate(names)]
    place = MemoryStorage(limits=Limits(run_depth=4))
    async with memory_runtime(model=ScriptedModel(transfer), agents=agents, place=place) as runtime:
        first = await runtime.chat("Go", agent="a")
        log = await events(runtime, SessionId(first.session))
        back = [await runtime.hand_back(first.session) for _ in range(2)]
        second = await runtime.chat("Go", agent="a", session=first.session)
    assert [each.agent for each in log if isinstance(each, HandedOff)] == ["b", "c", "a", "b"]
    assert (first.agent, first.output) == ("b", "Enough.")
    assert back == ["a", "a"]
    assert (second.agent, second.usage.tool_calls) == ("b", 5)


# ---- outputs ----


async def test_an_output_is_validated_by_the_agent_that_gives_it() -> None:
    wrong, right = call("final_answer", total="much"), call("final_answer", total=7)
    model = ScriptedModel([call(TRANSFER), wrong, right])
    triage, _ = pair(output=Bill)
    async with memory_runtime(model=model, agents=[triage]) as runtime:
        reply = await runtime.chat("Pay", agent=triage)
        again = await runtime.attach(reply.task_id, agent=triage).reply()
    assert (reply.output, again.output) == (Bill(total=7), Bill(total=7))
    assert "total" in model.requests[-1].messages[-1].content


async def test_an_output_that_a_message_wants_is_wanted_of_each_agent() -> None:
    model = ScriptedModel([call(TRANSFER), call("final_answer", total=7)])
    async with memory_runtime(model=model, agents=pair()) as runtime:
        reply = await runtime.chat("Pay", agent="triage", output=Bill)
    assert (reply.agent, reply.output) == ("billing", Bill(total=7))
    assert {"final_answer"} <= {each.name for each in model.requests[1].tools}


# ---- its history ----


async def test_a_history_goes_on_with_the_other_agent_elsewhere() -> None:
    model = ScriptedModel([call(TRANSFER), say("Paid."), say("Yes.")])
    async with memory_runtime(model=model, agents=pair()) as runtime:
        first = await runtime.chat("Pay", agent="triage")
        history = await runtime.history(first.session)
    async with memory_runtime(model=model, agents=pair()) as runtime:
        session = await runtime.import_history(history, agent="billing")
        second = await runtime.chat("Sure?", agent="billing", session=session)
    assert second.output == "Yes."
    contents = [each.content for each in model.requests[-1].messages]
    assert contents == ["Pay", "Paid.", "billing has the conversation now.", "Sure?"]


async def test_a_restart_reads_what_the_process_before_it_read() -> None:
    replies = [call(TRANSFER), call("pay"), say("Paid."), say("Yes.")]
    requests = []
    for restarts in (False, True):
        model, pay = ScriptedModel(replies), Act("pay", requires_approval=True)
        place = MemoryStorage(limits=Limits(shutdown_seconds=0))
        async with memory_runtime(model=model, agents=pair(tools=[pay]), place=place) as runtime:
            reply = await runtime.chat("Pay", agent="triage")
            if not restarts:
                reply = await runtime.approve(reply)
                await runtime.chat("Sure?", agent="triage", session=reply.session)
        if restarts:
            again = memory_runtime(model=model, agents=pair(tools=[pay]), place=place)
            async with again as runtime:
                reply = await runtime.approve(reply)
            again = memory_runtime(model=model, agents=pair(tools=[pay]), place=place)
            async with again as runtime:
                await runtime.chat("Sure?", agent="triage", session=reply.session)
        read = [(each.system, each.messages, each.tools) for each in model.requests]
        requests.append(re.sub(r"tc_\w+", "tc", str(read)))
    assert requests[0] == requests[1]


# ---- what erasing leaves ----


async def test_an_erased_message_leaves_the_hand_off() -> None:
    model = ScriptedModel([call(TRANSFER), say("Paid."), say("Yes.")])
    async with served(model=model, agents=pair()) as server:
        post = server.client.post
        first = (await post(CHAT, json={"content": "Secret"})).json()
        name = first["userMessage"]["conversationId"]
        for each in ("userMessage", "assistantMessage"):
            erased = await server.client.delete(f"{CHAT}/messages/{first[each]['id']}")
            assert erased.status_code == 204
        second = (await post(CHAT, json={"content": "Sure?", "conversationId": name})).json()
        back = await post(f"{CHAT}/conversations/{name}/hand-back")
        records = await server.runtime.parts.storage.log.read(LogId(name))
    assert second["assistantMessage"]["metadata"]["agentId"] == "billing"
    assert [each.content for each in model.requests[-1].messages] == ["Sure?"]
    assert back.json()["agentId"] == "triage"
    assert "Secret" not in str(records)
    assert sum(isinstance(each.event, HandedOff) for each in records) == 1


async def test_a_deleted_conversation_is_not_handed_back() -> None:
    model = ScriptedModel([call(TRANSFER), say("Paid.")])
    async with served(model=model, agents=pair()) as server:
        name = (await server.client.post(CHAT, json={"content": "Pay"})).headers[
            "x-conversation-id"
        ]
        assert (await server.client.delete(f"{CHAT}/conversations/{name}")).status_code == 204
        missing = await server.client.post(f"{CHAT}/conversations/{name}/hand-back")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "NOT_FOUND")


# ---- what a crash leaves ----

WRITES = 12
"""How often the log of the story is written when no process dies."""


def answer_of(request: ModelRequest) -> ScriptedReply:
    """Answer as triage, which hands off; as billing, which asks and pays; or as the desk."""
    last = str(request.messages[-1].content)
    if "You triage." in request.system:
        return call(TRANSFER)
    if "You file." in request.system:
        return call("final_answer", total=7)
    if "billing has" in last:
        return call("pay")
    return call("transfer_to_desk")


async def tell(log: DyingLog, clock: FakeClock) -> tuple[TaskReply, Act]:
    """Run a task with two hand-offs, the first with an approval, in as many lives as it takes."""
    place = MemoryStorage(clock=clock, log=log, limits=Limits(shutdown_seconds=0))
    pay = Act("pay", effect=Effect.WRITE, requires_approval=True)
    desk: AnyAgent = Agent("desk", instructions="You file.", output=Bill, tools=[])
    billing: AnyAgent = Agent(
        "billing", instructions="You bill.", output=str, tools=[pay], handoffs=[desk]
    )
    first: AnyAgent = Agent(
        ASSISTANT,
        instructions="You triage.",
        output=str,
        tools=[],
        handoffs=[billing],
        settings=ChatSettings(tool_permissions={TRANSFER: "ask"}),
    )
    model = ScriptedModel(answer_of)
    while True:
        async with memory_runtime(model=model, agents=[first], place=place) as runtime:
            approve = see_through(runtime, "Pay", lambda question: {"decision": "approve"})
            reply = await live(runtime, log, approve)
            if reply is not None:
                assert reply.output is not None
                assert reply.output.value == {"total": 7}
                return reply, pay
        log.revive()
        clock.advance(place.limits.lease_seconds + 1)


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(1, WRITES + 1))
async def test_two_hand_offs_killed_at_any_write_happen_once(writes: int, before: bool) -> None:
    clock = FakeClock()
    log = DyingLog(clock, writes=writes, before=before)
    reply, pay = await tell(log, clock)
    written = [each.event for each in await log.read(LogId(str(reply.session_id)))]
    assert reply.status is TaskStatus.SUCCEEDED
    assert [each.agent for each in written if isinstance(each, HandedOff)] == ["billing", "desk"]
    assert sum(isinstance(each, TaskEnded) for each in written) == 1
    assert len(pay.runs) <= 1


async def test_every_write_of_the_story_is_tried() -> None:
    clock = FakeClock()
    log = DyingLog(clock, writes=-1, before=False)
    await tell(log, clock)
    assert log.writes == WRITES


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
async def test_handing_back_is_whole_or_nothing(before: bool) -> None:
    clock = FakeClock()
    log = DyingLog(clock, writes=-1, before=before)
    place = MemoryStorage(clock=clock, log=log, limits=Limits(shutdown_seconds=0))
    model = ScriptedModel([call(TRANSFER), say("Paid.")])
    async with memory_runtime(model=model, agents=pair(), place=place) as runtime:
        session = (await runtime.chat("Pay", agent="triage")).session
        log.die_next()
        assert await live(runtime, log, runtime.hand_back(session)) is None
    log.revive()
    clock.advance(place.limits.lease_seconds + 1)
    async with memory_runtime(model=model, agents=pair(), place=place) as runtime:
        assert await runtime.hand_back(session) == "triage"
        log_events = await events(runtime, SessionId(session))
    assert sum(isinstance(each, HandedBack) for each in log_events) == 1
