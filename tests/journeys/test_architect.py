"""The architect designs a flow with a person: written, repaired, stored, and run to its end."""

import json
from typing import Any

import pytest

from penstock.app.flows import check_flows
from penstock.app.project import check_project
from penstock.app.runtime import Runtime
from penstock.app.settings import load
from penstock.chat.requests import NewRun, TaskReply
from penstock.core.ids import TaskId
from penstock.core.messages import ToolMessage
from penstock.core.task import TaskStatus
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call
from tests.kit.architect_files import AGENT, BROKEN_AGENT, BROKEN_FLOW, FLOW
from tests.kit.asking import ask
from tests.kit.flows import finish, task_of
from tests.kit.project import ProjectFolder

DESIGN = [
    call("agent_catalog"),
    call("agent_write", path="guide", content=BROKEN_AGENT),
    call("agent_write", path="guide", content=AGENT),
    call("flow_write", path="tour", content=BROKEN_FLOW),
    call("flow_write", path="tour", content=FLOW),
    finish("A tour in three steps.", flow_path="flows/tour.yaml", command="tour"),
]
"""What the architect does, each once it has read what came of the one before."""
STEPS = ["look", "enough", "page"]
SETTINGS = {"models": {"default": "scripted"}}


def _answers(request: ModelRequest) -> ScriptedReply:
    task, done = task_of(request), sum(isinstance(m, ToolMessage) for m in request.messages)
    if task == "A tour of Lisbon":
        return DESIGN[done]
    if task.startswith("Are these enough?"):
        return finish("yes", branch="exit")
    return finish(f"told: {task}", sights=["tower", "tram"])


async def _kept(runtime: Runtime) -> TaskReply:
    run = NewRun(command="flows:new", task="A tour of Lisbon")
    await runtime.start_flow(run, task_id=TaskId("task_new"))
    while True:
        reply = await runtime.requests.wait(TaskId("task_new"))
        assert reply
        if reply.status is not TaskStatus.SUSPENDED:
            return reply
        (asked,) = reply.questions
        assert asked.question.text == "A tour in three steps. Keep this flow?"
        await runtime.requests.answer(asked.question.question_id, {"value": "Keep"})


def _told(model: ScriptedModel) -> list[Any]:
    """Return what the architect read of its calls."""
    last = [each for each in model.requests if task_of(each) == "A tour of Lisbon"][-1]
    return [json.loads(each.content) for each in last.messages if isinstance(each, ToolMessage)]


@pytest.mark.slow("designs a flow, keeps it, checks it and runs it")
async def test_a_flow_is_designed_repaired_dry_run_stored_and_run(project: ProjectFolder) -> None:
    """The architect, on the scripted model, writes an agent and a flow that check clean and run.

    agent_write/flow_write validate first; a dry run before it is offered: every branch and loop
    exit reached.
    """
    model = ScriptedModel(_answers)
    async with project.opened(models=[model], settings=SETTINGS) as runtime:
        designed = await _kept(runtime)
        assert designed.status is TaskStatus.SUCCEEDED
        ran = await runtime.run_flow(NewRun(command="tour", task="Lisbon"))
    assert ran.ok
    assert ran.output["results"]["page"]["summary"] == 'told: A page of ["tower","tram"]'
    _, broken_agent, agent, broken_flow, flow = _told(model)
    assert [each["written"] for each in (broken_agent, agent)] == [False, True]
    assert broken_agent["diagnostics"][0]["message"] == 'output "status" is a reserved name'
    assert broken_flow["diagnostics"][0]["suggestion"] == 'did you mean "guide"?'
    dry = flow.pop("dryRun")
    assert flow == {"written": True, "path": "flows/tour.yaml", "diagnostics": []}
    assert (dry["reached"], dry["complete"], dry["problems"]) == (STEPS, True, [])
    assert [each["branch"] for each in dry["branches"] if each["walked"]] == ["exit", "loop", "cap"]
    settings = load(project.root)
    result = check_project(settings, lambda read: check_flows(settings, read))
    assert [str(each) for each in result.diagnostics] == []


EDITED = "Change the flow tour as asked: shorter"
CHANGES = [
    call("flow_write", path="tour", content=FLOW.replace("in three rounds", "in two rounds")),
    finish("Two rounds.", flow_path="flows/tour.yaml", command="tour"),
]
NOTE = "Only two rounds, please"


def _changing(request: ModelRequest) -> ScriptedReply:
    """Design as before; once the note is read, or the flow is to be edited, change it."""
    task, done = task_of(request), sum(isinstance(m, ToolMessage) for m in request.messages)
    if task == EDITED or (NOTE in request.system and task == "A tour of Lisbon"):
        return CHANGES[done]
    return _answers(request)


async def _reviewed(runtime: Runtime, run: NewRun, *answers: dict[str, str]) -> TaskReply:
    """Run a flow, and answer what it asks, one after the other."""
    run_id = TaskId(await runtime.start_flow(run))
    for answer in answers:
        reply = await runtime.requests.wait(run_id)
        assert reply
        (asked,) = reply.questions
        await runtime.requests.answer(asked.question.question_id, answer)
    ended = await runtime.requests.wait(run_id)
    assert ended
    return ended


@pytest.mark.slow("designs a flow twice")
async def test_a_note_at_the_review_reaches_the_designer(project: ProjectFolder) -> None:
    """§21: "A person's note at `review` reaches `design` through the fork section"."""
    model = ScriptedModel(_changing)
    change, keep = {"value": "Change", "notes": NOTE}, {"value": "Keep"}
    async with project.opened(models=[model], settings=SETTINGS) as runtime:
        new = NewRun(command="flows:new", task="A tour of Lisbon")
        ended = await _reviewed(runtime, new, change, keep)
    assert ended.envelope
    results = ended.envelope.output["results"]
    assert (results["design"]["summary"], results["design"]["visits"]) == ("Two rounds.", 2)
    first, *_, last = [each for each in model.requests if task_of(each) == "A tour of Lisbon"]
    assert NOTE not in first.system
    assert "## Context\n" in last.system
    assert results["report"]["summary"].startswith("told: Say in three sentences what flows/tour")
    assert "two rounds" in (project.root / "flows/tour.yaml").read_text()


@pytest.mark.slow("opens a project and a chat")
async def test_a_flow_is_edited_from_a_chat(project: ProjectFolder) -> None:
    """§21: `flows:edit`, "a flow input `flow` (required)", "change the flow … as asked"."""
    project.write("agents/guide.md", AGENT)
    project.write("flows/tour.yaml", FLOW)
    model = ScriptedModel(_changing)
    async with project.opened(models=[model], settings=SETTINGS) as runtime:
        asked = await ask(runtime, "/flows:edit shorter")
        assert asked.questions[0].question.text.startswith("flow: The command of the flow")
        review = await ask(runtime, "tour", session=asked.session_id)
        (question,) = review.questions
        assert question.question.text == "Two rounds. Keep this flow?"
        await runtime.requests.answer(question.question.question_id, {"value": "Keep"})
        reply = await runtime.requests.wait(asked.task_id)
    assert reply
    assert reply.content.startswith("told: Say in three sentences what flows/tour.yaml does")
    assert "two rounds" in (project.root / "flows/tour.yaml").read_text()
