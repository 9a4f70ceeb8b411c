"""Definitions of agents are noted when a project is opened, so that a replay can show them."""

import json
from typing import Any

import pytest

from penstock import ReplayReport
from penstock.app.trial.definitions import system_then
from penstock.app.trial.replay import recorded, replay_saved
from penstock.app.trial.saved_task import SavedTask
from penstock.chat.recorded.replay_report import ReplayOptions
from penstock.models.scripted import ScriptedModel, say
from tests.kit.project import ProjectFolder

CLERK = "---\nname: clerk\ndescription: Sells.\n---\n\nYou sell {what}.\n"
SCRIPT = "export const run = () => 1;"
PRICE = {"description": "Price of tea.", "direct_call": "false"}
SETTINGS = {"global_tools": ["price"]}


def write(project: ProjectFolder, what: str = "tea", **more: str) -> None:
    """Write an agent that sells something, and a tool."""
    project.write("agents/clerk.md", CLERK.format(what=what))
    project.tool("price", SCRIPT, **PRICE | more)


async def task(project: ProjectFolder) -> str:
    """Run a task of the agent as the project is now, and return its id."""
    model = ScriptedModel(lambda _: say("Yes."))
    async with project.opened(model=model, settings=SETTINGS) as runtime:
        return (await runtime.chat("Tea?", agent="clerk")).task_id


async def replayed(project: ProjectFolder, task_id: str) -> ReplayReport:
    """The report on a task in the project as it is now."""
    async with project.opened(model=ScriptedModel([]), settings=SETTINGS) as runtime:
        return await runtime.replay(task_id)


def changes(report: ReplayReport) -> dict[str, tuple[Any, Any]]:
    """The single changes of the first difference, but for hashes."""
    assert report.difference
    found = {each.pointer: (each.was, each.now) for each in report.difference.diff}
    return {name: each for name, each in found.items() if name != "/agentDigest"}


async def test_an_agent_whose_file_was_edited_differs_with_both_texts(
    project: ProjectFolder,
) -> None:
    write(project)
    task_id = await task(project)
    assert (await replayed(project, task_id)).equal
    write(project, "milk")
    report = await replayed(project, task_id)
    assert report.difference
    assert (report.difference.kind, report.difference.path) == ("prompt", "task/1")
    assert report.difference.summary == "the definition of the agent 'clerk' changed: instructions"
    assert report.warnings == ()
    shown = changes(report)
    assert shown["/instructions/0"] == ("You sell tea.", "You sell milk.")
    assert "You sell tea." in shown["/system"][0]
    assert "You sell milk." in shown["/system"][1]


@pytest.mark.parametrize(
    ("more", "pointer"),
    [
        ({"description": "Price of milk."}, "/tools/price/description"),
        ({"input_schema": "{type: object, maxProperties: 1}"}, "/tools/price/input_schema/maxPr"),
    ],
)
async def test_a_tool_whose_text_or_schema_changed_is_named(
    project: ProjectFolder, more: dict[str, str], pointer: str
) -> None:
    write(project)
    task_id = await task(project)
    write(project, **more)
    report = await replayed(project, task_id)
    assert report.difference
    assert (report.difference.kind, report.difference.path) == ("tools", "task/1")
    assert report.difference.summary.startswith("the tools price are offered with another")
    assert [each.startswith(pointer) for each in changes(report)] == [True]


async def test_a_tool_that_was_changed_back_is_the_same_for_the_first_task_alone(
    project: ProjectFolder,
) -> None:
    write(project)
    first = await task(project)
    write(project, description="Price of milk.")
    second = await task(project)
    write(project)
    assert (await replayed(project, first)).equal
    assert not (await replayed(project, second)).equal


async def test_a_saved_task_has_the_definitions_of_its_agents(project: ProjectFolder) -> None:
    write(project)
    task_id = await task(project)
    async with project.opened(model=ScriptedModel([]), settings=SETTINGS) as runtime:
        saved = await recorded(runtime, task_id, runtime.local)
        file = await saved.to_file(runtime.parts.storage.blobs, b"secret")
    assert len(json.loads(file)["definitions"]) == 1
    write(project, "milk")
    async with project.opened(model=ScriptedModel([]), settings=SETTINGS) as runtime:
        task_of_file = SavedTask.from_file(file, "a.json")
        report = await replay_saved(runtime, task_of_file, ReplayOptions())
    assert changes(report)["/instructions/0"] == ("You sell tea.", "You sell milk.")


@pytest.mark.parametrize(
    ("then", "now", "expected"),
    [
        (["Sell tea."], ["Sell milk."], "First. Sell tea. Last."),
        (["A.", "B."], ["Sell milk."], None),
        (["A."], ["gone"], None),
        (["A."], [""], None),
    ],
)
def test_the_old_prompt_is_known_if_the_new_instructions_are_in_the_new_one(
    then: list[str], now: list[str], expected: str | None
) -> None:
    system = "First. Sell milk. Last."
    assert system_then(system, {"instructions": then}, {"instructions": now}) == expected
