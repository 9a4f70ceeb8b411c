"""Agent files that hand off to other agents: findings, and what runs."""

from pathlib import Path
from typing import Any

import pytest

from penstock.agents.agent import Agent
from penstock.agents.agent_folders import load_agents
from penstock.models.scripted import call, say
from tests.kit.agent_texts import replies_of
from tests.kit.project import ProjectFolder

HEAD = "---\nname: {name}\ndescription: Knows {name}.\ntools: []\nhandoffs: {handoffs}\n---\n"


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    (tmp_path / "project").mkdir()
    return ProjectFolder(tmp_path / "project", tmp_path / "cache")


def write(project: ProjectFolder, **handoffs: str) -> None:
    """Write agents, each with what it hands off to."""
    for name, others in handoffs.items():
        text = HEAD.format(name=name, handoffs=others) + f"You are {name}.\n"
        project.write(f"agents/{name}.md", text)


async def test_a_file_hands_off_to_another(project: ProjectFolder) -> None:
    write(project, triage="[billing]", billing="triage")
    assert project.findings() == []
    scripted = replies_of(
        triage=[call("transfer_to_billing"), say("Triage again.")],
        billing=[say("Paid."), call("transfer_to_triage")],
    )
    async with project.opened(model=scripted) as runtime:
        first = await runtime.chat("Pay", agent="triage")
        second = await runtime.chat("Something else", agent="triage", session=first.session)
        assert await runtime.hand_back(first.session) == "triage"
    assert (first.agent, first.output) == ("billing", "Paid.")
    assert (second.agent, second.output) == ("triage", "Triage again.")
    (offer,) = scripted.requests[0].tools
    assert (offer.name, offer.description) == (
        "transfer_to_billing",
        "Hand the conversation off to billing, who answers from now on. Knows billing.",
    )


@pytest.mark.parametrize(
    ("handoffs", "said"),
    [
        (
            {"triage": "[biling]", "billing": "[]"},
            (
                'agents/triage.md:5:12: error unknown-agent: unknown agent "biling" in "handoffs"; '
                'did you mean "billing"?'
            ),
        ),
        (
            {"triage": "[triage]"},
            (
                'agents/triage.md:5:12: error bad-handoff: agent "triage" hands off to itself; '
                "remove it"
            ),
        ),
    ],
)
def test_a_hand_off_to_nobody_is_a_finding(
    project: ProjectFolder, handoffs: dict[str, str], said: str
) -> None:
    write(project, **handoffs)
    assert project.findings() == [said]
    files = load_agents(project.root)
    assert (*files.broken,) == ("triage",)
    assert "triage" not in [each.name for each in files.agents]


def test_an_agent_stays_when_the_file_of_the_other_is_broken(project: ProjectFolder) -> None:
    write(project, triage="[billing]", billing="[nobody]")
    found = load_agents(project.root)
    assert [each.name for each in found.agents] == ["triage"]
    assert [each.code for each in found.diagnostics] == ["unknown-agent"]


async def test_an_agent_without_its_other_answers_itself(project: ProjectFolder) -> None:
    write(project, triage="[billing]", billing="[nobody]")
    scripted = replies_of(triage=[say("Alone.")])
    async with project.opened(model=scripted) as runtime:
        reply = await runtime.chat("Pay", agent="triage")
    assert (reply.agent, reply.output, scripted.requests[0].tools) == ("triage", "Alone.", ())


async def test_a_file_hands_off_to_an_agent_of_the_program_with_a_type(
    project: ProjectFolder,
) -> None:
    write(project, triage="[billing, assistant]")
    billing: Agent[Any, Any] = Agent("billing", instructions="You are billing.", output=int)
    scripted = replies_of(
        triage=[call("transfer_to_billing")], billing=[call("final_answer", value=7)] * 2
    )
    async with project.opened(model=scripted, agents=[billing]) as runtime:
        named = await runtime.chat("Pay", agent="triage")
        typed = await runtime.chat("Again", agent=billing)
    assert (named.agent, named.output, typed.output) == ("billing", "7", 7)


async def test_two_agents_that_hand_off_to_each_other_are_written_one_after_the_other(
    project: ProjectFolder,
) -> None:
    texts = {
        name: HEAD.format(name=name, handoffs=f"[{other}]")
        for name, other in (("triage", "billing"), ("billing", "triage"))
    }
    async with project.opened() as runtime:
        authoring = runtime.parts.flows.authoring
        assert authoring is not None
        first = authoring.write_agent("triage", texts["triage"])
        authoring.rediscover()
        second = authoring.write_agent("billing", texts["billing"])
        authoring.rediscover()
        known = [agent.name for agent in runtime.parts.chat.agents.list()]
    assert (first["written"], second["written"], second["diagnostics"]) == (True, True, [])
    (warning,) = first["diagnostics"]
    wanted = {"line": 5, "severity": "warning", "message": 'unknown agent "billing" in "handoffs"'}
    assert warning == wanted
    assert {"triage", "billing"} <= {*known}


async def test_a_reload_takes_new_hand_offs(project: ProjectFolder) -> None:
    write(project, triage="[]", billing="[]")
    scripted = replies_of(triage=[call("transfer_to_billing")], billing=[say("Paid.")])
    async with project.opened(model=scripted) as runtime:
        write(project, triage="[billing]")
        authoring = runtime.parts.flows.authoring
        assert authoring is not None
        authoring.rediscover()
        reply = await runtime.chat("Pay", agent="triage")
    assert reply.agent == "billing"
