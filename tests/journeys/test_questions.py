"""Approvals at any depth: sibling calls continue, every call runs once, no answer is lost."""

from typing import Any

import pytest

from penstock.builtins.ask_user import TOOLS
from penstock.chat.requests import NewMessage
from penstock.core.call import Effect
from penstock.core.errors import InvalidAnswer, QuestionClosed
from penstock.core.task import QuestionStatus, TaskStatus
from penstock.models.scripted import ScriptedModel, call, say
from penstock.store.projections import Page
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.tool import Tool
from tests.kit.asking import ask
from tests.kit.assistant import agent, assert_whole
from tests.kit.logs import code, kinds, settled
from tests.kit.questions import SCHEMA, go_on, mail, question_of
from tests.kit.tools import Act, Gate, calling, together


async def test_an_approved_call_runs_once_with_exactly_the_shown_input() -> None:
    """Transcript 8.5: the events of an approval, in their order."""
    tool, model = mail(), ScriptedModel([call("mail", to="ann"), say("Done: Ann has the mail.")])
    async with memory_runtime(model=model, tools=[tool]) as runtime:
        parked = await ask(runtime, "Mail Ann")
        assert (parked.status, tool.runs) == (TaskStatus.SUSPENDED, [])
        (asked,) = parked.questions
        assert (asked.question.tool_id, asked.question.input) == ("mail", {"to": "ann"})
        reply = await go_on(runtime, parked, {"decision": "approve"})
        assert (reply.content, tool.runs) == ("Done: Ann has the mail.", [{"to": "ann"}])
        assert (await kinds(runtime, reply.session_id))[4:] == [
            "QuestionAsked",
            "TaskSuspended",
            "QuestionAnswered",
            "TaskResumed",
            "CallStarted",
            "CallSettled",
            "ReplyReceived",
            "TaskEnded",
        ]


async def test_a_call_runs_with_the_edited_input() -> None:
    tool, model = mail(input_schema=SCHEMA), ScriptedModel([call("mail", to="ann"), say("Ok.")])
    async with memory_runtime(model=model, tools=[tool]) as runtime:
        parked = await ask(runtime, "Mail Ann")
        with pytest.raises(InvalidAnswer, match="/input/to"):
            await go_on(runtime, parked, {"decision": "approve", "input": {"to": 7}})
        await go_on(runtime, parked, {"decision": "approve", "input": {"to": "bob"}})
    assert tool.runs == [{"to": "bob"}]


async def test_a_rejection_reaches_the_model_with_its_note() -> None:
    tool, model = mail(), ScriptedModel([call("mail", to="ann"), say("I did not.")])
    async with memory_runtime(model=model, tools=[tool]) as runtime:
        parked = await ask(runtime, "Mail Ann")
        reply = await go_on(runtime, parked, {"decision": "reject", "note": "not today"})
        (outcome,) = await settled(runtime, reply.session_id)
    assert (code(outcome), tool.runs) == ("REJECTED", [])
    assert outcome.envelope.error
    assert "not today" in outcome.envelope.error.message


@pytest.mark.parametrize(
    ("tool", "value"),
    [
        (TOOLS[0], {"question": "Which?", "type": "input"}),
        (Act("pick", lambda _, invocation: invocation.ask("Which?")), {}),
    ],
    ids=["ask_user", "ctx.ask"],
)
async def test_a_question_expires_after_the_time_of_its_agent(
    tool: Tool, value: dict[str, Any]
) -> None:
    """The page: "It may wait for ever (`question_ttl_seconds` null) or settle"."""
    clock, model = FakeClock(), ScriptedModel([call(tool.spec.tool_id, **value), say("No answer.")])
    agents, place = [agent(question_ttl_seconds=60)], MemoryStorage(clock=clock)
    async with memory_runtime(model=model, tools=[tool], agents=agents, place=place) as runtime:
        parked = await ask(runtime, "Choose")
        assert parked.status is TaskStatus.SUSPENDED
        await clock.elapse(61)
        reply = await runtime.requests.wait(parked.task_id)
    assert reply
    assert (reply.status, reply.content) == (TaskStatus.SUCCEEDED, "No answer.")


async def test_an_expired_question_is_a_rejection() -> None:
    clock, tool = FakeClock(), mail()
    model = ScriptedModel([call("mail", to="ann"), say("No approval.")])
    agents = [agent(question_ttl_seconds=60)]
    async with memory_runtime(
        model=model, tools=[tool], agents=agents, place=MemoryStorage(clock=clock)
    ) as runtime:
        parked = await ask(runtime, "Mail Ann")
        await clock.elapse(59)
        asked = await runtime.parts.storage.projections.find_question(question_of(parked))
        assert asked
        assert asked.status is QuestionStatus.OPEN
        await clock.elapse(2)
        reply = await runtime.requests.wait(parked.task_id)
        assert reply
        (outcome,) = await settled(runtime, reply.session_id)
        with pytest.raises(QuestionClosed):
            await runtime.requests.answer(question_of(parked), {"decision": "approve"})
    assert (code(outcome), reply.content) == ("REJECTED", "No approval.")
    assert outcome.envelope.error
    assert "not answered in time" in outcome.envelope.error.message


async def test_sibling_calls_settle_before_the_task_is_parked() -> None:
    gate, tool = Gate(), mail()
    look = Act("look", gate)
    model = ScriptedModel([call("mail", to="ann") + call("look"), say("Both.")])
    async with memory_runtime(model=model, tools=[tool, look]) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Go"))
        await gate.reached()
        gate.open()
        parked = await runtime.requests.wait(sent.task_id)
        assert parked
        assert [each.tool_id for each in await settled(runtime, sent.session_id)] == ["look"]
        await go_on(runtime, parked, {"decision": "approve"})
    assert (len(look.runs), len(tool.runs)) == (1, 1)
    assert_whole(model.requests[-1])


async def test_an_answer_during_a_sibling_call_is_not_lost() -> None:
    gate, tool = Gate(), mail()
    model = ScriptedModel([call("mail", to="ann") + call("look"), say("Both.")])
    async with memory_runtime(model=model, tools=[tool, Act("look", gate)]) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Go"))
        await gate.reached()
        asked, _ = await runtime.parts.storage.projections.questions(page=Page())
        await runtime.requests.answer(asked[0].question.question_id, {"decision": "approve"})
        gate.open()
        reply = await runtime.requests.wait(sent.task_id)
    assert reply
    assert (reply.content, len(tool.runs)) == ("Both.", 1)


async def test_each_answer_runs_its_call_at_once_even_while_another_waits() -> None:
    tool = mail()
    model = ScriptedModel([call("mail", to="ann") + call("mail", to="bob"), say("Both.")])
    async with memory_runtime(model=model, tools=[tool]) as runtime:
        parked = await ask(runtime, "Mail them")
        assert len(parked.questions) == 2
        first, second = parked.questions
        await runtime.requests.answer(second.question.question_id, {"decision": "approve"})
        again = await runtime.requests.wait(parked.task_id)
        assert again
        assert (again.status, tool.runs) == (TaskStatus.SUSPENDED, [{"to": "bob"}])
        assert [each.question.question_id for each in again.questions] == [
            first.question.question_id
        ]
        reply = await go_on(runtime, again, {"decision": "approve"})
    assert reply.content == "Both."
    assert tool.runs == [{"to": "bob"}, {"to": "ann"}]


@pytest.mark.parametrize("effect", list(Effect))
@pytest.mark.parametrize("is_frame", [False, True])
async def test_a_question_at_any_depth_is_answered(effect: Effect, is_frame: bool) -> None:
    """A tool that calls a tool that calls a tool that a person must approve."""
    tool, look = mail(direct_call=True), Act("look", direct_call=True)
    spec: dict[str, Any] = {"effect": effect, "is_frame": is_frame, "direct_call": True}
    inner = Act("inner", calling("look", "mail", "look"), **spec)
    outer = Act("outer", calling("look", "inner"), **spec)
    tools = [look, inner, outer, tool]
    model = ScriptedModel([call("outer"), say("Deep.")])
    async with memory_runtime(model=model, tools=tools) as runtime:
        parked = await ask(runtime, "Dive")
        (asked,) = parked.questions
        reply_calls = await settled(runtime, parked.session_id)
        assert [each.tool_id for each in reply_calls] == ["look", "look"]
        assert asked.question.call_id
        reply = await go_on(runtime, parked, {"decision": "approve"})
        outcomes = await settled(runtime, reply.session_id)
    assert reply.content == "Deep."
    assert [code(each) for each in outcomes] == ["ok"] * 6
    assert (len(tool.runs), len(look.runs), len(inner.runs)) == (1, 3, 2)


async def test_concurrent_calls_inside_a_tool_settle_before_it_parks() -> None:
    """E2: `look` and `post` run once; `send` waits, then runs once."""
    look, post = Act("look", direct_call=True), Act("post", effect=Effect.WRITE, direct_call=True)
    send = Act("send", effect=Effect.WRITE, requires_approval=True, direct_call=True)
    outer = Act("outer", together("look", "send", "post"), is_frame=True)
    model = ScriptedModel([call("outer"), say("Ok.")])
    async with memory_runtime(model=model, tools=[look, post, send, outer]) as runtime:
        parked = await ask(runtime, "All")
        done = [each.tool_id for each in await settled(runtime, parked.session_id)]
        assert sorted(done) == ["look", "post"]
        await go_on(runtime, parked, {"decision": "approve"})
        outcomes = await settled(runtime, parked.session_id)
    assert outcomes[-1].envelope.output == ["success", "success", "success"]
    assert (len(look.runs), len(post.runs), len(send.runs)) == (1, 1, 1)


async def test_one_write_tool_can_ask_two_questions_at_once() -> None:
    """Each answer enters the tool again; it is a frame by its questions, not cut by a crash."""
    send = Act("send", effect=Effect.WRITE, requires_approval=True, direct_call=True)
    outer = Act("outer", together("send", "send"), effect=Effect.WRITE)
    model = ScriptedModel([call("outer"), say("Ok.")])
    async with memory_runtime(model=model, tools=[send, outer]) as runtime:
        parked = await ask(runtime, "All")
        assert len(parked.questions) == 2
        parked = await go_on(runtime, parked, {"decision": "approve"})
        assert len(parked.questions) == 1
        reply = await go_on(runtime, parked, {"decision": "approve"})
        outcomes = await settled(runtime, reply.session_id)
    assert outcomes[-1].envelope.output == ["success", "success"]
    assert len(send.runs) == 2


async def test_a_deny_rule_that_was_added_meanwhile_applies() -> None:
    tool, settings = mail(), agent()
    model = ScriptedModel([call("mail", to="ann"), say("Not allowed.")])
    place = MemoryStorage()
    async with memory_runtime(model=model, tools=[tool], agents=[settings], place=place) as first:
        parked = await ask(first, "Mail Ann")
    denying = agent(tool_permissions={"mail": "deny"})
    async with memory_runtime(model=model, tools=[tool], agents=[denying], place=place) as runtime:
        reply = await go_on(runtime, parked, {"decision": "approve"})
        (outcome,) = await settled(runtime, reply.session_id)
    assert (code(outcome), tool.runs) == ("NOT_PERMITTED", [])


async def test_a_rejection_applies_even_if_its_rule_was_removed() -> None:
    tool, place = mail(), MemoryStorage()
    model = ScriptedModel([call("mail", to="ann"), say("I did not.")])
    async with memory_runtime(model=model, tools=[tool], place=place) as first:
        parked = await ask(first, "Mail Ann")
    allowing = agent(tool_permissions={"mail": "allow"})
    async with memory_runtime(model=model, tools=[tool], agents=[allowing], place=place) as runtime:
        reply = await go_on(runtime, parked, {"decision": "reject"})
        (outcome,) = await settled(runtime, reply.session_id)
    assert (code(outcome), tool.runs) == ("REJECTED", [])


async def test_an_invalid_input_is_refused_without_a_question() -> None:
    model = ScriptedModel([call("mail", to=7), say("Ah.")])
    async with memory_runtime(model=model, tools=[mail(input_schema=SCHEMA)]) as runtime:
        reply = await ask(runtime, "Mail")
        assert [code(each) for each in await settled(runtime, reply.session_id)] == [
            "INVALID_INPUT"
        ]
