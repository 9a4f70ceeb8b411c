"""Runs of flows that plugins start and follow."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock import Hooks
from penstock.app.plugins.api import PluginApi
from penstock.app.plugins.runs import PluginFlows, PluginListeners, RunFollower
from penstock.app.run_feed import TYPES
from penstock.chat.requests import NewRun
from penstock.core.clock import Moment
from penstock.core.errors import NotFound, NotReady, ReadOnly, StoreError
from penstock.core.events.events import Event, Record
from penstock.core.events.flow_events import FlowRequested
from penstock.core.ids import LogId, TaskId
from penstock.core.profile import LOCAL_PROFILE
from penstock.engine.bus import Live
from penstock.models.scripted import ScriptedModel
from penstock.store.projections import Page
from penstock.testing.clock import settle
from tests.kit.flows import by_task, finish
from tests.kit.project import ProjectFolder
from tests.kit.session_events import ended

AGENT = "---\nname: scout\ndescription: d\ntools:\n---\nYou look.\n"
FLOW = "name: F\ndescription: d\nsteps:\n  - {id: a, agent: scout, task: go}\n"


@pytest.mark.parametrize(
    ("name", "received"),
    [
        ("flow_complete", "flow_complete"),
        ("flow:complete", "flow_complete"),
        ("flow:flow-started", "flow_started"),
        ("flow:agent-started", "flow_agent_started"),
        ("flow:subagent-tool-call", "flow_tool_call"),
        ("flow:subagent-tool-result", "flow_tool_result"),
        ("flow:notify", "flow_warning"),
        ("flow:rediscovered", "flow_rediscovered"),
    ],
)
def test_events_have_two_spellings(name: str, received: str) -> None:
    listeners, messages = PluginListeners(), list[Any]()
    listeners.on(name, messages.append)
    listeners.notify(received, {"x": 1})
    assert messages == [{"type": received, "x": 1}]


def test_an_unknown_event_is_refused() -> None:
    with pytest.raises(NotFound, match=r"no event 'flow:agent-strated'\. Did you mean 'flow_agent"):
        PluginListeners().on("flow:agent-strated", print)


def test_a_listener_that_raises_is_logged_and_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A listener that raises is logged and changes nothing."""
    listeners, messages = PluginListeners(), list[Any]()
    listeners.on("flow_complete", lambda _: 1 / 0)
    listeners.on("flow_complete", messages.append)
    listeners.notify("flow_complete", {})
    assert len(messages) == 1
    assert caplog.messages == [
        "a listener to flow_complete failed: ZeroDivisionError: division by zero"
    ]


async def test_a_log_that_cannot_be_read_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    reached = asyncio.Event()

    async def follow(log_id: LogId) -> AsyncGenerator[Live, None]:
        reached.set()
        raise StoreError(f"{log_id} is torn")
        yield

    listeners = PluginListeners()
    listeners.on("flow_complete", print)
    following, run = RunFollower(listeners, follow), TaskId("task_1")
    request = FlowRequested(command="f", profile_id=LOCAL_PROFILE.profile_id)
    following.hear([Record(LogId(run), 1, Moment(0), run, None, request)])
    await reached.wait()
    await following.close()
    assert caplog.messages == [
        "plugins receive no more events of the run task_1: StoreError: task_1 is torn"
    ]


async def test_the_end_of_a_run_is_delivered_although_the_project_closes_at_once() -> None:
    """18: `flow_complete`: "exactly once"."""
    run, messages = TaskId("task_1"), list[str]()
    request = FlowRequested(command="f", profile_id=LOCAL_PROFILE.profile_id)
    happened: list[Event] = [request, ended()]
    records = [
        Record(LogId(run), seq, Moment(0), run, None, each) for seq, each in enumerate(happened, 1)
    ]

    async def follow(log_id: LogId) -> AsyncGenerator[Live, None]:
        for each in records:
            await settle()
            yield each

    listeners = PluginListeners()
    listeners.on("flow_complete", lambda event: messages.append(event["runId"]))
    following = RunFollower(listeners, follow)
    following.hear(records)
    await following.close()
    assert messages == ["task_1"]


async def test_a_run_is_followed_from_its_start_to_its_end(project: ProjectFolder) -> None:
    """`api.on(type, listener)`: runtime events, which are the rows of the log."""
    messages, over = list[dict[str, Any]](), asyncio.Event()

    def plugin(api: PluginApi) -> None:
        for each in TYPES:
            api.on(each, messages.append)
        api.on("flow:agent-complete", lambda _: 1 / 0)
        api.on("flow_complete", lambda _: over.set())

    project.write("agents/scout.md", AGENT)
    project.write("flows/f.yaml", FLOW)
    model = ScriptedModel([finish("found")])
    settings = {"models": {"default": "scripted"}}
    async with project.opened(models=[model], plugins=[plugin], settings=settings) as runtime:
        envelope = await runtime.run_flow(NewRun(command="f", task="t"))
        await asyncio.wait_for(over.wait(), 5)
    assert envelope.ok
    stored = [each for each in messages if each["type"] != "flow_text_delta"]
    assert [each["type"] for each in stored] == [
        "flow_started",
        "flow_agent_started",
        "flow_tool_call",
        "flow_tool_result",
        "flow_agent_complete",
        "flow_complete",
    ]
    assert [each["seq"] for each in stored] == sorted(each["seq"] for each in stored)
    assert {each["runId"] for each in messages} == {envelope.output["runId"]}
    assert stored[1]["path"] == "a/1"
    assert stored[-1]["status"] == "success"


async def test_an_interrupted_run_is_followed_again_when_it_resumes(project: ProjectFolder) -> None:
    """Events that were delivered before the project closed are not delivered again."""
    messages, over = list[str](), asyncio.Event()

    def plugin(api: PluginApi) -> None:
        for each in ("flow_started", "flow_agent_started", "flow_complete"):
            api.on(each, lambda event: messages.append(event["type"]))
        api.on("flow_complete", lambda _: over.set())
        api.on("flow_question", lambda _: over.set())

    project.write("agents/scout.md", AGENT)
    steps = "  - {id: q, question: 'Go?', branches: {Go: s, No: s}}\n  - {id: s, agent: scout}\n"
    project.write("flows/f.yaml", f"name: F\ndescription: d\nsteps:\n{steps}")
    values: Any = {"plugins": [plugin], "settings": {"models": {"default": "scripted"}}}
    async with project.opened(models=[ScriptedModel([])], **values) as runtime:
        run_id = await runtime.start_flow(NewRun(command="f", task="t"))
        reply = await runtime.requests.wait(run_id)
        await asyncio.wait_for(over.wait(), 5)
    assert reply is not None
    assert messages == ["flow_started", "flow_agent_started"]
    over.clear()
    async with project.opened(models=[ScriptedModel([finish("ok")])], **values) as runtime:
        question = reply.questions[0].question.question_id
        await runtime.requests.answer(question, {"value": "Go"})
        await asyncio.wait_for(over.wait(), 5)
    assert messages[2:] == ["flow_agent_started", "flow_complete"]


SCOUT = "---\nname: scout\ndescription: Looks.\ntools:\n---\nYou look.\n"
GREETING = "name: F\ndescription: Looks.\nsteps:\n  - {id: a, agent: scout, task: go}\n"
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
    project.write("agents/scout.md", SCOUT)
    project.write("flows/look.yaml", GREETING)
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


async def test_a_run_accepts_its_four_arguments_by_position(project: ProjectFolder) -> None:
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
        await runtime.requests.wait(run_id)
        await api.emit("flow:abort", {"run_id": run_id})
        reply = await runtime.requests.wait(run_id)
        while reply.status == "suspended":
            reply = await runtime.requests.wait(run_id)
    assert reply.status == "cancelled"


async def test_a_run_cancelled_before_its_start_has_a_result(project: ProjectFolder) -> None:
    """`await flows.run(…) → FlowResult`."""
    reached = asyncio.Event()

    class Slow(Hooks):
        async def on_input(self, ctx: Any, message: Any) -> Any:
            reached.set()
            await asyncio.Event().wait()

    async with opened(project) as (api, runtime):
        api.register_hooks(Slow())
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
        project.write("agents/mover.md", SCOUT.replace("scout", "mover"))
        report = await asyncio.to_thread(api.flows.rediscover)
        assert runtime.parts.chat.agents.find_in_files("mover") is not None
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
    with pytest.raises(NotReady, match="call this from a listener, tool or hook, not while reg"):
        await flows.run("look")
    with pytest.raises(NotReady):
        flows.list()
