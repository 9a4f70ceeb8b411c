"""The tools of hand-offs: their names, the checks when a project is opened, what they refuse."""

from typing import Any

import pytest

from penstock.agents.agent import Agent, AnyAgent
from penstock.agents.catalog import Catalog
from penstock.agents.handoffs import check_handoffs, transfers_to
from penstock.core.errors import ConfigError
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.runtime import memory_runtime
from penstock.tools.python.context import ToolContext
from penstock.tools.python.function import tool
from tests.kit.tools import Act

BILLING = Agent("billing")


def test_the_names_of_tools_are_what_providers_accept() -> None:
    found = transfers_to("triage", [BILLING, "Stefan's desk", "x" * 99])
    assert [*found] == [
        "transfer_to_billing",
        "transfer_to_Stefan_s_desk",
        f"transfer_to_{'x' * 52}",
    ]
    assert [*found.values()] == ["billing", "Stefan's desk", "x" * 99]


@pytest.mark.parametrize(
    ("handoffs", "said"),
    [
        (["triage"], "agent 'triage' hands off to itself"),
        (["a b", "a-b", "a.b"], "hands off to 'a b' and 'a.b', and both would be the tool"),
        ([5], "handoffs= takes Agent objects or their names, found 5"),
        ([Agent], "handoffs= takes Agent objects or their names, found <class"),
        (5, r"takes a list, such as handoffs=\[billing\]; found 5"),
        (BILLING, r"takes a list, such as handoffs=\[billing\]; found <agent 'billing'>"),
        ("billing", r"takes a list, such as handoffs=\[billing\]; found 'billing'"),
    ],
)
def test_hand_offs_that_cannot_be_are_refused_at_once(handoffs: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Agent("triage", handoffs=handoffs)


@pytest.mark.parametrize(
    ("agents", "said"),
    [
        (
            [Agent("triage", handoffs=["biling"]), BILLING],
            r"hands off to 'biling', but there is no agent 'biling'\. Did you mean 'billing'\?",
        ),
        (
            [Agent("triage", handoffs=[BILLING]), Agent("billing")],
            "agent 'triage' hands off to an agent 'billing' that is not the project's",
        ),
        (
            [Agent("triage", handoffs=["billing"]), Agent("billing", output=int)],
            r"agent 'triage' has no output=, .* write Agent\('triage', output=str, ...\)",
        ),
    ],
)
async def test_names_are_checked_when_a_project_is_opened(agents: list[Agent], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_handoffs(agents)
    with pytest.raises(ConfigError, match=said):
        async with memory_runtime(agents=agents):
            pass


async def test_agents_that_others_hand_off_to_are_known() -> None:
    third = Agent("third")
    second: Agent = Agent("second", handoffs=[third, "first"])
    first: Agent = Agent("first", handoffs=[second])
    async with memory_runtime(agents=[first]) as runtime:
        known = [agent.name for agent in runtime.requests.known.agents]
    assert known == ["assistant", "first", "second", "third"]
    async with memory_runtime(model=ScriptedModel([say("Hi.")])) as runtime:
        await runtime.chat("Hello", agent=first)
        assert runtime.requests.known.agents.get("third") is third


async def test_an_agent_keeps_the_project_s_tools_and_a_choice_of_them() -> None:
    agent = Agent("triage", handoffs=[BILLING])
    model = ScriptedModel([say("Hi.")])
    async with memory_runtime(model=model, tools=[Act("look")], agents=[agent]) as runtime:
        await runtime.chat("Hello", agent="triage")
    names = {tool.name for tool in model.requests[0].tools}
    assert {"look", "transfer_to_billing"} <= names


async def test_a_tool_with_the_name_of_a_hand_off_is_refused() -> None:
    agent = Agent("triage", tools=[Act("transfer_to_billing")], handoffs=[BILLING])
    with pytest.raises(ConfigError, match="'transfer_to_billing', which is also its hand-off"):
        async with memory_runtime(agents=[agent]):
            pass


async def test_a_tool_cannot_hand_off() -> None:
    @tool(effect="none")
    async def sly(ctx: ToolContext) -> str:
        """Try to hand off."""
        envelope = await ctx.call("transfer_to_billing", {})
        assert envelope.error is not None
        return envelope.error.code

    agent = Agent("triage", tools=[sly], handoffs=[BILLING])
    model = ScriptedModel([call("sly"), say("Still me.")])
    async with memory_runtime(model=model, agents=[agent]) as runtime:
        reply = await runtime.chat("Go", agent="triage")
    assert (reply.agent, reply.output) == ("triage", "Still me.")
    assert reply.calls[0].output == "NOT_PERMITTED"


@pytest.mark.parametrize(
    ("agent", "tool"),
    [
        (Agent("triage", tools=[Act("final_answer")], output=int), "final_answer"),
        (Agent("triage", output=int), "final_answer"),
        (Agent("triage", tools=["final_answer"], output=int), "final_answer"),
        (Agent("triage", tools=[Act("final_answer_int")], output=int | bool), "final_answer_int"),
    ],
)
def test_a_tool_with_the_name_by_which_an_output_is_given_is_refused(
    agent: AnyAgent, tool: str
) -> None:
    check_handoffs([Agent("triage", tools=[Act(tool)])])  # one without a type may have it
    with pytest.raises(ConfigError, match=f"a tool '{tool}', which is also how its model gives"):
        check_handoffs([agent], {"final_answer"})


async def test_a_tool_of_the_project_with_the_name_of_a_hand_off_is_refused() -> None:
    for agent in (
        Agent("triage", handoffs=[BILLING]),
        Agent("triage", tools=["transfer_to_billing"], handoffs=[BILLING]),
    ):
        with pytest.raises(ConfigError, match="'transfer_to_billing', which is also its hand-off"):
            async with memory_runtime(tools=[Act("transfer_to_billing")], agents=[agent]):
                pass


@pytest.mark.parametrize("output", [str, int])
async def test_an_agent_with_an_output_may_hand_off_to_others(output: Any) -> None:
    agent: AnyAgent = Agent("triage", output=output, handoffs=[Agent("billing", output=int)])
    async with memory_runtime(agents=[agent, *agent.handoffs]) as runtime:
        known = runtime.requests.known.agents
        assert [known.get(name).name for name in agent.transfers.values()] == ["billing"]


async def test_the_hand_offs_of_an_agent_that_is_added_later_are_checked() -> None:
    async with memory_runtime(agents=[BILLING]) as runtime:
        with pytest.raises(ConfigError, match="hands off to 'biling', but there is no agent"):
            await runtime.chat("Hello", agent=Agent("triage", handoffs=["biling"]))
        with pytest.raises(ConfigError, match="there is no agent 'nobody'"):
            runtime.put_agent(Agent("billing", handoffs=["nobody"]))
        assert runtime.requests.known.agents.find("triage") is None
        runtime.put_agent(Agent("triage", handoffs=["billing"]))


async def test_an_agent_that_lost_its_other_stops_no_new_one() -> None:
    lost = Agent("lost", handoffs=["gone"])
    catalog = Catalog([Agent("billing")])
    catalog.add(lost)
    assert catalog.put(Agent("triage", handoffs=["billing"])).name == "triage"
    with pytest.raises(ConfigError, match="agent 'lost' hands off to 'gone'"):
        catalog.put(lost)


async def test_cells_of_a_notebook_may_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedModel([call("transfer_to_billing"), say("Paid.")] * 2)
    async with memory_runtime(model=model) as runtime:
        monkeypatch.setattr("builtins.__IPYTHON__", True, raising=False)
        for _ in range(2):
            billing = Agent("billing", instructions="You bill.")
            triage = Agent("triage", handoffs=[billing])
            await runtime.chat("Pay", agent=triage)
            assert runtime.requests.known.agents.get("billing") is billing
