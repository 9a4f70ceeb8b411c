"""The context of a check."""

from pathlib import Path

from penstock.agents.agent import Agent
from penstock.agents.agent_profile import AgentInput, AgentProfile
from penstock.agents.folders import load_agents
from penstock.core.events.flow_events import Output
from penstock.flows.checks.context import AgentCard, CheckContext, cards_of
from penstock.flows.checks.flow import check_flow
from penstock.flows.reading.flow import read_flow


def test_around_a_flow_of_nowhere_there_is_nothing() -> None:
    around = CheckContext()
    assert (around.folder, around.flow_at("x.yaml"), around.has_file("x.mts")) == ("", None, False)
    assert around.code_fault("x.mts") is None


def test_the_folder_is_that_of_the_file() -> None:
    assert CheckContext(file="flows/dom/x.yaml").folder == "flows/dom"


def test_flows_know_the_agents_that_have_a_file() -> None:
    agent_profile = AgentProfile(
        inputs=(AgentInput(name="notes"),),
        outputs=(Output(name="topics"),),
        body_inputs=frozenset({"more"}),
        is_interactive=False,
        file="agents/a.md",
    )
    assert cards_of([Agent("a", profile=agent_profile), Agent("b")]) == {
        "a": AgentCard(
            name="a",
            inputs=("notes",),
            outputs=("topics",),
            body_inputs=frozenset({"more"}),
            is_interactive=False,
            file="agents/a.md",
        )
    }


NEW = """name: flows:new
description: Design a flow, and the agents it needs, from a description
task_required: true
steps:
  - {id: design, agent: flow-architect, task: "${{task}}"}
  - id: review
    question: "${{result.design.summary}} Keep this flow?"
    branches: {Keep: report, Change: design}
    task: "Keep the flow if it does what was asked: ${{task}}. Otherwise change it."
    max_iterations: 5
  - {id: report, agent: flow-architect, task: "What does ${{result.design.flow_path}} do?"}
"""


def test_the_flow_that_designs_flows_has_nothing_wrong(tmp_path: Path) -> None:
    """Built-in agents and flows give no diagnostic."""
    around = CheckContext(agents=cards_of(load_agents(tmp_path).built_in))
    assert check_flow(read_flow(NEW), around) == []
