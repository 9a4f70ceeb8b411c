"""The events of runs that plugins receive."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from penstock.app.plugins.api import PluginApi
from penstock.app.plugins.events import Listeners, RunFollower
from penstock.app.run_feed import TYPES
from penstock.chat.message import NewRun
from penstock.core.clock import Moment
from penstock.core.errors import NotFound, StoreError
from penstock.core.events.events import Event, Record
from penstock.core.events.flow_events import FlowRequested
from penstock.core.ids import LogId, TaskId
from penstock.core.profile import LOCAL_PROFILE
from penstock.engine.bus import Live
from penstock.models.scripted import ScriptedModel
from penstock.testing.clock import settle
from tests.kit.events import ended
from tests.kit.flows import finish
from tests.kit.project import ProjectFolder

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
    listeners, messages = Listeners(), list[Any]()
    listeners.on(name, messages.append)
    listeners.tell(received, {"x": 1})
    assert messages == [{"type": received, "x": 1}]


def test_an_unknown_event_is_refused() -> None:
    with pytest.raises(NotFound, match=r"no event 'flow:agent-strated'\. Did you mean 'flow_agent"):
        Listeners().on("flow:agent-strated", print)


def test_a_listener_that_raises_is_logged_and_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A listener that raises is logged and changes nothing."""
    listeners, messages = Listeners(), list[Any]()
    listeners.on("flow_complete", lambda _: 1 / 0)
    listeners.on("flow_complete", messages.append)
    listeners.tell("flow_complete", {})
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

    listeners = Listeners()
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

    listeners = Listeners()
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
        reply = await runtime.wait(run_id)
        await asyncio.wait_for(over.wait(), 5)
    assert reply is not None
    assert messages == ["flow_started", "flow_agent_started"]
    over.clear()
    async with project.opened(models=[ScriptedModel([finish("ok")])], **values) as runtime:
        question = reply.questions[0].question.question_id
        await runtime.answer(question, {"value": "Go"})
        await asyncio.wait_for(over.wait(), 5)
    assert messages[2:] == ["flow_agent_started", "flow_complete"]
