"""`runtime.schedules`: what programs call."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.chat.schedules.definition import NewSchedule, ScheduleStatus
from penstock.core.call_errors import NotAvailable
from penstock.core.errors import NotFound, ReadOnly
from penstock.core.limits import Limits
from penstock.core.profile import Profile
from penstock.core.reply import AssistantMessage, Message
from penstock.models.scripted import ScriptedModel, say
from penstock.store.projections import Page
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import memory_runtime
from tests.kit.server import in_memory

NEWS = NewSchedule(
    name="News",
    cron="* * * * *",
    input={"content": "What is new?", "conversation": "same"},
)
LIMITS = Limits(shutdown_seconds=0)


async def test_the_answers_of_each_minute_are_in_one_conversation_over_a_restart(
    tmp_path: Path,
) -> None:
    clock, url = FakeClock(), f"sqlite:///{tmp_path}/one.db"
    opened: dict[str, Any] = {"url": url, "clock": clock, "limits": LIMITS}
    schedule_id = ""
    answers: Sequence[Message] = ()
    for start in (0, 2):
        model = ScriptedModel([say(f"News {start + each}.") for each in (1, 2)])
        async with in_memory(model=model, **opened) as runtime:
            if not schedule_id:
                schedule_id = (await runtime.schedules.create(NEWS)).schedule_id
            for _ in range(2):
                clock.advance(60)
                assert runtime.schedules.ticker is not None
                await runtime.schedules.ticker.look()
                await runtime.parts.engine.launcher.rest()
            (session,) = await runtime.sessions()
            answers = await runtime.history(session.id)
    assert [each.text for each in answers if isinstance(each, AssistantMessage)] == [
        f"News {each}." for each in (1, 2, 3, 4)
    ]


async def test_a_schedule_with_the_same_id_is_created_once() -> None:
    async with in_memory(clock=FakeClock()) as runtime:
        first = await runtime.schedules.create(NEWS, schedule_id="sched_1")
        again = await runtime.schedules.create(NEWS, schedule_id="sched_1")
        assert again == first
        assert (await runtime.schedules.list())[1] == 1


async def test_a_schedule_of_a_file_is_read_only_but_can_run_and_pause() -> None:
    async with in_memory(clock=FakeClock()) as runtime:
        schedule_id = (await runtime.schedules.create(NEWS)).schedule_id
        parts = runtime.parts.storage.database_parts
        assert parts is not None
        await parts.schedules.change(schedule_id, {"source": "file"})
        for refused in (
            runtime.schedules.change(schedule_id, {"name": "Mine"}),
            runtime.schedules.delete(schedule_id),
        ):
            with pytest.raises(ReadOnly, match="change the file"):
                await refused
        assert await runtime.schedules.run(schedule_id)
        assert (await runtime.schedules.pause(schedule_id)).status is ScheduleStatus.PAUSED


async def test_a_schedule_that_is_over_is_not_paused_and_so_not_resumed() -> None:
    """It would be active without a due time."""
    clock = FakeClock()
    async with in_memory(clock=clock) as runtime:
        once = NewSchedule(name="Once", delay_seconds=5, input={"content": "Hi"})
        schedule_id = (await runtime.schedules.create(once)).schedule_id
        clock.advance(5)
        assert runtime.schedules.ticker is not None
        await runtime.schedules.ticker.look()
        for is_paused in (True, False):
            schedule = await runtime.schedules.change(schedule_id, {"is_paused": is_paused})
            assert (schedule.status, schedule.next_run) == (ScheduleStatus.COMPLETED, None)
        later = {"delay_seconds": 5, "is_paused": True}
        assert (await runtime.schedules.change(schedule_id, later)).status is ScheduleStatus.PAUSED


async def test_erasing_a_profile_deletes_its_schedules() -> None:
    async with in_memory(clock=FakeClock()) as runtime:
        ann = Profile.named("ann", "chat")
        schedule_id = (await runtime.schedules.create(NEWS, ann)).schedule_id
        parts = runtime.parts.storage.database_parts
        assert parts is not None
        await parts.erasure.erase_profile(ann.profile_id)
        with pytest.raises(NotFound):
            await runtime.schedules.get(schedule_id)


async def test_tasks_name_the_schedule_that_started_them() -> None:
    async with in_memory(clock=FakeClock(), limits=LIMITS) as runtime:
        schedule = await runtime.schedules.create(NEWS)
        await runtime.schedules.run(schedule.schedule_id)
        await runtime.parts.engine.launcher.rest()
        found, _ = await runtime.parts.storage.projections.tasks(page=Page())
        assert [each.schedule_id for each in found] == [schedule.schedule_id]


async def test_a_runtime_in_memory_has_no_schedules() -> None:
    async with memory_runtime() as runtime:
        with pytest.raises(NotAvailable, match="database"):
            await runtime.schedules.create(NEWS)


async def test_a_profile_that_writes_the_prompt_after_a_wait_becomes_the_owner() -> None:
    """The prompt is a message: a key with `manage` must not send it as another profile."""
    async with in_memory(clock=FakeClock()) as runtime:
        ann, bob = Profile.named("ann", "admin"), Profile.named("bob", "manage")
        made = await runtime.schedules.create(
            NewSchedule(name="News", cron="@daily", input={"content": "What is new?"}), ann
        )
        waits = {"suspension_seconds": 60, "resume_prompt": "Delete everything."}
        changed = await runtime.schedules.change(made.schedule_id, waits, bob)
        assert (changed.profile_id, changed.permissions) == ("bob", ("manage",))
        renamed = await runtime.schedules.change(made.schedule_id, {"name": "Old"}, ann)
        assert renamed.profile_id == "bob"
