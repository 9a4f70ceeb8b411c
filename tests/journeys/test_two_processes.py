"""Children, schedules, undos and retries in two processes on one database: SQLite and Postgres."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock import ToolContext, tool
from penstock.app.runtime import Runtime
from penstock.chat.schedules.definition import NewSchedule
from penstock.core.call_errors import ScheduleBusy
from penstock.core.clock import SystemClock
from penstock.core.ids import TaskId
from penstock.core.limits import Limits
from penstock.core.task import TaskRecord, TaskStatus
from penstock.models.model import ModelRequest
from penstock.models.scripted import Hold, ScriptedModel, ScriptedReply, call, fail, say, wait
from penstock.store.projections import Page, TasksOf
from tests.kit.assistant import agent
from tests.kit.server import in_memory

pytestmark = pytest.mark.slow("two runtimes, on a database that is really written")
LIMITS: dict[str, Any] = {
    "lease_seconds": 2,
    "poll_seconds": 0.02,
    "sweep_seconds": 0.05,
    "shutdown_seconds": 0,
}
CLOCK = SystemClock()
GONE = {TaskStatus.CANCELLED}


@dataclass
class Shop:
    """Tools that both processes have, and what they did."""

    did: list[str] = field(default_factory=list)
    may_wait: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the parent may wait for its child, and so give its place away."""

    @property
    def tools(self) -> list[Any]:
        """The tools."""

        @tool(effect="none")
        async def plan(ctx: ToolContext) -> list[Any]:
            """Have a child do it."""
            child = await ctx.spawn("Find the tea", key="tea")
            await self.may_wait.wait()
            return [each.status for each in await ctx.gather(child, settled=True)]

        @tool
        def give_back(input: dict[str, str], output: str) -> str:
            """Give it back."""
            self.did.append(f"give back {output}")
            return output

        @tool(revert=give_back, direct_call=True)
        def buy(item: str) -> str:
            """Buy it."""
            self.did.append(f"buy {item}")
            return item

        return [plan, give_back, buy]


class Clerk:
    """The model of one process, and the messages that it answered."""

    def __init__(self, hang: Hold | None = None) -> None:
        self.answered: list[str] = []
        self._hang = hang
        self.model = ScriptedModel(self._answer)

    def _answer(self, request: ModelRequest) -> ScriptedReply:
        first, *more = (each.content for each in request.messages)
        self.answered.append(first.split("\n")[0])
        if first.startswith("Go"):
            return say("All done.") if more else call("plan")
        return say("3 EUR") if self._hang is None else wait(self._hang)


@dataclass(frozen=True)
class Both:
    """Two runtimes on one database; the first one has a place for one task."""

    here: Runtime
    there: Runtime
    clerks: tuple[Clerk, Clerk]
    shop: Shop


@pytest.fixture
def opened(database_url: str) -> Callable[..., Any]:
    """Opens both."""

    @asynccontextmanager
    async def opened(hang: Hold | None = None, **more: Any) -> AsyncIterator[Both]:
        shop, clerks = Shop(), (Clerk(), Clerk(hang))
        first, second = (more.get("model", each.model) for each in clerks)
        agents = [agent(budget_model_calls=more.get("most", 100))]
        given: dict[str, Any] = {"url": database_url, "tools": shop.tools, "agents": agents}
        narrow, wide = Limits(activations=1, **LIMITS), Limits(**LIMITS)
        async with (
            in_memory(model=first, limits=narrow, **given) as here,
            in_memory(model=second, limits=wide, **given) as there,
        ):
            yield Both(here, there, clerks, shop)

    return opened


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(10):
        while not await holds():
            await CLOCK.sleep(0.01)


async def children(runtime: Runtime, root: str) -> list[TaskRecord]:
    of = TasksOf(root_id=TaskId(root))
    found, _ = await runtime.parts.storage.projections.tasks(of=of, page=Page(limit=9))
    return list(found)


async def status(runtime: Runtime, task_id: str) -> TaskStatus | None:
    record = await runtime.parts.storage.projections.find_task(TaskId(task_id))
    return None if record is None else record.status


async def test_a_child_runs_in_another_process_than_its_parent(opened: Callable[..., Any]) -> None:
    """The parent keeps the only place of its process until its child has ended elsewhere."""
    async with opened() as both:
        run = await both.here.start("Go")

        async def has_ended() -> bool:
            found = await children(both.there, run.task_id)
            return [each.status for each in found] == [TaskStatus.SUCCEEDED]

        await until(has_ended)
        assert both.clerks[1].answered == ["Find the tea"]
        both.shop.may_wait.set()
        for runtime in (both.here, both.there):
            reply = await runtime.requests.wait(run.task_id)
            assert reply
            assert (reply.status, reply.content) == (TaskStatus.SUCCEEDED, "All done.")
        answered = both.clerks[0].answered + both.clerks[1].answered
        assert sorted(answered) == ["Find the tea", "Go", "Go"]


@pytest.mark.parametrize(("most", "finish"), [(2, "budget_exceeded"), (3, "stop")])
async def test_a_parent_spends_what_its_child_left_in_another_process(
    opened: Callable[..., Any], most: int, finish: str
) -> None:
    """The parent asks its model twice, its child once."""
    async with opened(most=most) as both:
        run = await both.here.start("Go")

        async def has_ended() -> bool:
            found = await children(both.there, run.task_id)
            return [each.status for each in found] == [TaskStatus.SUCCEEDED]

        await until(has_ended)
        both.shop.may_wait.set()
        reply = await both.here.requests.wait(run.task_id)
        assert reply
        assert (reply.status, reply.finish_reason) == (TaskStatus.SUCCEEDED, finish)


@pytest.mark.parametrize("where", ["here", "there"])
async def test_a_cancel_reaches_a_child_in_another_process(
    opened: Callable[..., Any], where: str
) -> None:
    """It is requested in the process of the parent, or in that of the child."""
    hang = Hold()
    async with opened(hang) as both:
        run = await both.here.start("Go")
        await hang.reached()
        both.shop.may_wait.set()
        (child,) = await children(both.here, run.task_id)
        await getattr(both, where).requests.cancel(run.task_id)

        async def are_gone() -> bool:
            return {await status(both.here, each) for each in (run.task_id, child.task_id)} == GONE

        await until(are_gone)
        assert both.clerks[1].answered == ["Find the tea"]


async def test_undos_of_two_processes_are_one(opened: Callable[..., Any]) -> None:
    model = ScriptedModel([call("buy", item="tea"), call("buy", item="cup"), say("Done.")])
    async with opened(model=model) as both:
        reply = await both.here.chat("Buy")
        asked = [each.undo(reply.task_id) for each in (both.here, both.there) * 3]
        undos = await asyncio.gather(*asked)
        assert {each.undo_id for each in undos} == {f"undo_{reply.task_id}"}
        assert {each.status for each in undos} == {"succeeded"}
        assert both.shop.did == ["buy tea", "buy cup", "give back cup", "give back tea"]


@pytest.mark.parametrize("resume", [False, True])
async def test_retries_of_two_processes_are_one(
    opened: Callable[..., Any], *, resume: bool
) -> None:
    model = ScriptedModel([call("buy", item="tea"), fail(400), say("Now."), say("Never.")])
    async with opened(model=model) as both:
        failed = await both.here.chat("Buy")
        asked = [each.retry(failed.task_id, resume=resume) for each in (both.here, both.there) * 3]
        (retry,) = set(await asyncio.gather(*asked))
        reply = await both.there.requests.wait(retry)
        assert reply
        assert (reply.status, reply.content) == (TaskStatus.SUCCEEDED, "Now.")
        assert both.shop.did == ["buy tea"]


async def test_a_schedule_of_one_process_is_run_and_paused_by_another(
    opened: Callable[..., Any],
) -> None:
    """Both run it now, at the same time: one task, as its tasks must not overlap."""
    hold = Hold()
    async with opened(model=ScriptedModel({"": wait(hold) + say("News.")})) as both:
        new = NewSchedule(name="News", cron="0 8 * * *", input={"content": "New?"})
        schedule = await both.here.schedules.create(new)
        asked = [each.schedules.run(schedule.schedule_id) for each in (both.here, both.there)]
        started = await asyncio.gather(*asked, return_exceptions=True)
        (task_id,) = (each for each in started if not isinstance(each, BaseException))
        assert sum(isinstance(each, ScheduleBusy) for each in started) == 1
        hold.release()
        for runtime in (both.here, both.there):
            reply = await runtime.requests.wait(task_id)
            assert reply
            assert reply.content == "News."
        await both.there.schedules.pause(schedule.schedule_id)
        assert (await both.here.schedules.get(schedule.schedule_id)).status == "paused"
