"""What a program gives to an agent: instructions that are functions, tools by id, and needs."""

from collections.abc import Callable
from typing import Any

import pytest

import penstock
from penstock import Agent, AgentContext
from penstock.core.errors import ConfigError, NameTaken
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


async def test_an_agent_has_tools_of_the_project_by_their_ids() -> None:
    model = ScriptedModel([call("look"), say("Done.")])
    agent = Agent("clerk", model=model, tools=["look", Act("own")])
    async with memory_runtime(tools=[Act("look"), Act("other")], agents=[agent]) as runtime:
        reply = await runtime.chat("Hi", agent=agent)
    assert reply.content == "Done."
    assert [each.name for each in model.requests[0].tools] == ["own", "look"]


async def test_an_id_that_the_project_lacks_is_refused_when_it_is_opened() -> None:
    agent = Agent("clerk", tools=["lock"])
    with pytest.raises(ConfigError, match=r"agent 'clerk' has the tool 'lock', .* mean 'look'"):
        async with memory_runtime(tools=[Act("look")], agents=[agent]):
            pass


async def test_the_name_of_an_agent_among_the_tools_is_refused_with_what_to_give() -> None:
    clerk, desk = Agent("clerk", tools=["desk"]), Agent("desk")
    with pytest.raises(ConfigError, match=r"the tool 'desk', .* give the Agent itself instead"):
        async with memory_runtime(tools=[Act("look")], agents=[clerk, desk]):
            pass


@pytest.mark.parametrize(
    ("given", "meant"),
    [("output_type", "output"), ("system_prompt", "instructions"), ("guardrails", "hooks")],
)
def test_an_argument_of_another_framework_has_ours_as_a_hint(given: str, meant: str) -> None:
    arguments: dict[str, Any] = {given: ()}
    with pytest.raises(TypeError, match=f"no argument '{given}'. Write '{meant}'"):
        Agent("a", **arguments)


def test_the_name_of_a_model_as_the_first_argument_is_refused_with_the_line_to_write() -> None:
    with pytest.raises(ConfigError, match=r"write Agent\('assistant', model='openai:gpt-5'\)"):
        Agent("openai:gpt-5")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("", "found ''; write Agent('assistant')"),
        (" ", "found ' '; write Agent('assistant')"),
        ("\u00c4 b", "found '\u00c4 b'; write Agent('A-b')"),
        ("a/b", "found 'a/b'; write Agent('a-b')"),
        ("../../x", "found '../../x'; write Agent('x')"),
        ("clerk\n", r"found 'clerk\n'; write Agent('clerk')"),
        ("-clerk", "found '-clerk'; write Agent('clerk')"),
        ("a" * 300, f"found '{'a' * 63}; write Agent('{'a' * 64}')"),
        (5, "found 5; write Agent('assistant')"),
        (None, "found None; write Agent('assistant')"),
    ],
)
def test_a_name_that_no_agent_of_a_file_could_have_is_refused(name: Any, found: str) -> None:
    with pytest.raises(ConfigError, match='"name" must be an agent name: 1 to 64 ') as caught:
        Agent(name)
    assert str(caught.value).endswith(found)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"model": 3}, r"model= takes a name .* found 3"),
        ({"model": ["a", "b"]}, r"Fallback\('a', 'b'\)"),
        ({"model": ScriptedModel}, r"an instance of your own model class, found <class"),
        ({"settings": {"budget": 1}}, r"takes ChatSettings, .*=3\), found {'budget': 1}"),
        ({"settings": None}, "takes ChatSettings, .* found None"),
        ({"model_settings": {"temperature": 1}}, r"takes ModelSettings, .*\(temperature=0.2\)"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_refused_with_the_form_to_write(
    arguments: dict[str, Any], problem: str
) -> None:
    with pytest.raises(TypeError, match=problem):
        Agent("a", **arguments)


async def test_two_agents_of_one_name_are_refused_when_the_project_is_opened() -> None:
    clerk = Agent("clerk")
    async with penstock.open(":memory:", agents=[clerk, clerk]):
        pass
    with pytest.raises(NameTaken, match="two agents named 'clerk'"):
        await penstock.open(":memory:", agents=[clerk, Agent("clerk")])


@pytest.mark.parametrize(
    "tools", [[Act("look"), Act("look")], [Act("look"), "look"], ["look", Act("look")]]
)
async def test_two_tools_of_one_name_are_refused_when_the_project_is_opened(tools: Any) -> None:
    agent = Agent("clerk", tools=tools)
    for agents in ([agent], [Agent("outer", tools=[agent])]):
        with pytest.raises(NameTaken, match="agent 'clerk': there are two tools 'look'; rename"):
            async with memory_runtime(tools=[Act("look")], agents=agents):
                pass


def test_an_unknown_argument_has_a_suggestion() -> None:
    wrong: dict[str, Any] = {"instruction": "typo"}
    with pytest.raises(TypeError, match="no argument 'instruction'"):
        Agent("clerk", **wrong)
