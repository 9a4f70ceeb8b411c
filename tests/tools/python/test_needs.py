"""Dependencies that are missing or do not fit are found when the project is opened."""

from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any

import pytest
from msgspec.structs import replace

import penstock
from penstock import Agent, AgentContext, Depends, Hooks, TaskScope, ToolContext, tool
from penstock.core.errors import ConfigError
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.runtime import memory_runtime
from tests.kit.tools import Act


class Pool:
    """Something that lives in a program."""


class BigPool(Pool):
    """A larger one."""


class Mailer:
    """Something else."""


class Watch(Hooks[Pool]):
    """A hook that needs a pool."""

    name = "watch"


class Closer(Watch):
    """A hook of a hook."""

    name = "closer"


def rules(ctx: AgentContext[object]) -> str:
    return f"You are {ctx.agent}."


async def late_rules(ctx: AgentContext[Pool]) -> str:
    return f"Uses {type(ctx.deps).__name__}."


@tool(effect="read")
async def look_up(ctx: ToolContext[Pool], key: str) -> str:
    """Look up a key."""
    return key


def mailer() -> Mailer:
    return Mailer()


@tool(effect="read")
def injected(pool: Annotated[Pool, Depends(mailer)], key: str) -> str:
    """Look up a key."""
    return key


def pool_alone() -> Pool:
    return Pool()


@tool(effect="read")
def fits_alone(pool: Annotated[Pool, Depends(pool_alone)], key: str) -> str:
    """Look up a key."""
    return key


def mailer_of(scope: TaskScope) -> Mailer:
    return Mailer()


def pool_of(scope: TaskScope) -> BigPool:
    return BigPool()


MISSING = "pass deps= or deps_factory= to penstock.open, or use agent.with_deps"
TOOL = "the tool 'look_up' of agent 'clerk' needs deps of type Pool"
WRONG: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"tools": [look_up]}, {}, f"{TOOL}; {MISSING}"),
    ({"tools": [look_up]}, {"deps": Mailer()}, f"{TOOL}, but deps is a Mailer"),
    ({"tools": [look_up]}, {"deps_factory": mailer_of}, f"{TOOL}, but mailer_of returns Mailer"),
    ({"deps_type": BigPool}, {"deps": Pool()}, "has deps_type=BigPool, but deps is a Pool"),
    (
        {"hooks": [Watch()]},
        {},
        f"the hook 'watch' of agent 'clerk' needs deps of type Pool; {MISSING}",
    ),
    ({"hooks": [Closer()]}, {"deps": Mailer()}, "needs deps of type Pool, but deps is a Mailer"),
    ({"instructions": late_rules}, {}, "the instructions 'late_rules' of agent 'clerk' need deps"),
    (
        {"tools": [fits_alone]},
        {"overrides": {pool_alone: mailer}},
        "'pool' of the tool 'fits_alone' of agent 'clerk' is a Pool, but mailer returns Mailer",
    ),
    (
        {"tools": [fits_alone]},
        {"overrides": {pool_alone: Mailer()}},
        "'pool' of the tool 'fits_alone' of agent 'clerk' is a Pool",
    ),
    (
        {"tools": [injected]},
        {},
        "'pool' of the tool 'injected' of agent 'clerk' is a Pool, but mailer returns Mailer",
    ),
]


@pytest.mark.parametrize(("options", "given", "message"), WRONG)
async def test_missing_and_wrong_dependencies_are_found_at_open(
    options: dict[str, Any], given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        async with memory_runtime(agents=[Agent("clerk", **options)], **given):
            pass
    assert message in str(caught.value)


async def test_an_agent_that_is_given_later_is_checked_before_anything_runs() -> None:
    """`chat(agent=obj)` and `put_agent` check as `open` does; nothing is kept of the message."""
    model = ScriptedModel([])
    for options, given, message in WRONG:
        agent: Agent[Any, Any] = Agent("clerk", model=model, **options)
        async with memory_runtime(**given) as runtime:
            for outer in (agent, Agent("outer", tools=[agent]), Agent("first", handoffs=[agent])):
                with pytest.raises(ConfigError) as caught:
                    await runtime.chat("Hi", agent=outer)
                assert message in str(caught.value)
                with pytest.raises(ConfigError):
                    runtime.put_agent(outer)
                assert runtime.requests.known.agents.find(outer.name) is None
            assert await runtime.sessions() == []
    assert not model.requests


async def test_an_agent_that_is_given_later_may_bring_its_dependencies() -> None:
    model = ScriptedModel([call("look_up", key="a"), say("Found.")])
    agent = Agent("clerk", model=model, tools=[look_up]).with_deps(BigPool())
    async with memory_runtime() as runtime:
        assert (await runtime.chat("Hi", agent=agent)).content == "Found."


FITS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"tools": [look_up]}, {"deps": BigPool()}),
    ({"tools": [look_up]}, {"deps_factory": pool_of}),
    ({"tools": [look_up]}, {"deps_factory": lambda scope: Pool()}),
    ({"tools": [injected]}, {"overrides": {mailer: BigPool()}}),
    ({"hooks": [Closer()]}, {"deps": BigPool()}),
    ({"tools": [Act("look")], "instructions": rules}, {}),
]


@pytest.mark.parametrize(("options", "given"), FITS)
async def test_dependencies_that_fit_are_accepted(
    options: dict[str, Any], given: dict[str, Any]
) -> None:
    clerk: Agent[Any, str] = Agent("clerk", **options)
    async with memory_runtime(agents=[clerk], **given) as runtime:
        assert runtime.parts.chat.agents.get("clerk") is clerk


async def test_tools_of_the_project_need_dependencies_too() -> None:
    with pytest.raises(ConfigError, match="the tool 'look_up' of the project needs deps of type"):
        async with memory_runtime(tools=[look_up]):
            pass


class Reader(Hooks[Pool]):
    """Reads the pool about each call."""

    async def on_input(self, ctx: AgentContext[Pool], message: Any) -> Any:
        return replace(message, text=type(ctx.deps).__name__)


@pytest.mark.parametrize(
    ("own", "given", "message"),
    [
        ([Reader()], {}, "the hook 'Reader' of agent 'clerk' needs deps of type Pool; pass deps="),
        (
            [Reader()],
            {"deps": 3},
            "the hook 'Reader' of agent 'clerk' needs deps of",
        ),
        ([], {"hooks": [Reader()]}, "the hook 'Reader' at work for the project needs deps of type"),
        ([], {"hooks": [Reader()], "deps": 3}, "but deps is a int"),
    ],
)
async def test_a_hook_whose_dependencies_are_missing_is_found_at_open(
    own: list[Any], given: dict[str, Any], message: str, tmp_path: Path
) -> None:
    clerk: Agent[Any, str] = Agent("clerk", hooks=own)
    for opening in (memory_runtime, partial(penstock.open, tmp_path)):
        with pytest.raises(ConfigError) as caught:
            async with opening(agents=[clerk], **given):
                pass
        assert message in str(caught.value)


async def test_a_hook_of_the_project_gets_the_dependencies_of_each_agent() -> None:
    model = ScriptedModel(lambda _: say("Done."))
    big = Agent("big").with_deps(BigPool())
    given: dict[str, Any] = {"hooks": [Reader()], "deps": Pool()}
    async with memory_runtime(model=model, agents=[big], **given) as runtime:
        for agent in ("big", "assistant"):
            await runtime.chat("Hello", agent=agent)
    assert [each.messages[-1].content for each in model.requests] == ["BigPool", "Pool"]
    wrong = Agent("wrong").with_deps(3)
    with pytest.raises(ConfigError, match="'Reader' at work for agent 'wrong' needs deps of type"):
        async with memory_runtime(agents=[wrong], **given):
            pass


# ---- hints of functions with an AgentContext ----


class Rules:
    """Instructions in an object, and a toolset."""

    def __call__(self, ctx: AgentContext[Pool]) -> str:
        return f"Uses {type(ctx.deps).__name__}."

    def tools(self, ctx: AgentContext[Pool]) -> list[Any]:
        return []


def logged(function: Any) -> Any:
    """Return a function around another one."""

    @wraps(function)
    async def inner(*given: Any, **named: Any) -> Any:
        return await function(*given, **named)

    return inner


def ends_with(ctx: AgentContext[Pool], end: str) -> str:
    return f"Uses {type(ctx.deps).__name__}{end}"


@pytest.mark.parametrize(
    "instructions", [Rules(), partial(ends_with, end="."), logged(late_rules), late_rules]
)
async def test_the_deps_of_instructions_are_found_around_objects_and_decorators(
    instructions: Any,
) -> None:
    model = ScriptedModel([say("ok")])
    clerk: Agent[Any, Any] = Agent("clerk", model=model, instructions=instructions)
    with pytest.raises(ConfigError, match=r"the instructions .* of agent 'clerk' need deps of"):
        async with memory_runtime(agents=[clerk]):
            pass
    async with memory_runtime(agents=[clerk], deps=Pool()) as runtime:
        await runtime.chat("Go", agent=clerk)
    assert model.requests[0].system.startswith("Uses Pool.\n")


def unreadable() -> tuple[Any, Any]:
    """Return instructions and a toolset whose hints name a class that is imported for checkers."""

    def strange_rules(ctx: AgentContext[Any]) -> str:
        return "None."

    class Shelf:
        def tools(self, ctx: AgentContext[Any]) -> list[Any]:
            return []

    for function in (strange_rules, Shelf.tools):
        function.__annotations__["ctx"] = "AgentContext[Nowhere]"
    return strange_rules, Shelf()


STRANGE_RULES, SHELF = unreadable()
SAID = (
    r"the {what} of agent 'clerk', at .*test_needs\.py:\d+: the hint 'AgentContext\[Nowhere\]' of "
    r"'ctx' cannot be read: name 'Nowhere' is not defined; import it at the top, not under "
    r"`if TYPE_CHECKING:` \(the agent is made at .*test_needs\.py:\d+\)"
)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"instructions": STRANGE_RULES}, "instructions '.*strange_rules'"),
        ({"instructions": ["Be brief.", partial(STRANGE_RULES)]}, "instructions '.*'"),
        ({"tools": [SHELF]}, "toolset 'Shelf'"),
    ],
)
async def test_a_hint_that_cannot_be_read_names_both_places(
    options: dict[str, Any], what: str
) -> None:
    """Not "no deps": the function would fail when a model first needs it."""
    clerk: Agent[Any, Any] = Agent("clerk", **options)
    with pytest.raises(ConfigError, match=SAID.format(what=what)):
        async with memory_runtime(agents=[clerk]):
            pass
    async with memory_runtime() as runtime:
        with pytest.raises(ConfigError, match=SAID.format(what=what)):
            await runtime.chat("Go", agent=clerk)
