"""Dependencies that are missing or do not fit are found when the project is opened."""

from typing import Annotated, Any

import pytest

from penstock import Agent, AgentContext, Depends, TaskScope, ToolContext, tool
from penstock.core.errors import ConfigError
from penstock.testing.runtime import memory_runtime
from tests.kit.tools import Act


class Pool:
    """Something that lives in a program."""


class BigPool(Pool):
    """A larger one."""


class Mailer:
    """Something else."""


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
    ({"instructions": late_rules}, {}, "the instructions 'late_rules' of agent 'clerk' need deps"),
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


FITS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"tools": [look_up]}, {"deps": BigPool()}),
    ({"tools": [look_up]}, {"deps_factory": pool_of}),
    ({"tools": [look_up]}, {"deps_factory": lambda scope: Pool()}),
    ({"tools": [injected]}, {"overrides": {mailer: BigPool()}}),
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
