"""Children are created, found, attended and cancelled."""

from penstock import ToolContext
from penstock.chat.requests import NewCall
from penstock.core.events.child_events import ChildRequested
from penstock.core.ids import LogId, TaskId
from penstock.core.profile import LOCAL_PROFILE, Profile
from penstock.core.task import TaskStatus
from penstock.store.projections import Page
from tests.kit.children import below, family, until

PAGE = Page()
ANN = Profile.named("ann", "read", "chat")


async def plan(ctx: ToolContext) -> object:
    first = await ctx.spawn("Find the apples", key="first")
    return await ctx.gather(first)


async def test_creating_a_child_again_leaves_it_as_it_is() -> None:
    async with family(plan) as runtime:
        await runtime.call("plan", {})
        tasks, _ = await runtime.parts.storage.projections.tasks(page=PAGE)
        child = next(each for each in tasks if each.task_key)
        port = runtime.parts.tools.callbacks.children
        assert port is not None
        (asked, *_) = await runtime.parts.storage.log.read(LogId(child.task_id))
        assert isinstance(asked.event, ChildRequested)
        await port.create([(child.task_id, asked.event)])
        again, total = await runtime.parts.storage.projections.tasks(page=PAGE)
    assert (again, total) == (tasks, 2)


async def test_a_task_of_another_profile_is_not_found() -> None:
    async with family(plan) as runtime:
        await runtime.call("plan", {})
        tasks, _ = await runtime.parts.storage.projections.tasks(page=PAGE)
        port = runtime.parts.tools.callbacks.children
        assert port is not None
        ids = [tasks[0].task_id, TaskId("task_9")]
        assert await port.find(ids, LOCAL_PROFILE) == [tasks[0], None]
        assert await port.find(ids, ANN) == [None, None]


async def test_a_task_and_all_below_it_are_cancelled_deepest_first() -> None:
    async def once(ctx: ToolContext) -> object:
        first = await ctx.spawn("Hang", key="first")
        second = await ctx.spawn("Hang", key="second")
        return await ctx.gather(first, second)

    async with family(once) as runtime:
        root = await runtime.start_call(NewCall(tool_id="plan", input={}))
        await until(runtime, root, TaskStatus.RUNNING, 2)
        port = runtime.parts.tools.callbacks.children
        assert port is not None
        cancelled = await port.cancel(TaskId(root), LOCAL_PROFILE)
        names = {each.task_id for each in (await below(runtime, root)).values()}
        assert cancelled[-1] == root
        assert set(cancelled[:-1]) == names
        await until(runtime, root, TaskStatus.CANCELLED, 2)
        assert await port.cancel(TaskId(root), LOCAL_PROFILE) == []
