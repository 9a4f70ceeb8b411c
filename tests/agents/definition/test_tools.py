"""The tools of an agent, by their ids and their names."""

from typing import Any

import pytest

import penstock
from penstock import Agent, AgentContext, ChatSettings, Tool
from penstock.core.errors import ConfigError, NameTaken
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.runtime import memory_runtime
from tests.kit.tools import Act


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


WRONG = ChatSettings(tool_permissions={"pya": "ask"})


@pytest.mark.parametrize(
    "tools", [None, [Act("pay")], ["pay"], [Agent("desk", tools=[Act("pay")])]]
)
async def test_permissions_for_an_unknown_tool_are_refused_when_the_project_is_opened(
    tools: Any,
) -> None:
    agent = Agent("clerk", tools=tools, settings=WRONG)
    match = r"tool_permissions of agent 'clerk' name 'pya', .* mean 'pay'"
    with pytest.raises(ConfigError, match=match):
        async with memory_runtime(tools=[Act("pay")], agents=[agent]):
            pass


class Shelf:
    """A toolset: its tools are known when a task starts."""

    def tools(self, ctx: AgentContext[object]) -> list[Tool[object]]:
        return [Act("pya")]


@pytest.mark.parametrize(
    ("tools", "allowed"),
    [
        ([Act("own")], "own"),
        (["pay"], "pay"),
        ([Agent("desk", tools=[Act("deep")])], "deep"),
        ([Agent("desk", tools=[Act("deep")])], "desk"),
        ([Shelf()], "pya"),
        ([Act("own")], "transfer_to_billing"),
        ([Act("own")], "bash"),
    ],
)
async def test_permissions_may_name_each_tool_that_the_agent_can_have(
    tools: Any, allowed: str
) -> None:
    settings = ChatSettings(tool_permissions={allowed: "ask"})
    agent = Agent("clerk", tools=tools, settings=settings, handoffs=[Agent("billing")])
    async with memory_runtime(tools=[Act("pay")], agents=[agent]) as runtime:
        assert (await runtime.chat("Hi", agent=agent)).status == "succeeded"
