"""Replays of tasks that requested other tasks: each is compared, and none is requested again."""

import json
from typing import Any

import pytest

from penstock import Agent, ReplayChanges, ToolContext, tool
from penstock.app.runtime import Runtime
from penstock.app.trial.replay import recorded, replay_saved
from penstock.app.trial.saved_task import SavedTask
from penstock.chat.recorded.replay_report import ReplayOptions
from penstock.chat.requests import NewCall
from penstock.core.ids import LogId
from penstock.models.scripted import ScriptedModel, call, say
from penstock.store.projections import Page
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.children import below
from tests.kit.project import ProjectFolder
from tests.kit.simulated_processes import Stage

RAN: list[str] = []


@tool(effect="read")
def price(item: str) -> str:
    """Return a price."""
    RAN.append(item)
    return f"3 EUR for {item}"


@tool(effect="none")
async def plan(ctx: ToolContext) -> Any:
    """Ask two children."""
    one = await ctx.spawn("Find the apples", key="one")
    two = await ctx.spawn("Find the pears", key="two")
    return await ctx.gather(one, two)


SCRIPT = {
    "Go": [call("plan"), say("All done.")],
    "the apples": [call("price", item="apples"), say("3 EUR")],
    "the pears": [say("4 EUR")],
}
TOOLS = [plan, price]
DEARER = {"price": {"requires_approval": True}}


async def family(place: MemoryStorage) -> tuple[str, str]:
    """Run a task with two children; return its id, and that of the child that calls a tool."""
    async with memory_runtime(model=ScriptedModel(SCRIPT), tools=TOOLS, place=place) as runtime:
        reply = await runtime.chat("Go")
        assert reply.content == "All done."
        children = await below(runtime, reply.task_id)
    RAN.clear()
    return reply.task_id, children["one"].task_id


def again(place: MemoryStorage, *tools: Any) -> Any:
    """Another runtime on the storage, whose model has no replies."""
    return memory_runtime(model=ScriptedModel([]), tools=tools or TOOLS, place=place)


async def test_children_are_compared_with_the_task_and_run_nothing() -> None:
    place = MemoryStorage()
    task_id, child_id = await family(place)
    async with again(place) as runtime:
        report, of_child = await runtime.replay(task_id), await runtime.replay(child_id)
    assert (report.equal, report.stopped, report.warnings, RAN) == (True, "end", (), [])
    assert report.compared_events == report.total_events > of_child.total_events > 3
    assert of_child.equal


async def test_a_difference_in_a_child_is_named_with_the_child() -> None:
    place = MemoryStorage()
    task_id, child_id = await family(place)
    async with again(place) as runtime:
        report = await runtime.replay(task_id, changes=ReplayChanges(tools=DEARER))
        until = await runtime.replay(task_id, changes=ReplayChanges(tools=DEARER), until=4)
    assert report.difference
    expected = ("permission", f"child/{child_id}/1/price#1")
    assert (report.difference.kind, report.difference.path) == expected
    assert report.stopped == "difference"
    assert until.equal  # it names an event of the task itself


async def test_of_two_differences_the_one_that_was_recorded_first_counts() -> None:
    place = MemoryStorage()
    task_id, _ = await family(place)
    changes = ReplayChanges(tools=DEARER | {"plan": {"output_schema": {"type": "string"}}})
    async with again(place) as runtime:
        report = await runtime.replay(task_id, changes=changes)
        prompt = await runtime.replay(task_id, changes=ReplayChanges(system_prompt="Be brief."))
    assert report.difference
    assert report.difference.path.startswith("child/")
    assert prompt.difference
    assert prompt.difference.path == "task/1"


async def test_a_child_that_was_erased_is_named_in_a_warning(project: ProjectFolder) -> None:
    agent = Agent("assistant", model=ScriptedModel(SCRIPT))
    async with project.opened(agents=[agent], tools=TOOLS) as runtime:
        reply = await runtime.chat("Go")
        child_id = (await below(runtime, reply.task_id))["one"].task_id
        stored = runtime.parts.storage.database_parts
        assert stored
        await stored.erasure.erase_log(LogId(child_id))
        report = await runtime.replay(reply.task_id)
    assert report.equal
    assert report.warnings == (f"{child_id} was erased, or has not ended: not compared",)


async def test_a_saved_task_has_its_children() -> None:
    place = MemoryStorage()
    task_id, child_id = await family(place)
    async with again(place) as runtime:
        task = await recorded(runtime, task_id, runtime.local)
        file = await task.to_file(runtime.parts.storage.blobs, b"another secret")
    assert json.loads(file)["children"][0]["taskId"] == child_id
    async with again(MemoryStorage()) as runtime:  # a machine of CI, which knows no task
        same = await replay_saved(runtime, SavedTask.from_file(file, "a.json"), ReplayOptions())
        options = ReplayOptions(changes=ReplayChanges(tools=DEARER))
        other = await replay_saved(runtime, SavedTask.from_file(file, "a.json"), options)
    assert same.equal, same.difference
    assert other.difference
    assert other.difference.path == f"child/{child_id}/1/price#1"


SPAWNS = """
    export async function run() {
      const child = await flo.task.spawn({ key: "KEY", title: "t", objective: "Find the pears",
        input: 1, input_schema: {}, output_schema: null } as any);
      return (await flo.task.waitForDependencies({ key: "w",
        dependencies: [{ task_id: child.task_id, alias: "it" }] }))["it"]!.status;
    }
"""


async def count_of_tasks(runtime: Runtime) -> int:
    """How many tasks are stored."""
    _, total = await runtime.parts.storage.projections.tasks(page=Page())
    return total


@pytest.mark.parametrize(
    ("key", "found"),
    [("one", None), ("other", ("code", "task/0/ask#1", "be requested now"))],
)
async def test_a_script_that_requests_another_child_differs_and_makes_none(
    project: ProjectFolder, key: str, found: tuple[str, str, str] | None
) -> None:
    place = MemoryStorage()
    project.tool("ask", SPAWNS.replace("KEY", "one"))
    async with Stage(project, place=place).opened(model=ScriptedModel(SCRIPT)) as runtime:
        task_id = await runtime.start_call(NewCall(tool_id="ask", input={}))
        reply = await runtime.requests.wait(task_id)
        assert reply
        assert reply.envelope
        assert reply.envelope.output == "succeeded"
    project.tool("ask", SPAWNS.replace("KEY", key))
    async with Stage(project, place=place).opened(model=ScriptedModel([])) as runtime:
        report = await runtime.replay(task_id)
        assert await count_of_tasks(runtime) == 2
    difference = report.difference
    shown = difference and (difference.kind, difference.path, difference.summary)
    assert (shown and (*shown[:2], shown[2].partition(" would ")[2])) == found
    assert (report.compared_events == report.total_events) is (found is None)


async def test_a_live_replay_ends_where_a_child_would_be_requested(project: ProjectFolder) -> None:
    place = MemoryStorage()

    def clerk(model: ScriptedModel) -> Agent[Any, Any]:
        return Agent("clerk", tools=["ask"], model=model)

    project.tool("ask", "export async function run() { return 1; }")
    before = clerk(ScriptedModel([call("ask"), say("Done.")]))
    async with Stage(project, place=place).opened(agents=[before]) as runtime:
        task_id = (await runtime.chat("Go", agent=before)).task_id
    project.tool("ask", SPAWNS)
    after = clerk(ScriptedModel([call("ask"), say("Done.")]))
    changes = ReplayChanges(system_prompt="Be brief.")
    async with Stage(project, place=place).opened(agents=[after]) as runtime:
        report = await runtime.replay(task_id, live=True, changes=changes)
        assert await count_of_tasks(runtime) == 1
    assert report.stopped == "write"
    assert ["would be requested now" in each.summary for each in report.later] == [True]
