"""Schedules whose API key is revoked are paused, with the reason."""

from collections.abc import AsyncIterator

import pytest

from penstock.accounts.keys import Keys
from penstock.app.runtime import Runtime
from penstock.chat.schedules.definition import NewSchedule, Schedule, ScheduleStatus
from penstock.core.clock import Moment
from penstock.core.ids import ProfileId
from penstock.core.limits import Limits
from penstock.core.profile import Profile
from penstock.store.database import open_database
from penstock.store.projections import Page
from penstock.testing.clock import FakeClock
from tests.kit.server import in_memory

ANN = ProfileId("ann")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def runtime(database_url: str, clock: FakeClock) -> AsyncIterator[Runtime]:
    limits = Limits(shutdown_seconds=0)
    database = await open_database(database_url, limits=limits)
    async with in_memory(url=database, clock=clock, limits=limits) as runtime:
        yield runtime


@pytest.fixture
def keys(runtime: Runtime) -> Keys:
    parts = runtime.parts.storage.database_parts
    assert parts is not None
    return parts.keys


async def made(runtime: Runtime, profile: Profile | None = None) -> Schedule:
    new = NewSchedule(name="News", cron="* * * * *", input={"content": "What is new?"})
    return await runtime.schedules.create(new, profile)


async def reason(runtime: Runtime, schedule: Schedule) -> str | None:
    """Return why it is paused; None while it is active."""
    found = await runtime.schedules.get(schedule.schedule_id)
    assert (found.reason is None) is (found.status is ScheduleStatus.ACTIVE)
    return found.reason


async def test_a_revoked_key_stops_the_schedules_that_it_made(
    runtime: Runtime, keys: Keys, clock: FakeClock
) -> None:
    laptop = await keys.profile(await keys.create("laptop", profile_id=ANN))
    phone = await keys.profile(await keys.create("phone", profile_id=ANN))
    by_laptop, by_phone = await made(runtime, laptop), await made(runtime, phone)
    by_program = await made(runtime)
    assert await keys.revoke("laptop") == 1
    assert await reason(runtime, by_laptop) == "the key 'laptop' that made it was revoked"
    assert await reason(runtime, by_phone) is None
    assert await reason(runtime, by_program) is None
    assert runtime.schedules.ticker is not None
    clock.advance(60)
    await runtime.schedules.ticker.look()
    await runtime.parts.engine.launcher.rest()
    tasks, _ = await runtime.parts.storage.projections.tasks(page=Page())
    started = {each.schedule_id for each in tasks}
    assert started == {by_phone.schedule_id, by_program.schedule_id}
    assert await keys.revoke("laptop") == 0
    resumed = await runtime.schedules.resume(by_laptop.schedule_id)
    assert (resumed.status, resumed.reason) == (ScheduleStatus.ACTIVE, None)


async def test_the_last_key_of_a_profile_stops_what_models_made_for_it(
    runtime: Runtime, keys: Keys, clock: FakeClock
) -> None:
    """The log notes the profile of a conversation and its permissions, and no key."""
    by_model = await made(runtime, Profile.named("ann", "chat"))
    of_bob = await made(runtime, Profile.named("bob", "chat"))
    await keys.create("laptop", profile_id=ANN)
    await keys.create("phone", profile_id=ANN, expires_at=Moment(clock.now() + 1000))
    await keys.create("desk", profile_id=ANN)
    await keys.revoke("laptop")
    clock.advance(2)
    assert await reason(runtime, by_model) is None, "desk is valid; phone has expired"
    assert await keys.revoke("desk") == 1
    assert await reason(runtime, by_model) == "the last key of its profile 'ann' was revoked"
    assert await reason(runtime, of_bob) is None


async def test_a_key_of_the_person_at_the_machine_stops_no_schedule_of_a_program(
    runtime: Runtime, keys: Keys
) -> None:
    by_program = await made(runtime)
    await keys.create("boss", profile_id=runtime.local.profile_id)
    assert await keys.revoke("boss") == 0
    assert await reason(runtime, by_program) is None


async def test_a_schedule_of_a_file_does_not_depend_on_keys(runtime: Runtime, keys: Keys) -> None:
    schedule = await made(runtime, Profile.named("ann", "chat"))
    parts = runtime.parts.storage.database_parts
    assert parts is not None
    await parts.schedules.change(schedule.schedule_id, {"source": "file"})
    await keys.create("laptop", profile_id=ANN)
    assert await keys.revoke("laptop") == 0
    assert await reason(runtime, schedule) is None


async def test_another_key_that_changes_what_runs_takes_the_schedule_over(
    runtime: Runtime, keys: Keys
) -> None:
    laptop = await keys.profile(await keys.create("laptop", permissions=["manage"]))
    boss = await keys.profile(await keys.create("boss", permissions=["manage"]))
    schedule = await made(runtime, laptop)
    content = {"input": {"content": "And today?"}}
    await runtime.schedules.change(schedule.schedule_id, content, boss)
    assert await keys.revoke("laptop") == 0
    assert await keys.revoke("boss") == 1
