"""Toolsets: asked at the start of each task, and refused with a reason if they return no tools."""

import asyncio
import threading
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from anyio.lowlevel import checkpoint

from penstock import Agent, AgentContext, Depends, Profile, Tool, ToolContext, tool
from penstock.core.envelope import Json
from penstock.core.errors import ConfigError
from penstock.core.events.events import TaskStarted
from penstock.core.limits import Limits
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.invocation import Invocation
from penstock.tools.spec import ToolSpec
from tests.kit.logs import events


@tool(effect="read")
def stock(item: str) -> str:
    """Say how many are left."""
    return f"3 of {item}"


@tool(effect="read")
def price(item: str) -> str:
    """Say what it costs."""
    return f"{item} costs 2"


class Pool:
    """Something that lives in a program."""

    name = "pool"


class Shop:
    """A toolset with the given tools, which counts how often it is asked."""

    def __init__(self, *given: Any) -> None:
        self.given = given
        self.asked: list[AgentContext[Any]] = []

    def tools(self, ctx: AgentContext[object]) -> list[Tool[object]]:
        self.asked.append(ctx)
        return list(self.given)


class LateShop(Shop):
    """A toolset that has to ask a server first."""

    async def tools(self, ctx: AgentContext[object]) -> list[Tool[object]]:  # type: ignore[override]
        await checkpoint()
        return super().tools(ctx)


def names(model: ScriptedModel) -> list[list[str]]:
    return [[each.name for each in request.tools] for request in model.requests]


@pytest.mark.parametrize("kind", [Shop, LateShop])
async def test_a_toolset_is_asked_once_for_each_task_and_its_tools_are_offered_and_run(
    kind: type[Shop],
) -> None:
    shop = kind(stock)
    model = ScriptedModel([call("stock", item="tea"), say("Three."), say("Again.")])
    clerk = Agent("clerk", model=model, tools=[price, shop])
    async with memory_runtime(agents=[clerk]) as runtime:
        reply = await runtime.chat("Hi", agent=clerk, metadata={"shop": "north"})
        await runtime.chat("Again", agent=clerk, session=reply.session)
        started = [e for e in await events(runtime, reply.session) if isinstance(e, TaskStarted)]
    assert reply.calls[0].output == "3 of tea"
    assert names(model) == [["price", "stock"]] * 3
    assert [each.offered for each in started] == [("price", "stock")] * 2
    assert len(shop.asked) == 2
    ctx = shop.asked[0]
    assert (ctx.agent, ctx.session, ctx.task_id) == ("clerk", reply.session, reply.task_id)
    assert (ctx.metadata, ctx.profile.profile_id) == ({"shop": "north"}, "local")


async def test_each_task_has_the_tools_that_its_toolset_chooses_for_it() -> None:
    class ByProfile:
        def tools(self, ctx: AgentContext[object]) -> list[Tool[object]]:
            return [stock] if ctx.profile.profile_id == "ann" else [price]

    calls = [call("stock", item="tea"), say("Done."), call("stock", item="tea"), say("Done.")]
    clerk = Agent("clerk", model=(model := ScriptedModel(calls)), tools=[ByProfile()])
    async with memory_runtime(agents=[clerk]) as runtime:
        ann = await runtime.chat("Hi", agent=clerk, profile=Profile.named("ann"))
        bob = await runtime.chat("Hi", agent=clerk, profile=Profile.named("bob"))
    assert [names(model)[0], names(model)[2]] == [["stock"], ["price"]]
    assert ann.calls[0].output == "3 of tea"
    refused = bob.calls[0].envelope
    error = None if refused is None else refused.error
    assert error
    assert (error.code, "There is no tool 'stock'" in error.message) == ("TOOL_NOT_FOUND", True)


async def test_tasks_at_the_same_time_have_tools_of_their_own() -> None:
    made: list[Tool[object]] = []

    class Numbered:
        def tools(self, ctx: AgentContext[object]) -> list[Tool[object]]:
            number = len(made)

            @tool(effect="none", id="number")
            def number_of() -> int:
                """Return the number of the task."""
                return number

            made.append(number_of)
            return [number_of]

    model = ScriptedModel({"Hi": [call("number"), say("Done.")]})
    clerk = Agent("clerk", model=model, tools=[Numbered()])
    async with memory_runtime(agents=[clerk]) as runtime:
        replies = await asyncio.gather(*(runtime.chat("Hi", agent=clerk) for _ in range(5)))
    assert sorted(reply.calls[0].output for reply in replies) == [0, 1, 2, 3, 4]


async def test_a_plain_toolset_runs_in_a_thread_and_may_return_functions() -> None:
    threads: list[int] = []

    def weight(item: str) -> str:
        """Say how heavy it is."""
        return f"{item}: 1 kg"

    class Plain:
        def tools(self, ctx: AgentContext[object]) -> Any:
            threads.append(threading.get_ident())
            return (weight,)

    model = ScriptedModel([call("weight", item="tea"), say("Done.")])
    clerk = Agent("clerk", model=model, tools=[Plain()])
    async with memory_runtime(agents=[clerk]) as runtime:
        reply = await runtime.chat("Hi", agent=clerk)
    assert reply.calls[0].output == "tea: 1 kg"
    assert threading.get_ident() not in threads


class PoolShop:
    """A toolset that reads the dependencies."""

    name = "warehouse"

    def tools(self, ctx: AgentContext[Pool]) -> list[Tool[Pool]]:
        deps = ctx.deps

        @tool(effect="read")
        def stock(ctx: ToolContext[Pool]) -> str:
            """Say where it is."""
            return f"{ctx.deps.name} of {deps.name}"

        return [stock]


async def test_a_toolset_gets_the_dependencies_and_so_do_its_tools() -> None:
    model = ScriptedModel([call("stock"), say("Done.")])
    clerk = Agent("clerk", model=model, tools=[PoolShop()])
    async with memory_runtime(agents=[clerk], deps=Pool()) as runtime:
        reply = await runtime.chat("Hi", agent=clerk)
    assert reply.calls[0].output == "pool of pool"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "the toolset 'warehouse' of agent 'clerk' needs deps of type Pool; pass deps= or"),
        ({"deps": 3}, "the toolset 'warehouse' of agent 'clerk' needs deps of type Pool, but deps"),
    ],
)
async def test_a_toolset_without_its_dependencies_is_an_error_when_the_project_is_opened(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        async with memory_runtime(agents=[Agent("clerk", tools=[PoolShop()])], **given):
            pass


@tool(effect="read")
def needy(ctx: ToolContext[Pool]) -> str:
    """Need a pool."""
    return ctx.deps.name


def no_pool() -> int:
    return 3


@tool(effect="read")
def misfit(pool: Annotated[Pool, Depends(no_pool)]) -> str:
    """Need another pool."""
    return pool.name


@tool(effect="read", id="stock")
def other_stock() -> str:
    """Have a name that is taken."""
    return ""


@tool
def wrong(x) -> str:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """Have a parameter without a hint."""
    return str(x)


@tool(id="transfer_to_billing")
def transfer() -> None:
    """Hand off."""


@tool(id="final_answer")
def final() -> None:
    """Answer."""


def raising() -> Any:
    raise KeyError("closed")


class Unspecified:
    """A tool whose specification cannot be read."""

    @property
    def spec(self) -> ToolSpec:
        raise OSError("no such server")

    async def run(self, input: Json, invocation: Invocation) -> Any:
        """Do nothing."""


def foreign(schema: Any) -> Any:
    """Return a tool with a schema from elsewhere."""

    @tool(effect="read", input_schema=schema)
    def ask(input: dict[str, Any]) -> str:
        """Ask."""
        return ""

    return ask


def nested(levels: int) -> Any:
    """Return a schema of so many levels."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


WIDE = {"type": "object", "properties": {"a" * 100_000: {"type": "none"}}}


def shouting() -> Any:
    raise ValueError("x" * 100_000)


BROKEN: dict[str, tuple[Callable[[], Any], str]] = {
    "raises": (raising, "failed: KeyError('closed')"),
    "returns None": (lambda: None, "must return a list of tools, found None"),
    "returns a text": (lambda: "stock", "must return a list of tools, found 'stock'"),
    "returns one tool": (lambda: stock, "must return a list of tools, found <tool 'stock'"),
    "returns a generator": (lambda: (each for each in [stock]), "must return a list of tools"),
    "has a text inside": (lambda: ["stock"], "returned what cannot be a tool: tools= takes"),
    "has a toolset inside": (lambda: [Shop()], "returned what cannot be a tool: tools= takes"),
    "has an agent inside": (lambda: [Agent("a")], "returned <agent 'a'>; list agents in tools="),
    "has a lambda inside": (lambda: [lambda: 1], "cannot be a tool: a lambda has no name"),
    "has a broken tool": (lambda: [wrong], "the parameter 'x' has no type hint"),
    "has a tool without a specification": (lambda: [Unspecified()], "a tool: no such server"),
    "has a schema of 2,000 levels": (lambda: [foreign(nested(2_000))], "must be a JSON Schema"),
    "has a wrong schema of 100 KB": (lambda: [foreign(WIDE)], "must be a JSON Schema"),
    "raises 100 KB": (shouting, "failed: ValueError('xxx"),
    "has one name twice": (lambda: [stock, other_stock], "returned two tools 'stock'; rename"),
    "has a name of the agent": (lambda: [price], "returned 'price', but the agent has another"),
    "has a name of a hand-off": (lambda: [transfer], "returned 'transfer_to_billing', but the"),
    "has the name of the output": (lambda: [final], "returned 'final_answer', but the agent has"),
    "needs what is missing": (lambda: [needy], "the tool 'needy' of agent 'clerk' needs deps of"),
    "needs what does not fit": (lambda: [misfit], "is a Pool, but no_pool returns int"),
}


@pytest.mark.parametrize(("returned", "reason"), BROKEN.values(), ids=list(BROKEN))
@pytest.mark.parametrize("is_late", [False, True])
async def test_a_toolset_that_fails_ends_a_task_that_starts_with_its_name_and_the_reason(
    returned: Callable[[], Any], reason: str, *, is_late: bool
) -> None:
    class Broken:
        def tools(self, ctx: AgentContext[object]) -> Any:
            async def late() -> Any:
                return returned()

            return late() if is_late else returned()

    billing = Agent("billing", model=ScriptedModel([]), output=int)
    clerk = Agent(
        "clerk", model=ScriptedModel([]), output=int, handoffs=[billing], tools=[price, Broken()]
    )
    async with memory_runtime(agents=[clerk, billing]) as runtime:
        reply = await runtime.chat("Hi", agent=clerk)
    assert reply.status == "failed"
    assert reply.error
    assert len(reply.error.message) < 2_500
    assert reply.error.code == "TOOLSET_FAILED"
    assert reply.error.message.startswith("the toolset 'Broken' of agent 'clerk' ")
    assert reason in reply.error.message


class Hanging:
    """A toolset that never returns, and swallows its cancellation."""

    def __init__(self, stuck: asyncio.Event) -> None:
        self.stuck = stuck
        self.entered = asyncio.Event()

    async def tools(self, ctx: AgentContext[object]) -> list[Tool[object]]:
        self.entered.set()
        while not self.stuck.is_set():
            try:
                await self.stuck.wait()
            except asyncio.CancelledError:
                continue
        return []


async def test_a_toolset_that_hangs_ends_the_task_in_time() -> None:
    stuck = asyncio.Event()
    place = MemoryStorage(limits=Limits(toolset_seconds=0.05, shutdown_seconds=0))
    clerk = Agent("clerk", model=ScriptedModel([]), tools=[Hanging(stuck)])
    async with memory_runtime(agents=[clerk], place=place) as runtime:
        reply = await runtime.chat("Hi", agent=clerk)
    assert reply.error
    limit = "0.05 s (limits.toolset_seconds)"
    assert reply.error.message.endswith(f"'clerk' did not return within {limit}")
    stuck.set()


async def test_a_task_whose_toolset_hangs_can_be_cancelled() -> None:
    stuck = asyncio.Event()
    hanging = Hanging(stuck)
    clerk = Agent("clerk", model=ScriptedModel([]), tools=[hanging])
    async with memory_runtime(agents=[clerk]) as runtime:
        run = await runtime.start("Hi", agent=clerk)
        await hanging.entered.wait()
        await run.cancel()
        assert (await run.reply()).status == "cancelled"
    stuck.set()


async def test_an_agent_without_toolsets_starts_its_task_with_its_message() -> None:
    shop = Shop(stock)
    clerk = Agent("clerk", model=ScriptedModel([say("Hi.")]), tools=[price])
    other = Agent("other", model=ScriptedModel([say("Hi.")]), tools=[shop])
    async with memory_runtime(agents=[clerk, other]) as runtime:
        starts = runtime.parts.chat.participants
        assert starts.invoker(clerk) is starts.invoker(clerk)
        await runtime.chat("Hi", agent=clerk)
        assert not shop.asked
        await runtime.chat("Hi", agent=other)
        assert "stock" not in starts.invoker(other).registry


def test_a_toolset_must_be_an_object() -> None:
    with pytest.raises(TypeError, match=r"Pass an object, as in tools=\[Shop\(\)\]"):
        Agent("clerk", tools=[Shop])  # type: ignore[list-item]


async def test_only_agents_have_toolsets() -> None:
    toolset: Any = Shop(stock)
    with pytest.raises(TypeError, match="a toolset belongs to an agent"):
        async with memory_runtime(tools=[toolset]):
            pass
