"""Schedules that calls of tools create."""

import pytest

from penstock.chat.schedules.tool_schedules import ToolSchedules
from penstock.core.call_errors import ToolFailed
from penstock.core.errors import NotFound
from penstock.core.profile import LOCAL_PROFILE, Profile
from penstock.testing.clock import FakeClock
from penstock.tools.resources import ScheduleRequest
from tests.kit.server import in_memory


def requested(schedule_id: str, profile: Profile = LOCAL_PROFILE) -> ScheduleRequest:
    return ScheduleRequest(
        schedule_id=schedule_id,
        agent="assistant",
        profile=profile,
        session_id=None,
        given={"name": "News", "cron": "@daily", "message": "What is new?"},
    )


async def test_a_call_that_runs_again_finds_its_schedule_even_at_the_limit() -> None:
    async with in_memory(clock=FakeClock()) as runtime:
        schedules = ToolSchedules(runtime.schedules, most=1)
        first = await schedules.create_by_call(requested("sched_1"))
        assert await schedules.create_by_call(requested("sched_1")) == first
        with pytest.raises(ToolFailed, match="1 active schedules, which is the limit"):
            await schedules.create_by_call(requested("sched_2"))
        await runtime.schedules.pause("sched_1")
        assert (await schedules.create_by_call(requested("sched_2")))["id"] == "sched_2"
        listed = await schedules.info_for_call(None, "assistant", LOCAL_PROFILE)
        assert {each["id"] for each in listed["results"]} == {"sched_1", "sched_2"}
        assert await schedules.info_for_call(None, "poet", LOCAL_PROFILE) == {"results": []}


async def test_a_model_sees_no_schedules_of_other_people() -> None:
    """The name of a schedule says what a person wants to be reminded of."""
    ann, bob = Profile.named("ann", "chat"), Profile.named("bob", "chat")
    keeper = Profile.named("kim", "manage")
    async with in_memory(clock=FakeClock()) as runtime:
        schedules = ToolSchedules(runtime.schedules, most=5)
        await schedules.create_by_call(requested("sched_1", ann))
        assert await schedules.info_for_call(None, "assistant", bob) == {"results": []}
        with pytest.raises(NotFound, match="There is none"):
            await schedules.info_for_call("sched_1", "assistant", bob)
        for profile in (ann, keeper):
            assert await schedules.info_for_call("sched_1", "assistant", profile)
