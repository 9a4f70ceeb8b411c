"""Replays of runs of flows: the first difference inside a step."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from penstock import Agent, ReplayReport, tool
from penstock.agents.agent_profile import AgentProfile
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.flows import RUN, finish, flows_of, run_in, steps, task_of

LINE = """
  - {id: web, agent: scout, task: look at the web}
  - id: report
    agent: writer
    blockedBy: [web]
    task: "Write: ${{result.web.summary}}"
"""
ASKED: list[str] = []


@tool(effect="read")
def search(words: str) -> str:
    """Search the web."""
    ASKED.append(words)
    return "three teas"


def agent(name: str, instructions: str = "Work.") -> Agent:
    """An agent of the flow, which may search."""
    profile = AgentProfile(file=f"agents/{name}.md", tools=("search", "finish"))
    return Agent(name, instructions=instructions, profile=profile)


def answer(request: ModelRequest) -> ScriptedReply:
    """Search once in the first step, then finish."""
    is_new = type(request.messages[-1]).__name__ == "UserMessage"
    task = task_of(request)
    if is_new and task == "look at the web":
        return call("search", words="tea")
    return finish(f"{task} done")


async def replayed(
    text: str = LINE,
    *,
    tools: tuple[Any, ...] = (search,),
    instructions: Mapping[str, str] = MappingProxyType({}),
) -> ReplayReport:
    """Run the flow, and replay its run in a project with other steps, tools or agents."""
    place = MemoryStorage(flows=flows_of(demo=steps(LINE)))
    agents = [agent("scout"), agent("writer")]
    model = ScriptedModel(answer)
    async with memory_runtime(model=model, agents=agents, tools=[search], place=place) as runtime:
        assert (await run_in(runtime)).ok
    ASKED.clear()
    place.flows = flows_of(demo=steps(text))
    agents = [agent(name, instructions.get(name, "Work.")) for name in ("scout", "writer")]
    silent = ScriptedModel([])
    async with memory_runtime(model=silent, agents=agents, tools=tools, place=place) as runtime:
        return await runtime.replay(RUN)


async def test_a_run_of_the_same_flow_comes_out_the_same_and_runs_nothing() -> None:
    report = await replayed()
    assert (report.equal, report.stopped, ASKED) == (True, "end", [])
    assert report.compared_events == report.total_events > 8


@pytest.mark.parametrize(
    ("changed", "kind", "path", "pointer"),
    [
        ({"scout": "Look well."}, "prompt", "task/web/1", "/system"),
        ({"writer": "Be brief."}, "prompt", "task/report/1", "/system"),
    ],
)
async def test_a_changed_agent_differs_in_its_step_with_both_texts(
    changed: dict[str, str], kind: str, path: str, pointer: str
) -> None:
    difference = (await replayed(instructions=changed)).difference
    assert difference
    assert (difference.kind, difference.path) == (kind, path)
    assert difference.diff[0].pointer == pointer


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (LINE.replace("Write: ", "Write well: "), ("prompt", "task/report/1")),
        (LINE.replace("scout", "writer"), ("code", "task/web/1")),
        (LINE + "  - {id: more, agent: scout, task: more}\n", ("code", "task/more/1")),
        (LINE.partition("  - id: report")[0], ("code", "task/report/1")),
    ],
    ids=["another task", "another agent", "a step more", "a step less"],
)
async def test_a_changed_flow_differs_where_its_run_goes_another_way(
    text: str, found: tuple[str, str]
) -> None:
    difference = (await replayed(text)).difference
    assert difference
    assert (difference.kind, difference.path) == found


async def test_a_tool_of_a_step_that_is_gone_is_named() -> None:
    difference = (await replayed(tools=())).difference
    assert difference
    assert (difference.kind, difference.path) == ("tool_missing", "task/web/1/1/search#1")
    assert "There is no tool 'search'" in difference.now["error"]["message"]
