"""Effects of the end of a task: what is cancelled with it, and what continues."""

import pytest

from penstock import ToolContext
from penstock.app.runtime import Runtime
from penstock.chat.recorded.fork import ForkRequest
from penstock.chat.requests import NewCall, NewMessage
from penstock.core.errors import InvalidRequest
from penstock.core.events.child_events import ChildrenSpawned
from penstock.core.ids import LogId, TaskId
from penstock.core.task import TaskStatus
from tests.kit.children import below, family, until

RUNNING, CANCELLED = TaskStatus.RUNNING, TaskStatus.CANCELLED


async def started(runtime: Runtime, count: int) -> TaskId:
    """Call the tool, and wait until so many of its children work."""
    task_id = await runtime.start_call(NewCall(tool_id="plan", input={}))
    await until(runtime, task_id, RUNNING, count)
    return TaskId(task_id)


async def test_children_are_cancelled_with_their_parent() -> None:
    async def plan(ctx: ToolContext) -> object:
        first = await ctx.spawn("Hang", key="first")
        second = await ctx.spawn("Now add them", key="second", after={"first": first})
        return await ctx.gather(first, second)

    async with family(plan) as runtime:
        root = await started(runtime, 1)
        await until(runtime, root, TaskStatus.BLOCKED, 1)
        assert {key: each.status for key, each in (await below(runtime, root)).items()} == {
            "first": RUNNING,
            "second": TaskStatus.BLOCKED,
        }
        await runtime.requests.cancel(root)
        await until(runtime, root, CANCELLED, 2)
        assert len(await below(runtime, root)) == 2


async def test_a_child_that_nothing_waits_for_outlives_a_parent_that_succeeds() -> None:
    async def plan(ctx: ToolContext) -> str:
        await ctx.spawn("Hang", key="first")
        return "done"

    async with family(plan) as runtime:
        root = await started(runtime, 1)
        reply = await runtime.requests.wait(root)
        assert reply
        assert reply.status is TaskStatus.SUCCEEDED
        assert not (await below(runtime, root))["first"].status.is_final


async def test_a_child_is_cancelled_with_a_parent_that_fails() -> None:
    async def plan(ctx: ToolContext) -> str:
        await ctx.spawn("Hang", key="first")
        raise ValueError("no")

    async with family(plan) as runtime:
        root = await started(runtime, 0)
        reply = await runtime.requests.wait(root)
        assert reply
        assert reply.status is TaskStatus.FAILED
        await until(runtime, root, CANCELLED, 1)
        assert {key: each.status for key, each in (await below(runtime, root)).items()} == {
            "first": CANCELLED
        }


async def test_a_task_is_not_cancelled_with_one_that_waits_for_it() -> None:
    """wider.md §2.2: never its prerequisites."""

    async def plan(ctx: ToolContext) -> object:
        first = await ctx.spawn("Hang", key="first")
        after = await ctx.spawn("Now add them", key="after", after={"first": first})
        await ctx.gather(after, settled=True)
        return await ctx.gather(first)

    async with family(plan) as runtime:
        root = await started(runtime, 1)
        await until(runtime, root, TaskStatus.BLOCKED, 1)
        await runtime.requests.cancel((await below(runtime, root))["after"].task_id)
        await until(runtime, root, CANCELLED, 1)
        assert not (await below(runtime, root))["first"].status.is_final


async def test_a_task_that_is_cancelled_in_the_queue_is_reported_while_another_one_works() -> None:
    queued = ""

    async def plan(ctx: ToolContext) -> object:
        last = await ctx.spawn("Now add them", key="last", after={"q": queued}, settled=True)
        return await ctx.gather(last)

    async with family(plan) as runtime:
        works = await runtime.requests.send(NewMessage(content="Hang"))
        waits = NewMessage(content="Go", session_id=works.session_id)
        queued = (await runtime.requests.send(waits)).task_id
        root = await started(runtime, 0)
        await until(runtime, root, TaskStatus.BLOCKED, 1)
        await runtime.requests.cancel(queued)
        reply = await runtime.requests.wait(root, seconds=10)
        assert reply
        assert reply.status is TaskStatus.SUCCEEDED
        assert (await runtime.requests.wait(works.task_id, seconds=0)) is None


FORKED = TaskId("task_plan")


async def one_child(ctx: ToolContext) -> object:
    (result,) = await ctx.gather(await ctx.spawn("Find the apples", key="a"), settled=True)
    return [result.status, result.code]


async def test_a_task_is_forked_before_its_children_or_after_their_ends() -> None:
    """In between the copy waited forever: children report to the task that requested them."""
    async with family(one_child) as runtime:
        await runtime.call("plan", {}, task_id=FORKED)
        log = runtime.parts.storage.log
        records = list(await log.read(LogId(FORKED)))
        (spawned,) = [each.seq for each in records if isinstance(each.event, ChildrenSpawned)]
        for seq in range(1, len(records)):
            wanted = ForkRequest(seq=seq)
            if seq == spawned:
                with pytest.raises(InvalidRequest) as refused:
                    await runtime.requests.fork(FORKED, wanted)
                assert f"before event {spawned}" in refused.value.problems[0]["issue"]
                continue
            fork = await runtime.requests.fork(FORKED, wanted)
            reply = await runtime.requests.wait(fork.task_id, seconds=10)
            assert reply is not None
            assert (reply.status, reply.envelope and reply.envelope.output) == (
                TaskStatus.SUCCEEDED,
                ["succeeded", ""],
            )


async def test_a_child_is_not_forked() -> None:
    async with family(one_child) as runtime:
        await runtime.call("plan", {}, task_id=FORKED)
        child = (await below(runtime, FORKED))["a"]
        with pytest.raises(InvalidRequest) as refused:
            await runtime.requests.fork(child.task_id, ForkRequest(seq=1))
        assert f"fork the task that requested it: {FORKED}" in refused.value.problems[0]["issue"]
