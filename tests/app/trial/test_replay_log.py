"""The log of a replay writes nothing."""

import pytest

from penstock import ReplayChanges
from penstock.chat.requests import NewCall
from penstock.core.ids import LogId
from penstock.store.projections import Page
from penstock.testing.runtime import MemoryStorage
from tests.kit.project import ProjectFolder
from tests.kit.replays import one_task, replayed


async def test_neither_the_log_nor_its_blobs_change() -> None:
    place = MemoryStorage()
    await one_task(place)
    (task,), _ = await place.log.tasks(page=Page(limit=1))
    before = await place.log.read(LogId(task.log_id))
    assert (await replayed(place)).equal
    changes = ReplayChanges(tools={"note_down": {"requires_approval": True}})
    assert not (await replayed(place, changes=changes)).equal
    assert await place.log.read(LogId(task.log_id)) == before
    assert await place.log.pending(limit=9) == []


SCRIPT = """
    export async function run({ a }: { a: number }) {
      const got = await flo.callTool({ tool_id: "one", input: { a } });
      await flo.state.put({ scope_kind: "session" as const, key: "count.n", value: a });
      return { got: got.output, at: Date.now(), dice: Math.random() };
    }
"""
STATE = "[{name: c, key_prefix: count., scope_kind: session}]"


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("", "", None),
        ("return {", "return { more: 1,", ("code", "task/0/sum#1")),
        ("input: { a }", "input: { a: a + 1 }", ("tool_input", "task/0/sum#1/one#1")),
    ],
)
async def test_a_script_is_entered_again_and_what_it_asks_comes_from_the_log(
    project: ProjectFolder, before: str, after: str, found: tuple[str, str] | None
) -> None:
    """A changed script that asks the same and returns something else differs in its code."""
    project.tool("one", "export async function run() { return 1; }", effect="read")
    project.tool("sum", SCRIPT, state=STATE, script_tools="[one]")
    async with project.opened() as runtime:
        task_id = await runtime.start_call(NewCall(tool_id="sum", input={"a": 1}))
        assert (await runtime.attach(task_id).reply()).status == "succeeded"
    project.tool("one", "export async function run() { throw new Error(); }", effect="read")
    project.tool("sum", SCRIPT.replace(before, after), state=STATE, script_tools="[one]")
    async with project.opened() as runtime:
        report = await runtime.replay(task_id)
    difference = report.difference
    assert (difference and (difference.kind, difference.path)) == found


async def test_a_tool_of_a_script_that_is_gone_is_named_with_the_nearest(
    project: ProjectFolder,
) -> None:
    project.tool("one", "export async function run() { return 1; }", effect="read")
    project.tool("sum", SCRIPT, state=STATE, script_tools="[one]")
    async with project.opened() as runtime:
        task_id = await runtime.start_call(NewCall(tool_id="sum", input={"a": 1}))
        assert (await runtime.attach(task_id).reply()).status == "succeeded"
    (project.root / "tools/one.tool.yaml").rename(project.root / "tools/once.tool.yaml")
    renamed = (project.root / "tools/once.tool.yaml").read_text().replace("name: one", "name: once")
    project.write("tools/once.tool.yaml", renamed)
    project.tool("sum", SCRIPT, state=STATE, script_tools="[once]")
    async with project.opened() as runtime:
        difference = (await runtime.replay(task_id)).difference
    assert difference
    assert (difference.kind, difference.path) == ("tool_missing", "task/0/sum#1/one#1")
    assert "Did you mean 'once'?" in difference.now["error"]["message"]


async def test_a_direct_call_whose_tool_is_gone_is_named(project: ProjectFolder) -> None:
    project.tool("one", "export async function run() { return 1; }")
    async with project.opened() as runtime:
        task_id = await runtime.start_call(NewCall(tool_id="one", input={}))
        await runtime.attach(task_id).reply()
    (project.root / "tools/one.tool.yaml").unlink()
    async with project.opened() as runtime:
        difference = (await runtime.replay(task_id)).difference
    assert difference
    assert (difference.kind, difference.path) == ("tool_missing", "task/0/one#1")
