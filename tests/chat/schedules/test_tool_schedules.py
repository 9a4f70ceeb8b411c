"""Schedules that calls of tools create."""

import pytest

from penstock.chat.schedules.tool_schedules import ToolSchedules
from penstock.core.call_errors import ToolFailed
from penstock.core.profile import LOCAL_PROFILE
from penstock.testing.clock import FakeClock
from penstock.tools.resources import ScheduleRequest
from tests.kit.server import in_memory


def requested(schedule_id: str) -> ScheduleRequest:
    return ScheduleRequest(
        schedule_id=schedule_id,
        agent="assistant",
        profile=LOCAL_PROFILE,
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
        listed = await schedules.info_for_call(None, "assistant")
        assert {each["id"] for each in listed["results"]} == {"sched_1", "sched_2"}
        assert await schedules.info_for_call(None, "poet") == {"results": []}
