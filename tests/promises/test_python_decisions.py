"""Decisions of the Python API that no other test shows: what callers keep, and may pass."""

import asyncio
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import anyio.lowlevel
import pytest
from pydantic import BaseModel

from penstock import Agent, RuntimeMisuse, ToolContext, chat_sync, open_sync, tool
from penstock.core.limits import Limits
from penstock.models.scripted import Hold, ScriptedModel, call, say, wait
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.server import served
from tests.kit.tools import Act


class Ticket(BaseModel):
    """What was reported."""

    title: str


async def test_the_schema_of_a_message_replaces_the_output_function_of_its_agent() -> None:
    """The function does not run: only the schema is stored, so a restart needs no code for it."""
    filed: list[str] = []

    def file_report(title: str) -> int:
        """File a report."""
        filed.append(title)
        return len(filed)

    model = ScriptedModel([call("final_answer", title="a"), call("final_answer", title="b")])
    clerk: Agent[Any, int] = Agent("clerk", model=model, output=file_report)
    async with memory_runtime(agents=[clerk]) as runtime:
        own = await runtime.chat("Go", agent=clerk)
        typed = await runtime.chat("Go", agent=clerk, output=Ticket)
    assert (own.output, typed.output, filed) == (1, Ticket(title="b"), ["a"])


async def test_cancelling_the_await_of_a_chat_does_not_cancel_its_task() -> None:
    hold = Hold()
    clerk: Agent[Any, str] = Agent("clerk", model=ScriptedModel([wait(hold) + say("Done.")]))
    async with memory_runtime(agents=[clerk]) as runtime:
        run = await runtime.start("Go", agent=clerk)
        waiting = asyncio.create_task(run.reply())
        await hold.reached()
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        hold.release()
        assert (await run.reply()).output == "Done."


async def test_the_usage_of_a_cancelled_task_is_in_its_reply() -> None:
    hold = Hold()
    script = [call("look"), wait(hold) + say("Late.")]
    clerk: Agent[Any, str] = Agent("clerk", model=ScriptedModel(script), tools=[Act("look")])
    place = MemoryStorage(limits=Limits(shutdown_seconds=0))
    async with memory_runtime(agents=[clerk], place=place) as runtime:
        run = await runtime.start("Go", agent=clerk)
        await hold.reached()
        await run.cancel()
        reply = await run.reply()
    assert (reply.status, [each.tool for each in reply.calls]) == ("cancelled", ["look"])
    assert (reply.usage.model_calls, reply.usage.tool_calls) == (1, 1)


async def test_a_question_survives_pickling_and_is_answered_by_its_copy() -> None:
    model = ScriptedModel([call("pay"), say("Paid.")])
    pay = Act("pay", requires_approval=True)
    clerk: Agent[Any, str] = Agent("clerk", model=model, tools=[pay])
    async with memory_runtime(agents=[clerk]) as runtime:
        reply = await runtime.chat("Pay", agent=clerk)
        (question,) = pickle.loads(pickle.dumps(reply.questions))  # noqa: S301  our own bytes
        assert question == reply.questions[0]
        await runtime.approve(question)
        assert (await runtime.wait(reply)).output == "Paid."


@tool(effect="read")
def price(ctx: ToolContext[dict[str, int]], item: str) -> int:
    """Return a price."""
    return ctx.deps[item]


async def test_http_serves_an_agent_with_dependencies() -> None:
    """The value may be a dict: only `deps_factory` is called."""
    model = ScriptedModel([call("price", item="tea"), say("It is 250.")])
    clerk: Agent[Any, str] = Agent("clerk", tools=[price]).with_deps({"tea": 250})
    async with served(model=model, agents=[clerk]) as server:
        await server.client.post("/api/agents/clerk/chat", json={"content": "Tea?"})
    assert model.requests[1].messages[-1].content == "250"


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"model": ScriptedModel([])}, r"model of a message must be a text.*Agent\(model="),
        ({"session": object()}, "session of a message must be a text"),
        ({"key": 7}, "key of a message must be a text"),
        ({"hooks": []}, "there is no option 'hooks' of a message"),
        ({"tools": []}, "there is no option 'tools' of a message"),
        ({"deps": 1}, "there is no option 'deps' of a message"),
    ],
)
async def test_a_message_carries_data_only(option: dict[str, Any], said: str) -> None:
    """It must be known after a restart."""
    clerk: Agent[Any, str] = Agent("clerk", model=ScriptedModel([say("Done.")]))
    async with memory_runtime(agents=[clerk]) as runtime:
        for verb in (runtime.chat, runtime.start):
            with pytest.raises(RuntimeMisuse, match=said):
                await verb("Go", agent=clerk, **option)


def test_scripts_chat_after_a_closed_loop_and_in_threads(tmp_path: Any) -> None:
    """The runtime has its own thread and its own loop."""
    asyncio.run(anyio.lowlevel.checkpoint())
    clerk: Agent[Any, str] = Agent("clerk", model=ScriptedModel(lambda request: say("Done.")))

    def ask(number: int) -> str:
        return chat_sync(f"Go {number}", agent=clerk, path=tmp_path).output

    assert ask(0) == "Done."
    with ThreadPoolExecutor(2) as threads:
        assert [*threads.map(ask, range(2))] == ["Done."] * 2
    with open_sync(tmp_path, agents=[clerk]) as runtime:
        assert runtime.chat("Go", agent=clerk).output == "Done."
