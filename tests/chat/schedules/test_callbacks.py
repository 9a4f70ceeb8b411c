"""What schedules start: their time zone, and the conversation that their messages stay in."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.agents.agent import Agent, ChatSettings
from penstock.app.runtime import Runtime
from penstock.chat.schedules.definition import NewSchedule, Schedule
from penstock.core.ids import LogId
from penstock.core.profile import Profile
from penstock.testing.clock import FakeClock
from tests.kit.server import in_memory

HELSINKI = ChatSettings(calendar_timezone="Europe/Helsinki")
AGENTS = [Agent("clerk", settings=HELSINKI), Agent("poet")]
SAME = {"content": "What is new?", "conversation": "same"}
ANN, BOB = Profile.named("ann", "manage"), Profile.named("bob", "manage")


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with in_memory(clock=FakeClock(), agents=AGENTS) as runtime:
        yield runtime


async def create(runtime: Runtime, **more: Any) -> Schedule:
    given = {"name": "News", "agent": "clerk", "cron": "0 8 * * *", "input": SAME}
    return await runtime.schedules.create(NewSchedule(**given | more), ANN)


@pytest.mark.parametrize(
    ("agent", "timezone", "expected"),
    [
        ("clerk", None, "Europe/Helsinki"),
        ("clerk", "Europe/Berlin", "Europe/Berlin"),
        ("poet", None, "UTC"),
    ],
)
async def test_a_schedule_without_a_time_zone_has_that_of_its_agent(
    runtime: Runtime, agent: str, timezone: str | None, expected: str
) -> None:
    """Spec: "Time zone: `timezone`, else `calendar_timezone`"."""
    schedule = await create(runtime, agent=agent, timezone=timezone)
    assert schedule.timezone == expected
    changed = await runtime.schedules.change(schedule.schedule_id, {"timezone": None})
    assert changed.timezone == ("Europe/Helsinki" if agent == "clerk" else "UTC")


@pytest.mark.parametrize(
    ("changes", "profile", "stays"),
    [
        ({"input": SAME | {"content": "And today?"}}, ANN, True),
        ({"suspension_seconds": 60, "resume_prompt": "Go on."}, ANN, True),
        ({"name": "Old news"}, BOB, True),
        ({"input": SAME | {"content": "And today?"}}, BOB, False),
        ({"callback_id": "poet"}, ANN, False),
        ({"input": {"content": "What is new?", "conversation": "new"}}, ANN, False),
    ],
)
async def test_changed_messages_stay_in_the_conversation_of_their_schedule(
    runtime: Runtime, changes: dict[str, Any], profile: Profile, *, stays: bool
) -> None:
    """A conversation belongs to one profile and one agent: another one begins another."""
    schedule = await create(runtime)
    changed = await runtime.schedules.change(schedule.schedule_id, changes, profile)
    assert (changed.session_id == schedule.session_id) is stays
    assert (changed.session_id is None) is (changes.get("input", SAME)["conversation"] == "new")


async def test_a_conversation_that_was_deleted_is_replaced_by_a_new_one(runtime: Runtime) -> None:
    schedule = await create(runtime)
    parts = runtime.parts.storage.database_parts
    assert parts is not None
    assert schedule.session_id is not None
    await parts.erasure.erase_log(LogId(schedule.session_id))
    changed = await runtime.schedules.change(schedule.schedule_id, {"input": SAME}, ANN)
    assert changed.session_id not in {None, schedule.session_id}
    assert await runtime.schedules.run(schedule.schedule_id)


async def test_a_conversation_of_another_schedule_is_not_its_own(runtime: Runtime) -> None:
    """From a named conversation to `same`: the schedule opens its own one."""
    reply = await runtime.chat("Hi", agent="clerk", profile=ANN)
    named = {"content": "What is new?", "conversation": reply.session}
    schedule = await create(runtime, input=named)
    assert schedule.session_id == reply.session
    changed = await runtime.schedules.change(schedule.schedule_id, {"input": SAME}, ANN)
    assert changed.session_id not in {None, reply.session}
