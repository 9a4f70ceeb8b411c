"""A runtime in memory: opened, used, abandoned, resumed."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio.lowlevel import checkpoint
from msgspec.structs import replace

import penstock
from penstock import Agent, Hooks, tool
from penstock.core.errors import ConfigError, NotReady, PenstockError, RuntimeMisuse
from penstock.core.limits import Limits
from penstock.core.task import TaskStatus
from penstock.models.scripted import Hold, ScriptedModel, call, say, wait
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import (
    MemoryStorage,
    allow_models,
    memory_runtime,
)
from penstock.testing.sync_runtime import memory_runtime_sync
from tests.kit.asking import ask
from tests.kit.assistant import agent
from tests.kit.questions import go_on, mail
from tests.kit.tools import Act


async def test_a_chat_without_a_model_is_answered_by_the_one_that_needs_no_key() -> None:
    async with memory_runtime() as runtime:
        reply = await ask(runtime, "Hello")
    assert (reply.status, bool(reply.content)) == (TaskStatus.SUCCEEDED, True)


async def test_tools_agents_and_the_model_are_those_that_were_given() -> None:
    model, look = ScriptedModel([call("look"), say("Seen.")]), Act("look")
    async with memory_runtime(model=model, tools=[look], agents=[agent()]) as runtime:
        reply = await ask(runtime, "Look")
        assert await runtime.parts.storage.blobs.put(b"x")
    assert (reply.content, len(look.runs)) == ("Seen.", 1)


@pytest.mark.parametrize("name", ["openai:gpt-5", "strong", None])
async def test_the_model_answers_for_agents_whatever_model_they_name(name: str | None) -> None:
    clerk = Agent("clerk", model=name, tools=())
    async with memory_runtime(model=ScriptedModel([say("Here.")]), agents=[clerk]) as runtime:
        assert (await runtime.chat("Hello", agent=clerk)).content == "Here."


async def test_an_agent_with_a_model_of_its_own_keeps_it() -> None:
    clerk = Agent("clerk", model=ScriptedModel([say("Mine.")]), tools=())
    async with memory_runtime(model=ScriptedModel([say("Here.")]), agents=[clerk]) as runtime:
        assert (await runtime.chat("Hello", agent=clerk)).content == "Mine."


async def test_no_provider_is_asked() -> None:
    clerk = Agent("clerk", model="openai:gpt-5", tools=())
    async with memory_runtime(agents=[clerk]) as runtime:
        reply = await runtime.chat("Hello", agent=clerk)
    assert "models of providers are not allowed here" in str(reply.error)


class Loud(Hooks):
    """Shouts what people write."""

    async def on_input(self, ctx: Any, message: Any) -> Any:
        return replace(message, text=message.text.upper())


async def test_hooks_watch_all_agents() -> None:
    model, clerk = ScriptedModel([say("One."), say("Two.")]), Agent("clerk")
    async with memory_runtime(model=model, agents=[clerk], hooks=[Loud()]) as runtime:
        await runtime.chat("Hello")
        await runtime.chat("Hello", agent=clerk)
    assert [each.messages[-1].content for each in model.requests] == ["HELLO", "HELLO"]


def test_hooks_of_one_name_are_refused_in_memory_too() -> None:
    with pytest.raises(ConfigError, match="two hooks are named 'Loud'"):
        memory_runtime_sync(hooks=[Loud()], agents=[Agent("clerk", hooks=[Loud()])])


@pytest.fixture
def refused() -> Iterator[None]:
    """Refuse models of providers in one test."""
    allow_models(allowed=False)
    yield
    allow_models(allowed=True)


@pytest.mark.usefixtures("refused")
async def test_no_model_of_a_provider_is_asked_where_none_is_allowed(tmp_path: Path) -> None:
    """library.md 10: any real model call raises; models of the program answer."""
    real = Agent("real", model="anthropic:claude-sonnet-5")
    own = Agent("own", model=ScriptedModel([say("Mine.")]))
    async with penstock.open(tmp_path, agents=[real, own]) as runtime:
        replies = [await runtime.chat("Hello", agent=each) for each in ("own", "assistant", "real")]
        with pytest.raises(ConfigError, match="models of providers are not allowed here"):
            await runtime.chat("Hello", model="openai:gpt-5")
    assert [each.status for each in replies] == ["succeeded", "succeeded", "failed"]
    assert "call allow_models(True)" in str(replies[-1].error)


async def test_a_second_runtime_on_the_same_storage_resumes_the_tasks_of_the_first() -> None:
    place, tool = MemoryStorage(clock=FakeClock()), mail()
    model = ScriptedModel([call("mail", to="ann"), say("Sent.")])
    async with memory_runtime(model=model, tools=[tool], place=place) as first:
        parked = await ask(first, "Mail")
    async with memory_runtime(model=model, tools=[tool], place=place) as second:
        reply = await go_on(second, parked, {"decision": "approve"})
    assert (reply.content, len(tool.runs)) == ("Sent.", 1)


def paying(paid: list[int], **options: Any) -> Agent[object, str]:
    """Return an agent that pays for order 7, and notes it before its own code goes on."""

    @tool(**options)
    async def pay(order: int) -> str:
        """Pay for an order."""
        paid.append(order)
        return f"{order} is paid"

    model = ScriptedModel({"": [call("pay", order=7), say("Done.")]})
    return Agent("clerk", model=model, tools=[pay])


@pytest.mark.parametrize(
    ("after", "status"), [(1, "success"), (2, "failed"), (3, "success"), (4, "success")]
)
@pytest.mark.parametrize("clock", [None, FakeClock()], ids=["system clock", "fake clock"])
async def test_a_runtime_that_a_test_kills_continues_when_it_is_opened_again(
    after: int, status: str, clock: FakeClock | None
) -> None:
    """Killed after the write that starts the call, it may have run: it is interrupted."""
    paid: list[int] = []
    clerk = paying(paid, effect="write")
    async with memory_runtime(agents=[clerk], place=MemoryStorage(clock=clock)) as runtime:
        runtime.kill(after=after)
        if after < 4:
            with pytest.raises(PenstockError):
                await runtime.chat("Pay", agent=clerk, key="order-7")
            with pytest.raises(RuntimeMisuse, match="this runtime is closed"):
                await runtime.chat("Pay", agent=clerk)
        else:
            await runtime.chat("Pay", agent=clerk, key="order-7")
        assert await runtime.reopen() is runtime
        reply = await runtime.chat("Pay", agent=clerk, key="order-7")
    assert [each.status for each in reply.calls] == [status]
    assert reply.output == "Done."
    assert paid == [7] * (status == "success")


@pytest.mark.parametrize("after", [-1, 1.5, True, None, "2"])
async def test_a_number_of_writes_that_cannot_be_is_refused(after: Any) -> None:
    async with memory_runtime() as runtime:
        with pytest.raises(ConfigError, match="after= takes a number of writes, 0 or more, found"):
            runtime.kill(after=after)
        assert (await runtime.chat("Hello")).status == "succeeded"


async def test_a_runtime_that_is_killed_while_it_closes_is_opened_again() -> None:
    """Otherwise the end of the killed one would close the next one."""

    class Killing(ScriptedModel):
        async def close(self) -> None:
            runtime.kill()

    model = Killing({"": [say("One."), say("Two.")]})
    async with memory_runtime(model=model) as runtime:
        await runtime.chat("Hello")
        await runtime.reopen()
        await checkpoint()
        assert (await runtime.chat("Hello")).status == "succeeded"


async def test_a_runtime_that_was_not_killed_is_opened_again_with_its_questions() -> None:
    model, tools = ScriptedModel({"": [call("mail", to="ann"), say("Sent.")]}), [mail()]
    async with memory_runtime(model=model, tools=tools) as runtime:
        asked = await runtime.chat("Mail")
        await runtime.reopen()
        assert (await runtime.approve(asked)).output == "Sent."


async def test_a_closed_runtime_refuses_messages_and_ends_all_waits() -> None:
    hold = Hold()
    place = MemoryStorage(limits=Limits(shutdown_seconds=0))
    async with memory_runtime(model=ScriptedModel([wait(hold)]), place=place) as runtime:
        waits = asyncio.create_task(runtime.chat("Hello"))
        await hold.reached()
    with pytest.raises(NotReady, match="open the project again and attach to it"):
        await waits
    for sent in (runtime.chat("Hello"), runtime.start("Hello")):
        with pytest.raises(RuntimeMisuse, match="this runtime is closed"):
            await sent


async def test_nothing_is_left_running() -> None:
    before = asyncio.all_tasks()
    async with memory_runtime(model=ScriptedModel([say("Hi")])) as runtime:
        await ask(runtime, "Hi")
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("model", ["openai:gpt-5", 5, ScriptedModel])
def test_what_is_no_model_object_is_refused(model: Any) -> None:
    with pytest.raises(ConfigError, match="model= takes a model object, such as Scripted"):
        memory_runtime_sync(model=model)


async def test_the_writes_of_another_runtime_do_not_count() -> None:
    clerk, place = Agent("clerk", model=ScriptedModel({"": [say("Done.")]})), MemoryStorage()
    async with (
        memory_runtime(agents=[clerk], place=place) as runtime,
        memory_runtime(agents=[clerk], place=place) as other,
    ):
        runtime.kill(after=1)
        for _ in range(3):
            assert (await other.chat("Hello", agent=clerk)).output == "Done."
        with pytest.raises(PenstockError):
            await runtime.chat("Hello", agent=clerk)
        await runtime.reopen()
        assert (await runtime.chat("Hello", agent=clerk)).output == "Done."
