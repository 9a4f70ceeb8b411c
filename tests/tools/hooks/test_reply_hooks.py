"""Hooks around requests to a model and its replies."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from penstock import Agent, Hooks, Limits, ModelReply, ModelRetry, Refuse, Reply
from penstock.core.events.events import ReplyReceived
from penstock.core.events.hook_events import HookDecided
from penstock.core.ids import LogId, TaskId
from penstock.core.messages import AssistantMessage, Carry, Usage, UserMessage
from penstock.engine.bus import DeltaKind, LiveReply
from penstock.models.model import CallDelta, Finished, ModelRequest, TextDelta
from penstock.models.scripted import SCRIPTED, ScriptedModel, ScriptedReply, call, say
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.hooks.reply_hooks import withheld

Deed = Callable[[Any], Any]


def hook(method: str, deed: Deed) -> Hooks[Any]:
    """Return a hook with one method, which does the deed with its argument."""

    async def asked(self: Any, ctx: Any, about: Any) -> Any:
        return deed(about)

    made: Hooks[Any] = type("Watch", (Hooks,), {method: asked})()
    return made


def refund(amount: int) -> str:
    """Refund an amount."""
    return f"refunded {amount}"


async def chat(place: MemoryStorage, watch: Hooks[Any], model: Any) -> Reply[Any]:
    agent = Agent("clerk", tools=[refund], hooks=[watch])
    async with memory_runtime(model=model, agents=[agent], place=place) as runtime:
        return await runtime.chat("Refund it", agent="clerk")


async def ask(method: str, deed: Deed, *replies: ScriptedReply) -> tuple[Reply[Any], ScriptedModel]:
    model = ScriptedModel(replies)
    place = MemoryStorage(limits=Limits(shutdown_seconds=0))
    return await chat(place, hook(method, deed), model), model


async def events(place: MemoryStorage, reply: Reply[Any], kind: type) -> list[Any]:
    records = await place.log.read(LogId(reply.session))
    return [each.event for each in records if isinstance(each.event, kind)]


# ---- before_model ------------------------------------------------------------------------------


def appended(request: ModelRequest) -> ModelRequest:
    return replace(request, messages=[*request.messages, UserMessage("Be kind.")])


def first(request: ModelRequest) -> ModelRequest:
    return replace(request, messages=[UserMessage("Rules."), *request.messages])


def only_last(request: ModelRequest) -> ModelRequest:
    return replace(request, messages=request.messages[-1:])


def in_place(request: Any) -> ModelRequest:
    request.messages[0] = UserMessage("Refund X")
    request.tools[0].parameters["description"] = "spoiled"
    left: ModelRequest = replace(request, tools=())
    return left


@pytest.mark.parametrize(
    ("deed", "contents", "start"),
    [
        (appended, ["Refund it", "Be kind."], 0),
        (first, ["Rules.", "Refund it"], 1),
        (only_last, ["Refund it"], 0),
        (in_place, ["Refund X"], 0),
    ],
)
async def test_the_model_receives_the_request_that_a_hook_leaves(
    deed: Deed, contents: list[str], start: int
) -> None:
    _, model = await ask("before_model", deed, say("Done."))
    (request,) = model.requests
    assert [each.content for each in request.messages] == contents
    assert request.loop_start == start


async def test_settings_and_tools_of_a_request_can_be_changed() -> None:
    def changed(request: ModelRequest) -> ModelRequest:
        return replace(request, system="Be brief.", temperature=0.1, stop=("END",), tools=())

    _, model = await ask("before_model", changed, say("Done."))
    (request,) = model.requests
    assert (request.system, request.temperature, request.stop, request.tools) == (
        "Be brief.",
        0.1,
        ("END",),
        (),
    )


async def test_a_request_that_is_edited_leaves_the_history_as_it_is() -> None:
    _, model = await ask("before_model", only_last, call("refund", amount=1), say("Done."))
    assert [type(each).__name__ for each in model.requests[1].messages] == ["ToolMessage"]
    _, plain = await ask("before_model", lambda each: each, call("refund", amount=1), say("Done."))
    kinds = [type(each).__name__ for each in plain.requests[1].messages]
    assert kinds == ["UserMessage", "AssistantMessage", "ToolMessage"]


async def test_a_refused_request_fails_the_task_and_asks_no_model() -> None:
    reply, model = await ask("before_model", lambda _: Refuse("Too late."), say("Done."))
    assert reply.error is not None
    assert (reply.error.code, reply.error.message) == ("HOOK_REFUSED", "Too late.")
    assert reply.error.details == {"hook": "Watch"}
    assert model.requests == []


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        (lambda each: replace(each, messages=[]), "a request needs messages"),
        (lambda each: replace(each, messages=["hello"]), "a message cannot be 'hello'"),
        (lambda each: replace(each, closing=True), "it may not change `closing`, `loop_start`"),
        (lambda each: replace(each, temperature="hot"), "Expected `float | null`, got `str`"),
        (lambda each: each.messages, "it may not return list"),
        (lambda each: 1 / 0, "ZeroDivisionError"),
    ],
)
async def test_a_wrong_request_fails_the_task_by_the_name_of_the_hook(
    deed: Deed, said: str
) -> None:
    reply, model = await ask("before_model", deed, say("Done."))
    assert reply.error is not None
    assert "the hook 'Watch' failed in before_model: " in reply.error.message
    assert said in reply.error.message
    assert model.requests == []


# ---- after_reply -------------------------------------------------------------------------------


def louder(reply: ModelReply) -> ModelReply:
    return replace(reply, text=reply.text.upper())


async def test_people_and_the_model_get_the_reply_that_a_hook_leaves() -> None:
    reply, model = await ask(
        "after_reply", louder, say("wait") + call("refund", amount=1), say("done")
    )
    assert reply.content == "DONE"
    assert model.requests[1].messages[1].content == "WAIT"


async def test_a_reply_is_shown_only_after_its_hook_has_returned() -> None:
    place = MemoryStorage()
    model = ScriptedModel([say("my ", "secret")])
    agent = Agent("clerk", hooks=[hook("after_reply", louder)])
    shown: list[str] = []
    async with memory_runtime(model=model, agents=[agent], place=place) as runtime:
        run = await runtime.start("Hello", agent="clerk")
        shown = [each async for each in run.text()]
    assert "".join(shown) == "MY SECRET"


def test_a_withheld_reply_has_no_readers() -> None:
    live = LiveReply(LogId("l"), TaskId("t"), base=1, iteration=1)
    bus, hidden = withheld(live)
    bus.say(hidden, DeltaKind.TEXT, "secret")
    assert (live.units, live.pieces, hidden.units) == (0, [], 6)


async def test_a_reply_is_sent_back_and_all_attempts_are_in_the_log_and_count() -> None:
    def polite(reply: ModelReply) -> ModelReply:
        if "please" not in reply.text:
            raise ModelRetry("Say please.")
        return reply

    place = MemoryStorage()
    model = ScriptedModel([call("refund", amount=1), say("No."), say("Yes, please.")])
    reply = await chat(place, hook("after_reply", polite), model)
    assert (reply.content, reply.usage.model_calls) == ("Yes, please.", 3)
    assert reply.usage.tool_calls == 0
    said = [each.content for each in model.requests[2].messages]
    assert said == [
        "Refund it",
        "",
        '{"error":"Say please.","code":"MODEL_RETRY"}',
        "No.",
        "Say please.",
    ]
    assert len(await events(place, reply, ReplyReceived)) == 3


async def test_replies_are_sent_back_a_bounded_number_of_times() -> None:
    def never(reply: ModelReply) -> ModelReply:
        raise ModelRetry("Again.")

    reply, model = await ask("after_reply", never, *[say("a")] * 3)
    assert reply.error is not None
    assert reply.error.message == (
        "the hook 'Watch' asked the model again 3 times; the last time because: Again."
    )
    assert len(model.requests) == 3


async def test_a_refused_reply_is_kept_nowhere_but_its_usage_counts() -> None:
    place, model = MemoryStorage(), ScriptedModel([say("my secret")])
    reply = await chat(place, hook("after_reply", lambda _: Refuse("It has a secret.")), model)
    assert reply.error is not None
    assert (reply.error.code, reply.error.message) == ("HOOK_REFUSED", "It has a secret.")
    assert (reply.usage.model_calls, reply.content) == (1, "")
    records = await place.log.read(LogId(reply.session))
    assert "my secret" not in repr(records)


async def test_calls_of_a_reply_can_be_changed_and_removed_but_not_added() -> None:
    def smaller(reply: ModelReply) -> ModelReply:
        if not reply.calls:
            return reply
        one = reply.calls[0]
        return replace(reply, calls=(replace(one, input={"amount": 2}),))

    asked = call("refund", amount=1) + call("refund", amount=9)
    _, model = await ask("after_reply", smaller, asked, say("Done."))
    message = model.requests[1].messages[1]
    assert isinstance(message, AssistantMessage)
    assert [each.arguments for each in message.calls] == [{"amount": 2}]

    def more(reply: ModelReply) -> ModelReply:
        one = reply.calls[0]
        return replace(reply, calls=(*reply.calls, replace(one, id="tc_mine")))

    reply, _ = await ask("after_reply", more, asked)
    assert reply.error is not None
    assert "it may not add the call 'refund'" in reply.error.message


class Carrying:
    """A model whose first reply has a carry."""

    card = SCRIPTED

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> Any:
        self.requests.append(replace(request, messages=tuple(request.messages)))
        if len(self.requests) == 2:
            yield TextDelta("Done.")
            yield Finished("stop", Usage())
            return
        yield TextDelta("Wait.")
        yield CallDelta(0, "refund", '{"amount": 120}')
        parts = ({"type": "text", "chars": 5}, {"type": "call", "index": 0, "id": "toolu_1"})
        yield Finished("tool_calls", Usage(), carry=Carry("p", "f", "", parts))

    async def close(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize("text", ["Wait.", "Stop!"])
async def test_the_carry_keeps_the_input_as_the_model_wrote_it_or_is_void(text: str) -> None:
    """Models §2.2: `input` only if a hook changed the arguments."""

    def halved(reply: ModelReply) -> ModelReply:
        calls = [replace(each, input={"amount": 60}) for each in reply.calls]
        return replace(reply, calls=tuple(calls), text=text if calls else reply.text)

    place, model = MemoryStorage(), Carrying()
    reply = await chat(place, hook("after_reply", halved), model)
    message = model.requests[1].messages[1]
    assert isinstance(message, AssistantMessage)
    assert (reply.status, message.calls[0].arguments) == ("succeeded", {"amount": 60})
    if text != "Wait.":
        assert message.carry is None
        return
    assert message.carry is not None
    assert message.carry.parts[1] == {
        "type": "call",
        "index": 0,
        "id": "toolu_1",
        "input": {"amount": 120},
    }


async def test_what_hooks_decided_about_replies_is_in_the_log_by_name() -> None:
    place, model = MemoryStorage(), ScriptedModel([say("done")])
    reply = await chat(place, hook("after_reply", louder), model)
    (decided,) = await events(place, reply, HookDecided)
    assert (decided.hook, decided.method, decided.verdict) == ("Watch", "after_reply", "edit")
    assert decided.value is None
