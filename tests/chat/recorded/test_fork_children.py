"""Forks of tasks with children: the copy waits for no child of the other task."""

import pytest

from penstock import ToolContext
from penstock.chat.recorded.fork import ForkRequest
from penstock.core.errors import InvalidRequest
from penstock.core.events.child_events import ChildrenSpawned
from penstock.core.ids import LogId, TaskId
from penstock.core.task import TaskStatus
from tests.kit.children import below, family

PLAN = TaskId("task_plan")


async def plan(ctx: ToolContext) -> object:
    (result,) = await ctx.gather(await ctx.spawn("Find the apples", key="a"), settled=True)
    return [result.status, result.code]


async def test_a_task_is_forked_before_its_children_or_after_their_ends() -> None:
    """In between the copy waited forever: children report to the task that requested them."""
    async with family(plan) as runtime:
        await runtime.call("plan", {}, task_id=PLAN)
        log = runtime.parts.storage.log
        records = list(await log.read(LogId(PLAN)))
        (spawned,) = [each.seq for each in records if isinstance(each.event, ChildrenSpawned)]
        for seq in range(1, len(records)):
            wanted = ForkRequest(seq=seq)
            if seq == spawned:
                with pytest.raises(InvalidRequest) as refused:
                    await runtime.requests.fork(PLAN, wanted)
                assert f"before event {spawned}" in refused.value.problems[0]["issue"]
                continue
            fork = await runtime.requests.fork(PLAN, wanted)
            reply = await runtime.requests.wait(fork.task_id, seconds=10)
            assert reply is not None
            assert (reply.status, reply.envelope and reply.envelope.output) == (
                TaskStatus.SUCCEEDED,
                ["succeeded", ""],
            )


async def test_a_child_is_not_forked() -> None:
    async with family(plan) as runtime:
        await runtime.call("plan", {}, task_id=PLAN)
        child = (await below(runtime, PLAN))["a"]
        with pytest.raises(InvalidRequest) as refused:
            await runtime.requests.fork(child.task_id, ForkRequest(seq=1))
        assert f"fork the task that requested it: {PLAN}" in refused.value.problems[0]["issue"]
