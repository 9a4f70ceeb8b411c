"""Answers of an agent: its model, tools and settings, and the messages that it reads."""

import gc
from typing import Any

import msgspec
import pytest

from penstock.agents.agent import Agent
from penstock.chat.requests import NewMessage
from penstock.chat.session import profile_of
from penstock.chat.task_closer import detail
from penstock.core.call import Effect
from penstock.core.call_errors import ScriptLoadError
from penstock.core.errors import ContextTooLarge, ModelUnavailable
from penstock.core.events.events import TaskStarted
from penstock.core.ids import ProfileId
from penstock.core.messages import AssistantMessage, UserMessage
from penstock.core.profile import CHAT, Profile
from penstock.core.task import Missing, MissingKind, TaskStatus
from penstock.models.model import ModelCard
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, fail, say
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.asking import ask
from tests.kit.assistant import agent, assert_whole
from tests.kit.logs import code, events, kinds, settled
from tests.kit.questions import go_on, mail
from tests.kit.session_events import folded_with, message
from tests.kit.tools import Act, raising

ANN = Profile(profile_id=ProfileId("ann"), permissions=frozenset({CHAT}))


async def test_the_next_message_reads_the_earlier_ones() -> None:
    model = ScriptedModel([say("Hello Ann."), say("Ann.")])
    async with memory_runtime(model=model) as runtime:
        first = await ask(runtime, "I am Ann")
        await ask(runtime, "Who am I?", session=first.session_id)
    assert list(model.requests[1].messages) == [
        UserMessage("I am Ann"),
        AssistantMessage("Hello Ann."),
        UserMessage("Who am I?"),
    ]


async def test_an_agent_is_its_instructions_its_model_and_its_own_tools() -> None:
    own = ScriptedModel([call("look"), say("Arr.")])
    pirate = Agent("pirate", instructions="Talk like one.", model=own, tools=[Act("look")])
    async with memory_runtime(
        model=ScriptedModel([]), tools=[Act("other")], agents=[pirate]
    ) as runtime:
        reply = await ask(runtime, "Hello", agent="pirate")
        assert [code(each) for each in await settled(runtime, reply.session_id)] == ["ok"]
    assert own.requests[0].system.startswith("Talk like one.")
    assert [tool.name for tool in own.requests[0].tools] == ["look"]


async def test_a_message_can_choose_its_model() -> None:
    other = ScriptedModel([say("I am the other.")])
    other.card = ModelCard(model_id="other", name="other", provider="scripted")
    async with memory_runtime(model=ScriptedModel([say("I am the first.")])) as runtime:
        runtime.parts.chat.models.add(other)
        sent = await runtime.requests.send(NewMessage(content="Who?", model="other"))
        reply = await runtime.requests.wait(sent.task_id)
        started = [e for e in await events(runtime, sent.session_id) if isinstance(e, TaskStarted)]
    assert reply
    assert reply.content == "I am the other."
    assert started[0].model == "other"


@pytest.mark.parametrize(
    ("settings", "enable", "offered"),
    [({}, True, ["look"]), ({}, False, []), ({"tools_enabled": False}, True, [])],
)
async def test_tools_need_the_switch_of_the_request_and_of_the_agent(
    settings: dict[str, Any], enable: bool, offered: list[str]
) -> None:
    """The chat loop's promise: `enableTools` in the request, `tools_enabled` in the settings."""
    model = ScriptedModel([say("Hi")])
    async with memory_runtime(
        model=model, tools=[Act("look")], agents=[agent(**settings)]
    ) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Hi", enable_tools=enable))
        await runtime.requests.wait(sent.task_id)
    assert [tool.name for tool in model.requests[0].tools] == offered


async def test_a_model_request_has_the_settings_of_the_agent() -> None:
    model = ScriptedModel([say("Hi")])
    agents = [agent(llm_temperature=0.1, llm_max_tokens=99, llm_system_prompt="Short.")]
    async with memory_runtime(model=model, agents=agents) as runtime:
        await ask(runtime, "Hi")
    (request,) = model.requests
    assert (request.temperature, request.max_tokens) == (0.1, 99)
    assert request.system.startswith("Short.\n\n")


@pytest.mark.parametrize(
    "broken",
    [
        [fail(400)],
        [call("fatal")],
        [call("look"), fail(400)],
        [call("look") + call("fatal")],
    ],
)
async def test_a_conversation_can_continue_after_a_failed_task(
    broken: list[ScriptedReply],
) -> None:
    """Every call has exactly one tool message, whatever happened."""
    model = ScriptedModel([*broken, say("Better now.")])
    fatal = Act("fatal", raising(ScriptLoadError("no")))
    async with memory_runtime(model=model, tools=[fatal, Act("look")]) as runtime:
        first = await ask(runtime, "Break")
        reply = await ask(runtime, "Again?", session=first.session_id)
    assert (first.status, reply.content) == (TaskStatus.FAILED, "Better now.")
    assert_whole(model.requests[-1])


async def test_a_tool_that_exits_fails_only_its_call() -> None:
    model = ScriptedModel([call("fatal"), say("Still here.")])
    fatal = Act("fatal", raising(SystemExit(3)))
    async with memory_runtime(model=model, tools=[fatal]) as runtime:
        reply = await ask(runtime, "Break")
        (outcome,) = await settled(runtime, reply.session_id)
    assert (reply.content, code(outcome)) == ("Still here.", "TOOL_FAILED")


async def test_answering_a_message_again_replaces_the_answer() -> None:
    model = ScriptedModel([say("Bad."), say("More."), say("Good.")])
    async with memory_runtime(model=model) as runtime:
        first = await ask(runtime, "Tell me")
        await ask(runtime, "And?", session=first.session_id)
        again = NewMessage(content="Tell me", session_id=first.session_id, supersedes=first.task_id)
        await runtime.requests.wait((await runtime.requests.send(again)).task_id)
    assert list(model.requests[-1].messages) == [UserMessage("Tell me")]


async def test_a_task_whose_agent_is_missing_is_blocked_with_its_calls_open() -> None:
    place = MemoryStorage()
    model = ScriptedModel([call("mail", to="ann") + call("mail", to="bob"), say("never")])
    some = [Agent("clerk")]
    async with memory_runtime(model=model, tools=[mail()], agents=some, place=place) as first:
        parked = await ask(first, "Mail", agent="clerk")
    async with memory_runtime(model=model, tools=[mail()], place=place) as second:
        reply = await go_on(second, parked, {"decision": "approve"})
        outcomes = await settled(second, parked.session_id)
    assert reply.status is TaskStatus.BLOCKED
    assert reply.blocked_on == (Missing(MissingKind.AGENT, "clerk"),)
    assert outcomes == []


async def test_a_call_without_the_permission_is_refused() -> None:
    secret = Act("secret", effect=Effect.NONE, requires_permissions=frozenset({"root"}))
    model = ScriptedModel([call("secret"), say("No.")])
    async with memory_runtime(model=model, tools=[secret]) as runtime:
        reply = await ask(runtime, "Open it", profile=ANN)
        (outcome,) = await settled(runtime, reply.session_id)
        assert not secret.runs
        assert code(outcome) in {"NOT_PERMITTED", "TOOL_NOT_FOUND"}
        assert "TaskEnded" in await kinds(runtime, reply.session_id)


def test_the_profile_of_a_task_is_that_of_its_message() -> None:
    state = folded_with(message())
    everything = profile_of(state, message())
    assert (everything.profile_id, everything.everything) == ("ann", True)
    some = profile_of(state, message(permissions=("chat",)))
    assert (some.permissions, some.everything) == (frozenset({"chat"}), False)


def test_an_erased_message_grants_no_permission() -> None:
    unknown = profile_of(folded_with(), None)
    assert (unknown.permissions, unknown.everything) == (frozenset(), False)


def test_only_errors_of_an_unavailable_model_are_retryable() -> None:
    assert detail(ModelUnavailable("later")).retryable
    gone = detail(ContextTooLarge())
    assert (gone.retryable, gone.continuable, gone.code) == (False, False, "CONTEXT_TOO_LARGE")


class _Odd(Act):
    """A tool whose preview raises."""

    def preview(self, output: Any) -> str | None:
        raise KeyError("nowhere")


async def test_an_error_within_a_round_leaves_no_call_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = ScriptedModel([call("odd") + call("odd", n=2), say("Better now.")])
    odd = _Odd("odd")
    async with memory_runtime(model=model, tools=[odd]) as runtime:
        first = await ask(runtime, "Break")
        reply = await ask(runtime, "Again?", session=first.session_id)
    assert first.error
    assert (first.error.code, reply.content) == ("INTERNAL_ERROR", "Better now.")
    assert "nowhere" not in first.error.message
    assert "nowhere" in caplog.text
    assert_whole(model.requests[-1])


class Ticket(msgspec.Struct):
    """A typed output."""

    title: str


TURNS: dict[str, tuple[type, list[ScriptedReply]]] = {
    "plain": (str, [say("Done.")]),
    "with a tool": (str, [call("look"), say("Done.")]),
    "typed": (Ticket, [call("final_answer", title="fire")]),
}


@pytest.mark.parametrize("kind", TURNS)
async def test_a_turn_leaves_nothing_for_the_garbage_collector(kind: str) -> None:
    output, replies = TURNS[kind]
    clerk = Agent("clerk", model=ScriptedModel(replies * 2), tools=[Act("look")], output=output)
    async with memory_runtime(agents=[clerk]) as runtime:
        assert (await runtime.chat("Look", agent=clerk)).output
        gc.freeze()  # the collection below sees the second turn alone
        gc.disable()
        try:
            assert (await runtime.chat("Look", agent=clerk)).output
            assert gc.collect() == 0
        finally:
            gc.enable()  # and no unfreeze: it would thaw the tests of the whole run, too
