"""Agent files that list agents among their tools: findings, and what runs."""

from pathlib import Path
from typing import Any

import pytest

from penstock.agents.agent import Agent
from penstock.agents.agent_folders import load_agents
from penstock.chat.requests import NewRun
from penstock.core.ids import TaskId
from penstock.core.task import TaskStatus
from penstock.models.scripted import call, say
from tests.kit.agent_texts import replies_of
from tests.kit.flows import finish
from tests.kit.project import ProjectFolder
from tests.kit.tools import Act

HEAD = "---\nname: {name}\ndescription: Knows {name}.\n{fields}---\nYou are {name}.\n"
ASK = call("researcher", task="Find tea")


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    (tmp_path / "project").mkdir()
    return ProjectFolder(tmp_path / "project", tmp_path / "cache")


def write(project: ProjectFolder, **tools: str) -> None:
    """Write agents, each with its tools."""
    for name, listed in tools.items():
        fields = f"tools: {listed}\n"
        project.write(f"agents/{name}.md", HEAD.format(name=name, fields=fields))


async def test_an_agent_file_has_another_agent_as_a_tool(project: ProjectFolder) -> None:
    write(project, writer="[researcher, look]", researcher="[look]")
    look = Act("look")
    scripted = replies_of(
        writer=[ASK, call("look", n=1), say("Done.")], researcher=[call("look", n=2), say("Tea.")]
    )
    async with project.opened(model=scripted, tools=[look]) as runtime:
        reply = await runtime.chat("Go", agent="writer")
    assert reply.output == "Done."
    first, second = reply.calls
    assert (first.tool, first.output, second.tool) == ("researcher", "Tea.", "look")
    assert look.runs == [{"n": 2}, {"n": 1}]
    offers = {each.name: each.description for each in scripted.requests[0].tools}
    assert offers["researcher"] == "Knows researcher."
    assert [each.name for each in scripted.requests[1].tools] == ["look"]


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        (
            {"writer": "[reseacher]", "researcher": "[]"},
            (
                'agents/writer.md:4:9: error unknown-tool: unknown tool "reseacher"; '
                'did you mean "researcher"?'
            ),
        ),
        (
            {"writer": "[read, writer]"},
            (
                "agents/writer.md:4:15: error agent-circle: agents are tools of each other: "
                "writer → writer; remove one of them, or let it hand the conversation off"
            ),
        ),
    ],
)
def test_a_tool_that_no_agent_is_is_a_finding(
    project: ProjectFolder, tools: dict[str, str], said: str
) -> None:
    write(project, **tools)
    assert project.findings() == [said]
    found = load_agents(project.root)
    assert "writer" not in [each.name for each in found.agents] or not found.diagnostics


def test_agents_that_are_tools_of_each_other_are_findings_of_all_of_them(
    project: ProjectFolder,
) -> None:
    write(project, a="[b]", b="[read, c]", c="[a]", outside="[a]")
    places = [each.partition(" error ")[0] for each in project.findings()]
    assert places == ["agents/a.md:4:9:", "agents/b.md:4:15:", "agents/c.md:4:9:"]
    assert "b → c → a → b" in project.findings()[1]


def test_an_agent_stays_when_the_file_of_its_inner_agent_is_broken(project: ProjectFolder) -> None:
    write(project, writer="[researcher]", researcher="[nothing]")
    assert [each.partition(":")[0] for each in project.findings()] == ["agents/researcher.md"]


async def test_an_agent_of_the_program_may_be_a_tool_of_a_file(project: ProjectFolder) -> None:
    write(project, writer="[researcher]")
    researcher: Agent[Any, Any] = Agent(
        "researcher", instructions="You are researcher.", output=int
    )
    scripted = replies_of(writer=[ASK, say("Done.")], researcher=[call("final_answer", value=7)])
    async with project.opened(model=scripted, agents=[researcher]) as runtime:
        reply = await runtime.chat("Go", agent="writer")
    assert (reply.output, reply.calls[0].output) == ("Done.", 7)


async def test_a_file_that_a_program_reads_finds_the_agents_of_the_project(
    project: ProjectFolder,
) -> None:
    write(project, writer="[researcher]", researcher="[]")
    writer = Agent.from_file(project.root / "agents/writer.md", output=int)
    scripted = replies_of(writer=[ASK, call("final_answer", value=3)], researcher=[say("Tea.")])
    async with project.opened(model=scripted, agents=[writer]) as runtime:
        reply = await runtime.chat("Go", agent=writer)
    assert (reply.output, reply.calls[0].output) == (3, "Tea.")


async def test_a_tool_goes_before_an_agent_of_its_name(project: ProjectFolder) -> None:
    write(project, writer="[researcher]", researcher="[]")
    scripted = replies_of(writer=[call("researcher"), say("Done.")])
    researcher = Act("researcher")
    async with project.opened(model=scripted, tools=[researcher]) as runtime:
        await runtime.chat("Go", agent="writer")
    assert len(researcher.runs) == 1


async def test_a_call_of_an_agent_may_need_approval_and_waits_over_a_restart(
    project: ProjectFolder,
) -> None:
    fields = "tools: [researcher]\nsettings: {tool_permissions: {researcher: ask}}\n"
    project.write("agents/writer.md", HEAD.format(name="writer", fields=fields))
    write(project, researcher="[pay]")
    assert project.findings() == [
        'agents/researcher.md:4:9: error unknown-tool: unknown tool "pay"'
    ]
    pay = Act("pay", requires_approval=True)
    scripted = replies_of(writer=[ASK, say("Done.")], researcher=[call("pay"), say("Paid.")])
    async with project.opened(model=scripted, tools=[pay]) as runtime:
        reply = await runtime.chat("Go", agent="writer")
        assert [each.tool for each in reply.questions] == ["researcher"]
    for asked in ("pay", None):
        async with project.opened(model=scripted, tools=[pay]) as runtime:
            reply = await runtime.approve(reply)
            assert [each.tool for each in reply.questions] == ([asked] if asked else [])
    assert (reply.output, len(pay.runs)) == ("Done.", 1)


FLOW = """
name: report
description: Writes a report.
steps:
  - {id: write, agent: writer, task: Write it.}
"""
RUN = TaskId("task_run")


@pytest.mark.parametrize("is_cut", [False, True])
async def test_an_agent_of_a_flow_has_its_agents_too(
    project: ProjectFolder, *, is_cut: bool
) -> None:
    """Also over a restart: a process with the files has the agent that is a tool."""
    write(project, writer="[researcher, pay]", researcher="[pay]")
    project.write("flows/report.yaml", FLOW)
    pay = Act("pay", requires_approval=is_cut)
    scripted = replies_of(writer=[ASK, finish("Done.")], researcher=[call("pay"), say("Paid.")])
    async with project.opened(model=scripted, tools=[pay]) as runtime:
        await runtime.run_flow(NewRun(command="report"), task_id=RUN)
        reply = await runtime.requests.wait(RUN)
        assert reply
        assert [each.question.tool_id for each in reply.questions] == ["pay"] * is_cut
    if is_cut:
        async with project.opened(model=scripted, tools=[pay]) as runtime:
            question = reply.questions[0].question.question_id
            await runtime.requests.answer(question, {"decision": "approve"})
            reply = await runtime.requests.wait(RUN)
            assert reply
    assert (reply.status, len(pay.runs)) == (TaskStatus.SUCCEEDED, 1)
