"""What hooks decide about messages, calls and outputs, and how hooks that misbehave are bounded."""

from typing import Any

import pytest
from msgspec.structs import replace

from penstock import (
    Agent,
    AgentContext,
    Ask,
    ChatSettings,
    Envelope,
    Hooks,
    ModelRetry,
    Refuse,
    Reply,
    ToolCall,
    ToolContext,
    tool,
)
from penstock.core.events.events import CallSettled, QuestionAsked
from penstock.core.events.hook_events import HookDecided, Verdict
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.runtime import memory_runtime
from tests.kit.hooks import REFUND, Method, Shop, hanging, hook, raising, refused, told

# ---- before_call -------------------------------------------------------------------------------


async def test_a_refused_call_does_not_run_and_the_model_reads_why() -> None:
    shop = Shop(hook(before_call=refused))
    reply, model = await shop.chat(REFUND, say("Sorry."))
    assert (reply.content, shop.refunds) == ("Sorry.", [])
    assert told(model) == (
        '{"error":"Refunds need a person.","code":"NOT_PERMITTED","details":{"hook":"watch"}}'
    )
    (decided,) = await shop.events(reply, HookDecided)
    assert (decided.hook, decided.method, decided.verdict) == ("watch", "before_call", "refuse")


async def halved(each: Any) -> Any:
    return replace(each, input={"amount": each.input["amount"] // 2})


async def test_a_tool_gets_the_edited_input_and_the_model_reads_its_own() -> None:
    shop = Shop(hook(before_call=halved))
    reply, model = await shop.chat(REFUND, say("Done."))
    assert (reply.content, shop.refunds) == ("Done.", [60])
    (asked,) = model.requests[1].messages[1].calls  # type: ignore[union-attr]
    assert asked.arguments == {"amount": 120}
    (decided,) = await shop.events(reply, HookDecided)
    assert (decided.verdict, decided.value) == (Verdict.EDIT, {"input": {"amount": 60}})


async def in_place(each: Any) -> Any:
    each.input["amount"] = 1
    return each


async def test_a_hook_that_changes_its_argument_has_edited_only_what_it_returns() -> None:
    async def spoils(each: Any) -> Any:
        given = replace(each, input=dict(each.input))
        each.input["amount"] = "spoiled"
        return given

    shop = Shop(hook(before_call=in_place))
    await shop.chat(REFUND, say("Done."))
    kept = Shop(hook(before_call=spoils))
    await kept.chat(REFUND, say("Done."))
    assert (shop.refunds, kept.refunds) == ([1], [120])


async def test_hooks_are_asked_in_order_and_each_gets_what_the_one_before_left() -> None:
    seen: list[tuple[str, int]] = []

    def noting(name: str) -> Method:
        async def noted(each: Any) -> Any:
            seen.append((name, each.input["amount"]))
            return await halved(each)

        return noted

    shop = Shop(hook("one", before_call=noting("one")), hook("two", before_call=noting("two")))
    await shop.chat(REFUND, say("Done."))
    assert (seen, shop.refunds) == ([("one", 120), ("two", 60)], [30])


async def test_the_first_refusal_counts_and_no_later_hook_is_asked() -> None:
    shop = Shop(hook("one", before_call=refused), hook("two", before_call=raising))
    _, model = await shop.chat(REFUND, say("Sorry."))
    assert "Refunds need a person." in told(model)


async def test_an_edited_input_is_checked_like_any_other() -> None:
    async def worded(each: Any) -> Any:
        return replace(each, input={"amount": "much"})

    shop = Shop(hook(before_call=worded))
    _, model = await shop.chat(REFUND, say("Sorry."))
    assert "INVALID_INPUT" in told(model)
    assert shop.refunds == []


async def test_a_hook_sees_calls_inside_of_calls_too() -> None:
    seen: list[str] = []

    async def noted(each: Any) -> Any:
        seen.append(each.tool)
        return Refuse("not inside") if each.tool == "inner" else each

    @tool(direct_call=True)
    def inner() -> str:
        """Do it."""
        return "done"

    @tool
    async def outer(ctx: ToolContext) -> str:
        """Call the other."""
        envelope = await ctx.call("inner")
        return envelope.error.message if envelope.error else "done"

    agent = Agent("clerk", tools=[inner, outer], hooks=[hook(before_call=noted)])
    model = ScriptedModel([call("outer"), say("Done.")])
    async with memory_runtime(model=model, agents=[agent]) as runtime:
        await runtime.chat("Go", agent="clerk")
    assert seen == ["outer", "inner"]
    assert told(model) == "not inside"


# ---- questions ---------------------------------------------------------------------------------


async def wondering(each: Any) -> Any:
    return Ask(f"Refund {each.input['amount']}?")


@pytest.mark.parametrize(
    ("answer", "refunds"),
    [
        ({"decision": "approve"}, [120]),
        ({"decision": "approve", "input": {"amount": 7}}, [7]),
        ({"decision": "reject"}, []),
    ],
)
async def test_a_question_of_a_hook_survives_a_restart(answer: Any, refunds: list[int]) -> None:
    asked: list[int] = []

    async def counted(each: Any) -> Any:
        asked.append(each.input["amount"])
        return await wondering(each)

    shop = Shop(hook(before_call=counted))
    reply, _ = await shop.chat(REFUND)
    assert reply.status == "suspended"
    (question,) = reply.questions
    assert question.text == "Refund 120?"
    model = ScriptedModel([say("Done.")])
    async with memory_runtime(model=model, agents=[shop.agent], place=shop.place) as runtime:
        await runtime.requests.answer(question.id, answer)
        ended = await runtime.requests.wait(reply.task_id)
    assert ended is not None
    assert (ended.content, shop.refunds) == ("Done.", refunds)
    assert asked == [120, *[each for each in refunds if each != 120]]
    assert len(await shop.events(reply, QuestionAsked)) == 1


# ---- after_call --------------------------------------------------------------------------------


async def test_the_model_and_the_log_get_the_edited_outcome() -> None:
    async def masked(each: Any, envelope: Envelope) -> Envelope:
        assert each.input == {"amount": 120}
        return replace(envelope, output=envelope.output.replace("120", "***"))

    shop = Shop(hook(after_call=masked))
    reply, model = await shop.chat(REFUND, say("Done."))
    assert told(model) == "refunded ***"
    (settled,) = await shop.events(reply, CallSettled)
    assert settled.envelope.output == "refunded ***"
    (decided,) = await shop.events(reply, HookDecided)
    assert (decided.method, decided.value) == ("after_call", None)


async def test_a_hook_after_a_call_may_ask_the_model_again() -> None:
    async def again(each: Any, envelope: Envelope) -> Envelope:
        raise ModelRetry("Look the order up first.")

    shop = Shop(hook(after_call=again))
    reply, model = await shop.chat(REFUND, say("Done."))
    assert '"Look the order up first.","code":"MODEL_RETRY"' in told(model)
    assert (reply.content, shop.refunds) == ("Done.", [120])


async def test_a_call_that_was_refused_is_not_shown_after_it() -> None:
    shop = Shop(hook(before_call=refused, after_call=raising))
    _, model = await shop.chat(REFUND, say("Sorry."))
    assert "Refunds need a person." in told(model)


# ---- on_input and on_output --------------------------------------------------------------------


async def anonymous(message: Any) -> Any:
    return replace(message, text=message.text.replace("it", "X"))


async def test_the_model_reads_the_message_that_a_hook_leaves_also_later() -> None:
    shop = Shop(hook(on_input=anonymous))
    reply, _ = await shop.chat(say("Done."))
    model = ScriptedModel([say("Again.")])
    async with memory_runtime(model=model, agents=[shop.agent], place=shop.place) as runtime:
        await runtime.chat("And it?", agent="clerk", session=reply.session)
    assert [each.content for each in model.requests[0].messages] == [
        "Refund X",
        "Done.",
        "And X?",
    ]


async def test_a_refused_message_ends_the_task_and_leaves_the_history() -> None:
    async def picky(message: Any) -> Any:
        return Refuse("Not here.") if "Refund" in message.text else message

    shop = Shop(hook(on_input=picky))
    reply, model = await shop.chat()
    assert reply.error is not None
    assert (reply.status, reply.error.code, reply.error.message) == (
        "failed",
        "HOOK_REFUSED",
        "Not here.",
    )
    assert model.requests == []
    model = ScriptedModel([say("Hello.")])
    async with memory_runtime(model=model, agents=[shop.agent], place=shop.place) as runtime:
        await runtime.chat("Hello", agent="clerk", session=reply.session)
    assert [each.content for each in model.requests[0].messages] == ["Hello"]


async def long(output: Any) -> None:
    if len(output) < 5:
        raise ModelRetry("Say more.")


async def test_an_output_is_sent_back_a_bounded_number_of_times() -> None:
    shop = Shop(hook(on_output=long))
    reply, model = await shop.chat(say("a"), say("b"), say("at last"))
    assert reply.content == "at last"
    said = [each.content for each in model.requests[-1].messages]
    assert said == ["Refund it", "a", "Say more.", "b", "Say more."]
    reply, _ = await Shop(hook(on_output=long)).chat(*[say("a")] * 3)
    assert reply.error is not None
    assert reply.error.message == (
        "the hook 'watch' asked the model again 3 times; the last time because: Say more."
    )


# ---- dependencies ------------------------------------------------------------------------------


class Policy(Hooks[dict[str, int]]):
    """Refuses amounts above the one in the dependencies."""

    async def before_call(self, ctx: AgentContext[dict[str, int]], call: ToolCall) -> Any:
        return call if call.input["amount"] <= ctx.deps["most"] else Refuse("It is too much.")


async def test_a_hook_receives_the_dependencies_of_its_agent() -> None:
    for most, said in ((100, "It is too much."), (200, "refunded 120")):
        agent = Agent("clerk", tools=[refunded], hooks=[Policy()]).with_deps({"most": most})
        model = ScriptedModel([call("refunded", amount=120), say("Done.")])
        async with memory_runtime(model=model, agents=[agent]) as runtime:
            await runtime.chat("Refund it", agent=agent)
        assert said in told(model)


def refunded(amount: int) -> str:
    """Refund an amount."""
    return f"refunded {amount}"


# ---- output functions --------------------------------------------------------------------------


class Desk:
    """An agent whose output is what a function returns."""

    def __init__(self, on_output: Method, **more: Any) -> None:
        self.booked: list[int] = []
        self.seen: list[Any] = []

        def book(nights: int) -> dict[str, int]:
            """Book a room."""
            self.booked.append(nights)
            return {"nights": nights}

        async def noted(output: Any) -> Any:
            self.seen.append(output)
            return await on_output(output)

        watch = hook(on_output=noted, **more)
        self.agent = Agent(
            "desk", output=book, hooks=[watch], settings=ChatSettings(budget_seconds=5)
        )

    async def chat(self, *nights: int) -> Reply[Any]:
        """Send a message; the model books for so many nights, one call after the other."""
        model = ScriptedModel([call("final_answer", nights=each) for each in nights])
        async with memory_runtime(model=model, agents=[self.agent]) as runtime:
            return await runtime.chat("Book it", agent=self.agent)


async def short(output: Any) -> None:
    if output["nights"] > 3:
        raise ModelRetry("At most three nights.")


async def test_the_output_of_a_function_is_what_it_returned() -> None:
    """library.md 2.1: its return value is the output. The hook sees it after the function ran."""
    desk = Desk(short)
    reply = await desk.chat(9, 2)
    assert (reply.output, desk.seen) == ({"nights": 2}, [{"nights": 9}, {"nights": 2}])
    assert desk.booked == [9, 2]
    assert [each.error for each in reply.calls] == ["At most three nights.", None]


async def test_an_edited_outcome_is_the_output_that_the_hook_sees() -> None:
    async def doubled(each: Any, envelope: Envelope) -> Envelope:
        return replace(envelope, output={"nights": 2 * envelope.output["nights"]})

    desk = Desk(short, after_call=doubled)
    reply = await desk.chat(1)
    assert (reply.output, desk.seen, desk.booked) == ({"nights": 2}, [{"nights": 2}], [1])


@pytest.mark.parametrize(
    ("on_output", "said"),
    [
        (raising, "the hook 'watch' failed in on_output: ValueError: no list"),
        (refused, "the hook 'watch' failed in on_output: it may not return Refuse"),
    ],
)
async def test_a_hook_that_fails_about_an_output_ends_the_task(
    on_output: Method, said: str
) -> None:
    """The function has run, so a model that goes on would run it again."""
    desk = Desk(on_output)
    reply = await desk.chat(1, 2)
    assert reply.error is not None
    assert (reply.error.code, reply.error.message, desk.booked) == ("HOOK_FAILED", said, [1])


async def test_the_output_of_a_function_is_sent_back_a_bounded_number_of_times() -> None:
    desk = Desk(short)
    reply = await desk.chat(9, 8, 7)
    assert reply.error is not None
    assert (reply.status, desk.booked) == ("failed", [9, 8, 7])


async def test_calls_inside_of_an_output_function_are_no_outputs() -> None:
    seen: list[Any] = []

    async def noted(output: Any) -> None:
        seen.append(output)

    @tool(effect="read", direct_call=True)
    def rate() -> int:
        """Return the rate."""
        return 7

    @tool
    async def book(ctx: ToolContext, nights: int) -> int:
        """Book a room."""
        found: int = (await ctx.call("rate")).output
        return nights * found

    agent = Agent("desk", output=book, tools=[rate], hooks=[hook(on_output=noted)])
    model = ScriptedModel([call("final_answer", nights=2)])
    async with memory_runtime(model=model, agents=[agent]) as runtime:
        reply = await runtime.chat("Book it", agent=agent)
    assert (reply.output, seen) == (14, [14])


async def test_a_hook_that_never_returns_about_the_output_of_a_function_is_named() -> None:
    desk = Desk(hanging)
    desk.agent.settings = ChatSettings(budget_seconds=0.05)
    reply = await desk.chat(1)
    assert reply.error is not None
    assert "the hook 'watch' did not return from on_output" in reply.error.message
