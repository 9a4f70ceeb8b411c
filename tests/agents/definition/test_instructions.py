"""Instructions that are functions: they run once, and their texts are kept."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock import Agent, AgentContext
from penstock.core.errors import ConfigError
from penstock.core.events.events import PromptResolved
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import memory_runtime
from tests.kit.dying_log import DyingLog, outlived
from tests.kit.logs import events
from tests.kit.tools import Act


class Pool:
    """Something that lives in a program."""


class BigPool(Pool):
    """A larger one."""


CALLS: list[str] = []


def rules(ctx: AgentContext[object]) -> str:
    CALLS.append(ctx.task_id)
    return f"Rule {len(CALLS)} for {ctx.agent}."


async def late_rules(ctx: AgentContext[Pool]) -> str:
    return f"Uses {type(ctx.deps).__name__}."


def systems(model: ScriptedModel) -> list[str]:
    return [request.system.partition("\n\nResults of tools")[0] for request in model.requests]


@pytest.mark.parametrize(
    ("every", "texts"),
    [("conversation", ["Be brief.\n\nRule 1 for clerk."] * 2),
     ("task", ["Be brief.\n\nRule 1 for clerk.", "Be brief.\n\nRule 2 for clerk."])],
)  # fmt: skip
async def test_functions_among_the_instructions_run_once_in_a_conversation_or_task(
    every: Any, texts: list[str]
) -> None:
    CALLS.clear()
    model = ScriptedModel([say("One."), say("Two.")])
    agent = Agent("clerk", model=model, instructions=["Be brief.", rules], instructions_every=every)
    async with memory_runtime(agents=[agent]) as runtime:
        first = await runtime.chat("Hi", agent=agent)
        await runtime.chat("Again", agent=agent, session=first.session)
        found = await events(runtime, first.session)
    assert systems(model) == texts
    recorded = [each for each in found if isinstance(each, PromptResolved)]
    assert [each.agent for each in recorded] == ["clerk"] * len(set(texts))


async def test_another_conversation_runs_them_again() -> None:
    CALLS.clear()
    model = ScriptedModel([say("One."), say("Two.")])
    agent = Agent("clerk", model=model, instructions=rules)
    async with memory_runtime(agents=[agent]) as runtime:
        await runtime.chat("Hi", agent=agent)
        await runtime.chat("Hi", agent=agent)
    assert systems(model) == ["Rule 1 for clerk.", "Rule 2 for clerk."]


async def test_a_task_that_resumes_after_a_crash_sends_the_same_instructions() -> None:
    CALLS.clear()
    clock = FakeClock()
    log = DyingLog(clock, writes=3, before=False)
    model = ScriptedModel({"Go": [call("look"), say("Done.")]})
    agent = Agent("assistant", model=model, instructions=rules)
    await outlived(log, "Go", agents=[agent], tools=[Act("look")])
    assert len(model.requests) >= 2
    assert set(systems(model)) == {"Rule 1 for assistant."}


async def test_instructions_may_be_async_and_read_the_dependencies() -> None:
    model = ScriptedModel([say("One.")])
    agent = Agent("clerk", model=model, deps_type=Pool, instructions=late_rules)
    async with memory_runtime(agents=[agent], deps=BigPool()) as runtime:
        await runtime.chat("Hi", agent=agent)
    assert systems(model) == ["Uses BigPool."]


def broken(ctx: AgentContext[object]) -> str:
    raise KeyError("rules")


def no_text(ctx: AgentContext[object]) -> str:
    return 3  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (broken, "the instructions 'broken' of agent 'clerk' failed: KeyError('rules')"),
        (no_text, "the instructions 'no_text' of agent 'clerk' must return a text, found 3"),
    ],
)
async def test_instructions_that_fail_end_the_task_with_their_name(
    function: Callable[..., str], message: str
) -> None:
    agent = Agent("clerk", model=ScriptedModel([]), instructions=function)
    async with memory_runtime(agents=[agent]) as runtime:
        reply = await runtime.chat("Hi", agent=agent)
    assert reply.status == "failed"
    assert reply.error
    assert (reply.error.code, reply.error.message) == ("SYSTEM_PROMPT_RESOLUTION_FAILED", message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"instructions": 3}, "take texts, and functions .*; found 3"),
        ({"instructions": ["a", 3]}, "take texts, and functions .*; found 3"),
        ({"instructions": lambda: "a"}, "functions with one argument, an AgentContext; found <"),
        ({"instructions_every": "day"}, "must be conversation or task; found 'day'"),
    ],
)
def test_wrong_instructions_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, TypeError), match=message):
        Agent("clerk", **options)
