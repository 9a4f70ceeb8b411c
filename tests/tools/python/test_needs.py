"""Dependencies that are missing or do not fit are found when the project is opened."""

from functools import partial
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
