"""Runs: their events from the beginning, live and from the log, until nothing moves."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from penstock.chat.python.public_events import (
    Answered,
    Asked,
    Ended,
    Event,
    Notice,
    Text,
    Thinking,
    ToolCalled,
    ToolReturned,
)
from penstock.chat.python.run import Run
from penstock.core.call import Effect
from penstock.core.errors import InvalidRequest, NotFound, NotReady, RuntimeMisuse
from penstock.core.limits import Limits
from penstock.models.scripted import Hold, ScriptedModel, call, fail, say, think, wait
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.python.context import ToolContext
from penstock.tools.python.function import tool
from tests.kit.tools import Act, echo

Runs = Run[str]


async def text_of(run: Runs) -> str:
    """Return the text that a run yields."""
    return "".join([text async for text in run.text()])


async def kinds(run: Runs) -> list[str]:
    """Return the kinds of the events that a run yields."""
    return [type(event).__name__ async for event in run]


@pytest.mark.parametrize("is_late", [False, True])
async def test_each_iteration_has_every_event_from_the_beginning(*, is_late: bool) -> None:
    model = ScriptedModel([think("Hm.") + say("I look. ") + call("act", a=1), say("It is fine.")])
    async with memory_runtime(model=model, tools=[Act("act", echo)]) as runtime:
        run = await runtime.start("Go")
        if is_late:
            await run.reply()
        first = [event async for event in run]
        again = [event async for event in run]
    assert first == again
    thinking, text, called, returned, *rest = first
    assert (thinking, text) == (Thinking("Hm."), Text("I look. "))
    assert isinstance(called, ToolCalled)
    assert isinstance(returned, ToolReturned)
    assert (called.name, called.input, called.depth) == ("act", {"a": 1}, 0)
    assert (returned.call.id, returned.call.output) == (called.call_id, {"a": 1})
    assert rest == [Text("It is fine."), Ended("succeeded")]


async def test_a_run_yields_text_before_its_reply_is_complete() -> None:
    hold = Hold()
    model = ScriptedModel([say("One, ") + wait(hold) + say("two.")])
    async with memory_runtime(model=model) as runtime:
        run = await runtime.start("Count")
        pieces = run.text()
        first = await anext(pieces)
        hold.release()
        assert [first, *[text async for text in pieces]] == ["One, ", "two."]


async def test_leaving_an_iteration_does_not_end_the_task() -> None:
    model = ScriptedModel([say("One, ", "two, ", "three.")])
    async with memory_runtime(model=model) as runtime:
        run = await runtime.start("Count")
        async for _ in run:
            break
        assert (await run.reply()).output == "One, two, three."
        assert await text_of(run) == "One, two, three."


async def test_calls_inside_a_tool_have_its_name_as_their_path() -> None:
    @tool(effect="none", direct_call=True)
    def inner(n: int) -> int:
        """Return a number."""
        return n

    @tool(effect="none")
    async def outer(ctx: ToolContext, n: int) -> int:
        """Call another tool."""
        return int((await ctx.call("inner", {"n": n})).output)

    model = ScriptedModel([call("outer", n=1), say("Done.")])
    async with memory_runtime(model=model, tools=[inner, outer]) as runtime:
        run = await runtime.start("Go")
        returned = [event async for event in run if isinstance(event, ToolReturned)]
    assert [(each.call.tool, each.call.output, each.depth, each.path) for each in returned] == [
        ("inner", 1, 1, ("outer",)),
        ("outer", 1, 0, ()),
    ]


def asking_twice() -> ScriptedModel:
    """Return a model that calls a tool with an approval twice."""
    twice = [say(f"{n}. ") + call("send", to=n) for n in ("I", "II")]
    return ScriptedModel([*twice, say("Sent.")])


SEND = Act("send", echo, requires_approval=True, effect=Effect.WRITE)


async def test_an_iteration_ends_at_a_question_and_a_later_one_passes_it() -> None:
    async with memory_runtime(model=asking_twice(), tools=[SEND]) as runtime:
        run = await runtime.start("Go")
        for expected in ("I. ", "I. II. "):
            assert await text_of(run) == expected
            assert await text_of(run) == expected
            last = (await kinds(run))[-2:]
            assert last == ["Asked", "Ended"]
            reply = await run.reply()
            assert reply.status == "suspended"
            await run.approve(reply.questions[0])
        assert await text_of(run) == "I. II. Sent."


async def test_an_answer_in_the_loop_keeps_the_iteration_going() -> None:
    async with memory_runtime(model=asking_twice(), tools=[SEND]) as runtime:
        run, seen = await runtime.start("Go"), list[Event]()
        async for event in run:
            seen.append(event)
            if isinstance(event, Asked):
                await run.approve(event.question)
    answered = [event.question for event in seen if isinstance(event, Answered)]
    assert [question.input for question in answered] == [{"to": "I"}, {"to": "II"}]
    assert seen[-2:] == [Text("Sent."), Ended("succeeded")]


async def test_an_iteration_can_wait_for_the_answers_of_others() -> None:
    async with memory_runtime(model=asking_twice(), tools=[SEND]) as runtime:
        run = await runtime.start("Go")

        async def somebody() -> None:
            for _ in range(2):
                reply = await run.reply()
                await runtime.approve(reply.questions[0].id)

        answering = asyncio.ensure_future(somebody())
        seen = [event async for event in run.events(wait_for_answers=True)]
        await answering
    assert seen[-1] == Ended("succeeded")


async def test_the_answer_of_a_command_is_text() -> None:
    async with memory_runtime(tools=[Act("echo", echo, direct_call=True)]) as runtime:
        run = await runtime.start("/call echo a=1")
        assert "a" in await text_of(run)


async def test_a_failed_task_ends_its_iteration() -> None:
    async with memory_runtime(model=ScriptedModel([fail(401)])) as runtime:
        run = await runtime.start("Go")
        assert [event async for event in run] == [Ended("failed")]
        assert await text_of(run) == ""


async def test_a_reply_that_starts_again_is_announced() -> None:
    model, clock = ScriptedModel([say("One, ") + fail(503), say("One, two.")]), FakeClock()
    async with memory_runtime(model=model, place=MemoryStorage(clock=clock)) as runtime:
        run = await runtime.start("Count")
        await clock.elapse(1)
        await run.reply()
        seen = [event async for event in run]
    notices = [event.code for event in seen if isinstance(event, Notice)]
    assert notices in ([], ["REPLY_RESTARTED"])
    assert seen[-2:] == [Text("One, two."), Ended("succeeded")]


async def test_an_attached_run_reads_a_task_of_another_process() -> None:
    place, model = MemoryStorage(), ScriptedModel([say("Hi.")])
    async with memory_runtime(model=model, place=place) as runtime:
        task_id = (await runtime.start("Hello")).task_id
        await runtime.attach(task_id).reply()
    async with memory_runtime(model=model, place=place) as runtime:
        run = runtime.attach(task_id)
        with pytest.raises(RuntimeMisuse, match="await"):
            assert run.session
        assert await text_of(run) == "Hi."
        reply = await run.reply()
        assert (reply.output, reply.session) == ("Hi.", run.session)


async def test_an_unknown_task_is_not_found_when_it_is_read() -> None:
    async with memory_runtime() as runtime:
        run = runtime.attach("task_nobody")
        for reading in (run.reply(), text_of(run), run.cancel()):
            with pytest.raises(NotFound):
                await reading


async def test_waiting_has_a_limit_and_cancelling_ends_the_task() -> None:
    hold = Hold()
    place = MemoryStorage(limits=Limits(shutdown_seconds=0))
    async with memory_runtime(
        model=ScriptedModel([say("One") + wait(hold)]), place=place
    ) as runtime:
        run = await runtime.start("Count")
        with pytest.raises(TimeoutError, match="it continues"):
            await run.reply(timeout=0)
        await run.cancel()
        reply = await run.reply()
        await run.cancel()
    assert reply.status == "cancelled"


async def test_an_iteration_fails_when_the_runtime_is_closed_under_it() -> None:
    hold = Hold()
    place = MemoryStorage(limits=Limits(shutdown_seconds=0))
    async with memory_runtime(
        model=ScriptedModel([say("One") + wait(hold)]), place=place
    ) as runtime:
        run = await runtime.start("Count")
        await hold.reached()
        reading = asyncio.ensure_future(text_of(run))
        await asyncio.wait({asyncio.ensure_future(anext(run.text()))})
    with pytest.raises(NotReady, match="attach"):
        await reading


async def test_a_run_refuses_what_would_not_work() -> None:
    async with memory_runtime(model=ScriptedModel([say("Hi.")])) as runtime:
        run = await runtime.start("Hello")
        with pytest.raises(RuntimeMisuse, match="async for event in run"):
            iter(run)
        with pytest.raises(RuntimeMisuse, match="no `async with`"):
            async with run:
                pass
        assert "task_" in repr(run)


async def test_a_run_can_be_read_without_awaiting_its_start() -> None:
    async with memory_runtime(model=ScriptedModel([say("One."), say("Two.")])) as runtime:
        assert [event async for event in runtime.start("Hello")] == [
            Text("One."),
            Ended("succeeded"),
        ]
        started = asyncio.create_task(runtime.start("Hello"))
        assert (await (await started).reply()).output == "Two."


async def test_a_start_that_is_not_awaited_sends_nothing_and_says_what_to_write() -> None:
    async with memory_runtime() as runtime:
        with pytest.raises(RuntimeMisuse, match=r"or use penstock.open_sync in a program"):
            iter(runtime.start("Hello"))
        with pytest.raises(
            RuntimeMisuse, match=r"write `run = await runtime.start\(...\)` and `as"
        ):
            async with runtime.start("Hello"):
                pass
        runtime.start("Hello").close()
        with pytest.raises(InvalidRequest):
            _ = [event async for event in runtime.start(" ")]
        with pytest.raises(ZeroDivisionError):
            runtime.start("Hello").throw(ZeroDivisionError())
        assert not await runtime.sessions()


async def test_a_slow_reader_loses_nothing() -> None:
    """More pieces than the queue of a reader holds arrive while it does not read."""
    pieces = [f"{n} " for n in range(600)]
    model = ScriptedModel([say(*pieces)])
    async with memory_runtime(model=model) as runtime:
        run = await runtime.start("Count")
        reading: AsyncIterator[str] = run.text()
        first = await anext(reading)
        await run.reply()
        rest = [text async for text in reading]
    assert "".join([first, *rest]) == "".join(pieces)


async def test_two_messages_of_one_conversation_have_events_of_their_own() -> None:
    model = ScriptedModel([say("One."), say("Two.")])
    async with memory_runtime(model=model) as runtime:
        one = await runtime.start("First")
        two = await runtime.start("Second", session=one.session)
        first, second = await asyncio.gather(text_of(one), text_of(two))
    assert (first, second) == ("One.", "Two.")
