"""Trees of tasks: their levels, their usage, and what is cut."""

from typing import Any

from penstock import ToolContext
from penstock.app.runtime import Runtime
from penstock.chat.children.tree import Tree, tree_of
from penstock.core.ids import TaskId
from tests.kit.children import family


async def plan(ctx: ToolContext) -> object:
    children = [await ctx.spawn("Find the apples", key=str(number)) for number in range(3)]
    return await ctx.gather(*children)


async def seen(runtime: Runtime, task_id: str, **cut: Any) -> Tree:
    storage = runtime.parts.storage
    task = await storage.projections.find_task(TaskId(task_id))
    assert task is not None
    return await tree_of(storage.log, storage.projections, task, **cut)


async def test_a_tree_has_its_tasks_and_their_usage() -> None:
    async with family(plan) as runtime:
        reply = await runtime.chat("Go")
        whole = await seen(runtime, reply.task_id)
        shallow = await seen(runtime, reply.task_id, depth=0)
        small = await seen(runtime, reply.task_id, limit=2)
        leaf = await seen(runtime, whole.root.children[0].task.task_id)
    assert {each.task.task_key for each in whole.root.children} == {"0", "1", "2"}
    assert (whole.root.usage.model_calls, whole.root.total.model_calls) == (2, 5)
    assert not whole.is_truncated
    assert (shallow.root.children, shallow.is_truncated) == ([], True)
    assert (len(small.root.children), small.is_truncated) == (2, True)
    assert (leaf.root.children, leaf.root.total.model_calls) == ([], 1)
    wire = whole.to_wire()
    assert wire["task"]["totalUsage"]["modelCalls"] == 5
    assert {each["key"] for each in wire["children"]} == {"0", "1", "2"}
    assert "truncated" not in wire
