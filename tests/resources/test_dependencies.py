"""Live objects of a program: made once for each activation, closed at its end, never recorded."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any

import pytest

from penstock import Agent, Depends, TaskScope, ToolContext, tool
from penstock.core.call_errors import ToolNotConfigured
from penstock.core.errors import ConfigError
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.core.profile import LOCAL_PROFILE
from penstock.models.scripted import ScriptedModel, call, say
from penstock.resources.dependencies import (
    AgentContext,
    Dependencies,
    DepsSource,
    GivenDeps,
    given_deps,
)
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.flows import finish, flows_of, run_in, steps, worker

SCOPE = TaskScope(profile=LOCAL_PROFILE, session="conv_1", task_id="task_1", agent="clerk")


class Pool:
    """Something that lives in a program."""

    def __init__(self, name: str = "pool") -> None:
        self.name = name
        self.is_open = True


class BigPool(Pool):
    """A larger pool."""


class Mailer:
    """Something else."""


class Activation:
    """An activation that a test ends."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], object]] = []

    def when_left(self, callback: Callable[[], object]) -> None:
        self.callbacks.append(callback)

    def leave(self) -> None:
        for callback in self.callbacks:
            callback()


def with_factory(factory: Callable[..., Any], **overrides: Any) -> Dependencies:
    given = GivenDeps(DepsSource(factory=factory))
    return Dependencies(given, of_agent=lambda name: None)


MADE: list[str] = []


@asynccontextmanager
async def managed(scope: TaskScope) -> AsyncGenerator[Pool]:
    MADE.append(f"open {scope.task_id}")
    yield Pool(scope.agent)
    MADE.append(f"close {scope.task_id}")


async def coroutine(scope: TaskScope) -> Pool:
    MADE.append("coroutine")
    return Pool(scope.agent)


def plain(scope: TaskScope) -> Pool:
    return Pool(scope.agent)


def without_scope() -> Pool:
    return Pool("none")


@pytest.mark.parametrize("factory", [managed, coroutine, plain, without_scope, Pool])
async def test_each_form_of_a_factory_gives_the_object(factory: Callable[..., Any]) -> None:
    made, hold = with_factory(factory), Activation()
    pool = await made.deps(hold, SCOPE)
    assert isinstance(pool, Pool)
    assert await made.deps(hold, SCOPE) is pool, "made once for an activation"
    assert await made.deps(Activation(), SCOPE) is not pool
    hold.leave()


async def test_what_was_made_is_closed_when_the_activation_ends() -> None:
    MADE.clear()
    made, hold = with_factory(managed), Activation()
    await asyncio.gather(*(made.deps(hold, SCOPE) for _ in range(3)))
    assert MADE == ["open task_1"]
    hold.leave()
    await made.close()
    assert MADE == ["open task_1", "close task_1"]


async def test_a_caller_that_is_cancelled_leaves_the_object_to_the_others() -> None:
    ready = asyncio.Event()

    async def slow() -> Pool:
        await ready.wait()
        return Pool()

    made, hold = with_factory(slow), Activation()
    one, two = (asyncio.ensure_future(made.deps(hold, SCOPE)) for _ in range(2))
    await asyncio.sleep(0)  # noqa: TID251  lets both begin to wait
    one.cancel()
    ready.set()
    assert isinstance(await two, Pool)
    hold.leave()


async def test_a_factory_that_failed_is_called_again() -> None:
    calls: list[int] = []

    def fails_once() -> Pool:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("no route")
        return Pool()

    made, hold = with_factory(fails_once), Activation()
    with pytest.raises(OSError, match="no route"):
        await made.deps(hold, SCOPE)
    assert isinstance(await made.deps(hold, SCOPE), Pool)
    hold.leave()


async def test_a_failure_at_closing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @asynccontextmanager
    async def broken() -> AsyncIterator[Pool]:
        yield Pool()
        raise OSError("stuck")

    made, hold = with_factory(broken), Activation()
    await made.deps(hold, SCOPE)
    hold.leave()
    await made.close()
    assert "a dependency could not be closed" in caplog.text


async def test_the_dependencies_of_an_agent_win_over_those_of_the_runtime() -> None:
    own = DepsSource("own")
    made = Dependencies(
        GivenDeps(DepsSource("shared")), of_agent=lambda name: own if name == "clerk" else None
    )
    assert await made.deps(Activation(), SCOPE) == "own"
    other = TaskScope(profile=LOCAL_PROFILE, session="s", task_id="t", agent="other")
    assert await made.deps(Activation(), other) == "shared"


async def test_without_dependencies_a_tool_that_needs_some_is_told_what_to_write() -> None:
    nothing = Dependencies(of_agent=lambda name: None)
    with pytest.raises(ToolNotConfigured, match="pass deps= or deps_factory= to penstock"):
        await nothing.deps(Activation(), SCOPE)


async def test_an_override_replaces_a_function_of_depends_by_a_value_or_a_function() -> None:
    for fake in (Pool("fake"), lambda: Pool("fake")):
        given = GivenDeps(None, {without_scope: fake})
        made, hold = Dependencies(given, of_agent=lambda name: None), Activation()
        assert (await made.injected(hold, SCOPE, Depends(without_scope))).name == "fake"
        hold.leave()


def test_the_arguments_of_open_are_checked() -> None:
    assert given_deps({}).shared is None
    assert given_deps({"deps": None}).shared == DepsSource(None)
    with pytest.raises(ConfigError, match="give deps= or deps_factory=, not both"):
        given_deps({"deps": 1, "deps_factory": plain})
    wrong: Any = {"dep": 1}
    with pytest.raises(TypeError, match="there is no argument 'dep'"):
        given_deps(wrong)
    wrong = {"overrides": [plain]}
    with pytest.raises(ConfigError, match=r"a mapping, such as {get_pool: fake_pool}; found \["):
        given_deps(wrong)
    with pytest.raises(ConfigError, match=r"gives plain a function .* nothing: <function _two"):
        given_deps({"overrides": {plain: _two}})


def _two(scope: TaskScope, size: int) -> Pool:
    return Pool(f"{scope.agent} {size}")


def _named(*, size: int) -> Pool:
    return Pool(f"{size}")


@pytest.mark.parametrize(
    ("factory", "found"),
    [(5, "5"), ("pool", "'pool'"), (_two, "<function _two"), (_named, "<function _named")],
)
def test_a_factory_that_no_task_can_call_is_refused_at_once(factory: Any, found: str) -> None:
    for source in (
        lambda: Agent("clerk").with_deps(deps_factory=factory),
        lambda: given_deps({"deps_factory": factory}),
    ):
        with pytest.raises(ConfigError, match=f"takes a function of .* found {found}"):
            source()


@pytest.mark.parametrize(
    "factory", [plain, dict, partial(_two, size=2), lambda *given: given, lambda scope, size=1: 0]
)
def test_a_factory_may_take_the_scope_or_nothing(factory: Any) -> None:
    shared = given_deps({"deps_factory": factory}).shared
    assert shared is not None
    assert shared.factory is factory


@pytest.mark.parametrize(
    ("given", "factory"), [((), None), ((1, 2), None), ((1,), plain), ((None,), plain)]
)
def test_an_agent_gets_its_dependencies_in_one_way(given: tuple[Any, ...], factory: Any) -> None:
    with_deps: Any = Agent("clerk").with_deps
    with pytest.raises(ConfigError, match="with_deps takes the dependencies, or deps_factory="):
        with_deps(*given, deps_factory=factory)


def test_depends_takes_a_function() -> None:
    wrong: Any
    for wrong in (3, _two, _named):
        with pytest.raises(TypeError, match="Depends takes a function of a TaskScope or nothing"):
            Depends(wrong)
    assert repr(Depends(plain)) == "Depends(plain)"


def test_a_context_without_a_type_has_no_deps() -> None:
    with pytest.raises(TypeError, match=r"write AgentContext\[Pool\] for the context"):
        _ = AgentContext(SCOPE).deps


@tool(effect="read")
async def look(ctx: ToolContext[Pool], key: str) -> str:
    """Look up a key."""
    assert ctx.deps.is_open
    return f"{key} of {ctx.deps.name} for {ctx.agent} in {ctx.session == ctx.session_id}"


@tool(effect="read")
def inject(pool: Annotated[Pool, Depends(managed)], key: str) -> str:
    """Look up a key in what is injected."""
    return f"{key} of {pool.name}"


@tool(effect="write", requires_approval=True)
async def pay(ctx: ToolContext[Pool]) -> str:
    """Pay."""
    return ctx.deps.name


def clerk(*tools: Any, script: Any) -> Agent[Any, str]:
    return Agent("clerk", model=ScriptedModel(script), tools=list(tools))


async def test_a_tool_reads_its_dependencies_and_no_schema_mentions_them() -> None:
    agent = clerk(look, inject, script=[call("look", key="a") + call("inject", key="b"), say("ok")])
    assert list(look.spec.input_schema["properties"]) == ["key"]
    assert list(inject.spec.input_schema["properties"]) == ["key"]
    place = MemoryStorage()
    async with memory_runtime(agents=[agent], deps=Pool("shared"), place=place) as runtime:
        reply = await runtime.chat("Go", agent=agent)
    model: Any = agent.model
    read = [message.content for message in model.requests[1].messages]
    assert read[2:] == ["a of shared for clerk in True", "b of clerk"]
    stored = repr(await place.log.read(LogId(reply.session)))
    assert "Pool" not in stored, "live objects are not recorded"


async def test_a_factory_is_called_again_after_a_question() -> None:
    MADE.clear()
    agent = clerk(look, pay, script=[call("look", key="a") + call("pay"), say("Done.")])
    limits = MemoryStorage(limits=Limits(shutdown_seconds=0))
    async with memory_runtime(agents=[agent], deps_factory=managed, place=limits) as runtime:
        reply = await runtime.chat("Pay", agent=agent)
        assert reply.status == "suspended"
        (asked,) = reply.questions
        done = await runtime.approve(reply)
        assert asked.tool == "pay"
        assert done.content == "Done."
    one = [f"open {reply.task_id}", f"close {reply.task_id}"]
    assert one * 2 == MADE


async def test_an_agent_may_have_dependencies_of_its_own() -> None:
    agent = clerk(look, script=[call("look", key="a"), say("ok")]).with_deps(Pool("own"))
    async with memory_runtime(agents=[agent]) as runtime:
        await runtime.chat("Go", agent=agent)
    model: Any = agent.model
    assert model.requests[1].messages[2].content.startswith("a of own")


@tool(effect="read")
def inject_too(pool: Annotated[Pool, Depends(managed)]) -> int:
    """Return which object it got."""
    return id(pool)


@tool(effect="read")
def inject_also(pool: Annotated[Pool, Depends(managed)]) -> int:
    """Return which object it got."""
    return id(pool)


@tool(effect="write", requires_approval=True)
def pay_with(pool: Annotated[Pool, Depends(managed)]) -> str:
    """Pay."""
    return pool.name


async def test_what_depends_provides_is_made_once_an_activation_and_closed_at_its_end() -> None:
    MADE.clear()
    script = [call("inject_too") + call("inject_also"), call("inject_too"), call("pay_with")]
    agent = clerk(inject_too, inject_also, pay_with, script=[*script, say("Done.")])
    place = MemoryStorage(limits=Limits(shutdown_seconds=0))
    async with memory_runtime(agents=[agent], place=place) as runtime:
        reply = await runtime.chat("Pay", agent=agent)
        assert len({each.output for each in reply.calls if each.output}) == 1
        assert MADE[:1] == [f"open {reply.task_id}"]
        assert (await runtime.approve(reply)).content == "Done."
    assert [f"open {reply.task_id}", f"close {reply.task_id}"] * 2 == MADE


async def test_tools_of_a_flow_know_its_command_and_those_of_a_conversation_none() -> None:
    seen: list[tuple[str, str]] = []

    async def pool_of(scope: TaskScope) -> Pool:
        seen.append(("scope", scope.flow))
        return Pool()

    @tool(effect="read")
    def where(ctx: ToolContext[Pool]) -> str:
        """Say in which flow it works."""
        seen.append(("context", ctx.flow))
        return ctx.deps.name

    script = [call("where"), finish()]
    place = MemoryStorage(flows=flows_of(demo=steps("  - {id: web, agent: scout, task: web}")))
    tools = [where]
    async with memory_runtime(
        model=ScriptedModel(script),
        agents=[worker("scout", tools=("where",))],
        tools=tools,
        place=place,
        deps_factory=pool_of,
    ) as runtime:
        assert (await run_in(runtime)).output["status"] == "success"
    assert seen == [("scope", "demo"), ("context", "demo")]
    seen.clear()
    agent = clerk(where, script=[call("where"), say("Done.")])
    async with memory_runtime(agents=[agent], deps_factory=pool_of) as runtime:
        await runtime.chat("Go", agent=agent)
    assert seen == [("scope", ""), ("context", "")]
