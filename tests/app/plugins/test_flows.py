"""Plugins list, start and end the flows of an open project."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.app.plugins.api import PluginApi
from penstock.app.plugins.flows import PluginFlows
from penstock.core.errors import NotFound, NotReady, ReadOnly
from penstock.models.scripted import ScriptedModel
from penstock.store.projections import Page
from tests.kit.flows import by_task
from tests.kit.project import ProjectFolder

AGENT = "---\nname: scout\ndescription: Looks.\ntools:\n---\nYou look.\n"
FLOW = "name: F\ndescription: Looks.\nsteps:\n  - {id: a, agent: scout, task: go}\n"
ASK = """
name: ask
description: Asks.
inputs: {who: {type: string, required: true}}
steps:
  - {id: q, question: "Go?", branches: {Go: s, No: s}}
  - {id: s, agent: scout, task: "for ${{flow.input.who}}"}
"""


@asynccontextmanager
async def opened(project: ProjectFolder) -> AsyncIterator[tuple[PluginApi, Any]]:
    """Open a project with two flows; yield the API of its plugin, and the runtime."""
    project.write("agents/scout.md", AGENT)
    project.write("flows/look.yaml", FLOW)
    project.write("flows/dom/ask.yaml", ASK)
    apis: list[PluginApi] = []
    settings = {"models": {"default": "scripted"}}
    model = ScriptedModel(by_task({}))
    async with project.opened(models=[model], plugins=[apis.append], settings=settings) as runtime:
        yield apis[0], runtime


async def test_a_run_returns_its_result(project: ProjectFolder) -> None:
    """`await flows.run(command, …) → FlowResult`; the event does the same."""
    async with opened(project) as (api, _):
        result = await api.flows.run("/look", "t")
        again = await api.emit("flow:run", {"command": "look", "task": "t"})
    assert (result["status"], result["flowName"], result["task"]) == ("success", "look", "t")
    assert (again["status"], again["results"]["a"]["summary"]) == ("success", "go done")


async def test_a_run_takes_its_four_arguments_by_position(project: ProjectFolder) -> None:
    """`await flows.run(command, task="", inputs={}, autonomous=None) → FlowResult`, `start`."""
    async with opened(project) as (api, _):
        messages: list[Any] = []
        api.on("flow_started", messages.append)
        result = await api.flows.run("dom:ask", "t", {"who": "Ann"}, True)  # noqa: FBT003
    assert [each["autonomous"] for each in messages] == [True]
    assert (result["flowName"], result["task"]) == ("dom:ask", "t")


async def test_a_rejected_run_has_a_result_and_an_unknown_flow_raises(
    project: ProjectFolder,
) -> None:
    """An unknown flow is only an error."""
    async with opened(project) as (api, _):
        assert (await api.flows.run("dom:ask"))["status"] == "rejected"
        with pytest.raises(NotFound, match="Did you mean 'look'"):
            await api.flows.run("lok")


async def test_a_run_can_be_started_and_aborted(project: ProjectFolder) -> None:
    async with opened(project) as (api, runtime):
        run_id = await api.flows.start("dom:ask", "t", {"who": "Ann"})
        await runtime.wait(run_id)
        await api.emit("flow:abort", {"run_id": run_id})
        reply = await runtime.wait(run_id)
        while reply.status == "suspended":
            reply = await runtime.wait(run_id)
    assert reply.status == "cancelled"


async def test_a_run_cancelled_before_its_start_has_a_result(project: ProjectFolder) -> None:
    """`await flows.run(…) → FlowResult`."""
    reached = asyncio.Event()

    async def check() -> bool:
        reached.set()
        await asyncio.Event().wait()
        return True

    async with opened(project) as (api, runtime):
        api.register_gate("slow", check, flows=["look"], message="Closed.")
        running = asyncio.create_task(api.flows.run("/look", "t"))
        await reached.wait()
        (task,) = (await runtime.parts.storage.projections.tasks(page=Page()))[0]
        await api.flows.abort(task.task_id)
        result = await running
    assert (result["status"], result["flowName"]) == ("aborted", "look")
    assert (result["runId"], result["results"]) == (task.task_id, {})


async def test_set_autonomous_applies_to_later_runs(project: ProjectFolder) -> None:
    """`flows.set_autonomous(bool)`: default of later runs, and an event."""
    messages: list[Any] = []
    async with opened(project) as (api, _):
        api.on("flow:autonomous-mode-changed", messages.append)
        api.flows.set_autonomous(True)
        result = await api.flows.run("dom:ask", "t", {"who": "Ann"})
    assert messages == [{"type": "flow_autonomous_mode_changed", "enabled": True}]
    assert result["status"] != "rejected"


async def test_agents_and_flows_are_listed_and_flows_can_be_deleted(project: ProjectFolder) -> None:
    messages: list[Any] = []
    async with opened(project) as (api, _):
        api.on("flow_rediscovered", messages.append)
        assert "scout" in [each["name"] for each in api.flows.agents()]
        flows = {each["command"]: each for each in api.flows.list()}
        assert flows["look"] == {
            "command": "look",
            "description": "Looks.",
            "source": "local",
            "errors": 0,
        }
        api.emit("flow:delete-request", {"command": "look"})
        assert "look" not in [each["command"] for each in api.flows.list()]
        with pytest.raises(NotFound):
            api.flows.delete("look")
        with pytest.raises(ReadOnly):
            api.flows.delete("flows:new")
    assert [each["type"] for each in messages] == ["flow_rediscovered"]
    assert "dom:ask" in messages[0]["flows"]


async def test_rediscover_finds_what_a_plugin_wrote(project: ProjectFolder) -> None:
    """`flows.rediscover()`; event `flow_rediscovered {agents, flows, diagnostics}`."""
    async with opened(project) as (api, runtime):
        project.write("agents/mover.md", AGENT.replace("scout", "mover"))
        report = await asyncio.to_thread(api.flows.rediscover)
        assert runtime.parts.chat.agents.find("mover") is not None
    assert set(report) == {"agents", "flows", "diagnostics"}
    assert {"mover", "scout"} <= set(report["agents"])


async def test_listeners_are_called_in_the_event_loop_from_any_thread(
    project: ProjectFolder,
) -> None:
    """Event `flow_rediscovered`, "also after §15 writes": those are made in threads."""
    async with opened(project) as (api, _):
        messages: list[Any] = []
        api.on("flow_rediscovered", lambda _: messages.append(asyncio.get_running_loop()))
        await asyncio.to_thread(api.flows.rediscover)
        api.flows.rediscover()
        assert messages == [asyncio.get_running_loop()] * 2


async def test_flows_cannot_be_used_before_the_project_is_open() -> None:
    flows = PluginFlows(lambda *_: None)
    with pytest.raises(NotReady, match="call this from a listener, tool or gate, not while reg"):
        await flows.run("look")
    with pytest.raises(NotReady):
        flows.list()
