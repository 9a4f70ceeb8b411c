"""The service that fires schedules: late, missed and simultaneous ticks, and clocks that jump."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.app.runtime import Runtime
from penstock.chat.schedules.definition import NewSchedule, Schedule, ScheduleStatus
from penstock.chat.schedules.rows import FAILURES, ScheduleRows
from penstock.core.events.events import MessageReceived
from penstock.core.events.schedule_events import ScheduleFired
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.core.profile import Profile
from penstock.core.task import TaskStatus
from penstock.models.scripted import ScriptedModel, call, fail, say
from penstock.store.database import Database, open_database
from penstock.store.projections import Page
from penstock.testing.clock import START, FakeClock
from penstock.tools.python.function import tool
from tests.kit.schedules import MINUTE
from tests.kit.server import in_memory

HOUR, DAY = 3600, 24 * 3600
LIMITS = Limits(shutdown_seconds=0)


@tool(effect="read", direct_call=True)
def look(place: str) -> str:
    """Look at a place."""
    return f"seen {place}"


@pytest.fixture
async def database(database_url: str) -> Database:
    return await open_database(database_url, limits=LIMITS)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def runtime(database: Database, clock: FakeClock) -> AsyncIterator[Runtime]:
    async with in_memory(url=database, clock=clock, tools=[look], limits=LIMITS) as runtime:
        yield runtime


async def create(runtime: Runtime, **more: Any) -> Schedule:
    kind = {} if {"at", "delay_seconds"} & more.keys() else {"cron": "* * * * *"}
    given = {"name": "News", "input": {"content": "What is new?"}} | kind | more
    return await runtime.schedules.create(NewSchedule(**given))


async def look_now(runtime: Runtime) -> None:
    """Let the schedules look at the clock, and wait for what they start."""
    assert runtime.schedules.ticker is not None
    await runtime.schedules.ticker.look()
    await runtime.parts.engine.launcher.rest()


async def read(runtime: Runtime, schedule: Schedule) -> Schedule:
    return await runtime.schedules.get(schedule.schedule_id)


async def tasks(runtime: Runtime) -> Counter[str]:
    """Return how many tasks there are of each kind and status."""
    found, _ = await runtime.parts.storage.projections.tasks(page=Page(limit=200))
    return Counter(f"{each.kind} {each.status.value}" for each in found)


async def test_a_message_is_sent_at_each_due_time(runtime: Runtime, clock: FakeClock) -> None:
    schedule = await create(runtime)
    await look_now(runtime)
    assert not await tasks(runtime)
    for count in (1, 2):
        clock.advance(60)
        await look_now(runtime)
        await look_now(runtime)
        assert await tasks(runtime) == {"message succeeded": count}
    after = await read(runtime, schedule)
    assert (after.last_status, after.missed) == (TaskStatus.SUCCEEDED, 0)
    assert after.next_run == START + 3 * MINUTE


@pytest.mark.parametrize("conversation", ["new", "same"])
async def test_messages_go_to_new_conversations_or_to_one(
    runtime: Runtime, clock: FakeClock, conversation: str
) -> None:
    content = {"content": "What is new?", "conversation": conversation}
    schedule = await create(runtime, input=content)
    for _ in range(3):
        clock.advance(60)
        await look_now(runtime)
    sessions, count = await runtime.parts.storage.projections.sessions(
        profile_id=runtime.local.profile_id, page=Page()
    )
    counts = {"new": (3, {2}), "same": (1, {6})}
    assert (count, {each.message_count for each in sessions}) == counts[conversation]
    assert {each.title for each in sessions} == {"News"}
    own = {each.session_id for each in sessions}
    assert (schedule.session_id in own) == (conversation == "same")


async def test_a_schedule_calls_a_tool_for_its_owner(runtime: Runtime, clock: FakeClock) -> None:
    ann = Profile.named("ann", "chat")
    given = {"callback_type": "function", "callback_id": "look", "input": {"place": "Lisbon"}}
    new = NewSchedule(name="Look", cron="* * * * *", **given)  # type: ignore[arg-type]
    schedule = await runtime.schedules.create(new, ann)
    clock.advance(60)
    await look_now(runtime)
    found, _ = await runtime.parts.storage.projections.tasks(page=Page())
    assert [(each.kind, each.profile_id, each.status) for each in found] == [
        ("call", "ann", TaskStatus.SUCCEEDED)
    ]
    assert (await read(runtime, schedule)).last_task_id == found[0].task_id


@pytest.mark.parametrize(
    ("more", "seconds", "count", "missed"),
    [
        ({"delay_seconds": 60}, 60, 1, 0),
        ({"delay_seconds": 60}, 60 + HOUR, 1, 0),
        ({"delay_seconds": 60}, 61 + HOUR, 0, 1),
        ({}, 10 * 60, 1, 9),
        ({"cron": "0 10 * * *"}, 5 * HOUR, 0, 1),
        ({"cron": "0 10 * * *"}, 30 * DAY + HOUR, 1, 30),
    ],
)
async def test_what_was_due_while_nothing_ran_fires_once_or_is_missed(
    runtime: Runtime,
    clock: FakeClock,
    more: dict[str, Any],
    seconds: int,
    *,
    count: int,
    missed: int,
) -> None:
    schedule = await create(runtime, **more)
    clock.advance(seconds)
    await look_now(runtime)
    after = await read(runtime, schedule)
    assert (sum((await tasks(runtime)).values()), after.missed) == (count, missed)
    is_over = "delay_seconds" in more
    assert after.status is (ScheduleStatus.COMPLETED if is_over else ScheduleStatus.ACTIVE)
    assert (after.next_run or clock.now() + 1) > clock.now()


async def test_several_processes_start_one_task_for_each_due_time(
    database: Database, clock: FakeClock
) -> None:
    """Both look at once, on one database, at 20 schedules and three due times."""
    opened: dict[str, Any] = {"url": database, "clock": clock, "limits": LIMITS}
    async with in_memory(**opened) as one, in_memory(**opened) as other:
        for number in range(20):
            await create(one, name=f"News {number}", concurrency="allow")
        for _ in range(3):
            clock.advance(60)
            await asyncio.gather(look_now(one), look_now(other))
        schedules, _ = await one.schedules.list(page=None)
        assert sum((await tasks(one)).values()) == 60
        assert {each.missed for each in schedules} == {0}


@pytest.mark.parametrize(("concurrency", "count", "missed"), [("forbid", 1, 2), ("allow", 3, 0)])
async def test_a_due_time_while_a_task_waits_is_missed_unless_it_is_allowed(
    database: Database, clock: FakeClock, concurrency: str, *, count: int, missed: int
) -> None:
    @tool(requires_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel({"": [call("pay"), say("Done.")]})
    opened: dict[str, Any] = {"url": database, "clock": clock, "limits": LIMITS}
    async with in_memory(model=model, tools=[pay], **opened) as runtime:
        schedule = await create(runtime, concurrency=concurrency)
        for _ in range(3):
            clock.advance(60)
            await look_now(runtime)
        assert await tasks(runtime) == {"message suspended": count}
        assert (await read(runtime, schedule)).missed == missed


async def test_ten_failures_in_a_row_pause_a_schedule_until_it_is_resumed(
    database: Database, clock: FakeClock
) -> None:
    model = ScriptedModel([fail(400)] * 30)
    async with in_memory(model=model, url=database, clock=clock, limits=LIMITS) as runtime:
        schedule = await create(runtime)
        for _ in range(FAILURES + 2):
            clock.advance(60)
            await look_now(runtime)
        after = await read(runtime, schedule)
        assert await tasks(runtime) == {"message failed": FAILURES}
        assert after.status is ScheduleStatus.PAUSED
        assert after.reason is not None
        assert "10 tasks failed" in after.reason
        resumed = await runtime.schedules.resume(schedule.schedule_id)
        assert (resumed.status, resumed.reason) == (ScheduleStatus.ACTIVE, None)
        clock.advance(60)
        await look_now(runtime)
        assert await tasks(runtime) == {"message failed": FAILURES + 1}


async def test_a_clock_that_goes_back_a_day_starts_nothing_twice(
    runtime: Runtime, clock: FakeClock
) -> None:
    """Due times that have their task pass without another one; then the schedule goes on."""
    schedule = await create(runtime)
    for _ in range(2):
        clock.advance(60)
        await look_now(runtime)
    clock.advance(-DAY)
    await look_now(runtime)
    assert (await read(runtime, schedule)).next_run == clock.now() + MINUTE
    clock.advance(DAY - 60)
    for count in (2, 2, 3):
        await look_now(runtime)
        assert sum((await tasks(runtime)).values()) == count, clock.now()
        clock.advance(60)


async def test_a_clock_that_was_a_month_ahead_silences_no_schedule(
    runtime: Runtime, clock: FakeClock
) -> None:
    schedule = await create(runtime, cron="0 * * * *")
    clock.advance(30 * DAY)
    await look_now(runtime)
    clock.advance(-30 * DAY)
    await look_now(runtime)
    assert (await read(runtime, schedule)).next_run == START + 1000 * HOUR
    clock.advance(HOUR)
    await look_now(runtime)
    assert sum((await tasks(runtime)).values()) == 2


async def test_a_schedule_that_cannot_start_is_paused_with_the_reason(
    runtime: Runtime, clock: FakeClock
) -> None:
    same = {"content": "What is new?", "conversation": "same"}
    gone, lost = await create(runtime, input=same), await create(runtime)
    parts = runtime.parts.storage.database_parts
    assert parts is not None
    assert gone.session_id is not None
    await parts.erasure.erase_log(LogId(gone.session_id))
    await parts.schedules.change(lost.schedule_id, {"timezone": "Mars/Base"})
    clock.advance(60)
    await look_now(runtime)
    for schedule, part in ((gone, "there is no log"), (lost, "Mars/Base")):
        after = await read(runtime, schedule)
        assert after.status is ScheduleStatus.PAUSED
        assert part in (after.reason or "")
    assert not await tasks(runtime)


async def test_a_full_conversation_misses_due_times(runtime: Runtime, clock: FakeClock) -> None:
    await runtime.parts.engine.launcher.close(seconds=0)
    same = {"content": "What is new?", "conversation": "same"}
    schedule = await create(runtime, input=same, concurrency="allow")
    for _ in range(10):
        clock.advance(60)
        await look_now(runtime)
    assert await tasks(runtime) == {"message queued": LIMITS.queued_tasks}
    assert (await read(runtime, schedule)).missed == 10 - LIMITS.queued_tasks


async def test_it_sleeps_until_the_next_due_time_and_wakes_for_a_new_schedule(
    runtime: Runtime, clock: FakeClock
) -> None:
    ticker = runtime.schedules.ticker
    assert ticker is not None
    assert await ticker.look() == LIMITS.sweep_seconds
    await create(runtime, delay_seconds=1)
    assert await ticker.look() == 1
    ticker.open()
    await clock.elapse(0.5)
    await create(runtime, delay_seconds=1)
    while (await tasks(runtime)).total() < 2:  # the threads of the database need real time
        await clock.elapse(0.1)
    await ticker.close()
    assert sum((await tasks(runtime)).values()) == 2


async def test_the_log_of_a_task_names_its_schedule(runtime: Runtime, clock: FakeClock) -> None:
    schedule = await create(runtime)
    clock.advance(60)
    await look_now(runtime)
    after = await read(runtime, schedule)
    (task,), _ = await runtime.parts.storage.projections.tasks(page=Page())
    assert after.last_task_id == task.task_id
    records = await runtime.parts.storage.log.read(task.log_id)
    (fired,) = [each.event for each in records if isinstance(each.event, ScheduleFired)]
    assert (fired.schedule_id, fired.due_at) == (schedule.schedule_id, START + MINUTE)
    asked = [each.event.content for each in records if isinstance(each.event, MessageReceived)]
    assert asked == ["What is new?"]


async def test_a_zone_that_is_gone_stops_no_other_schedule_after_the_clock_went_back(
    runtime: Runtime, database: Database, clock: FakeClock
) -> None:
    lost, other = await create(runtime), await create(runtime, name="Other")
    ahead = {"planned_at": START + DAY * 1000, "next_run": START + DAY * 1000}
    rows = ScheduleRows(database)
    await rows.change(lost.schedule_id, ahead | {"timezone": "Europe/Atlantis"})
    clock.advance(60)
    await look_now(runtime)
    assert (await read(runtime, lost)).reason == (
        "the time zone 'Europe/Atlantis' is unknown on this machine"
    )
    assert (await read(runtime, other)).last_status is TaskStatus.SUCCEEDED
