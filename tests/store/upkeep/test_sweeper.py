"""A sweep also deletes by the rules of retention, and gives space back."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text

from penstock.core.ids import LogId, TaskId
from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.logs.outbox import KEPT_SECONDS, Outbox
from penstock.store.logs.sql_log import SqlLog
from penstock.store.logs.webhook import EVENTS, Webhook
from penstock.store.projections import Page
from penstock.store.upkeep.rules import RetentionPlan, RetentionRule
from penstock.store.upkeep.sweeper import Sweeper
from penstock.testing.clock import FakeClock, settle
from tests.kit.log_entries import ended, held, message, opened, started

DAY = 24 * 3600
PLAN = RetentionPlan(rules=(RetentionRule(of="conversations", days=30),), step=2, pause_seconds=10)


async def count(database: Database) -> int:
    statement = text("SELECT count(*) FROM logs")
    return int(await database.read(lambda each: each.execute(statement).scalar_one()))


@pytest.fixture
async def three_old_logs(database: Database, log: SqlLog, clock: FakeClock) -> None:
    for number in range(3):
        log_id, task_id = LogId(f"conv_{number}"), TaskId(f"task_{number}")
        await log.send(log_id, [opened(), message(task_id)])
        lease = await log.acquire(log_id, "me")
        assert lease is not None
        await log.append(lease, [started(task_id), ended(task_id)])
        await log.release(lease, head=4)
    clock.advance(31 * DAY)


@pytest.fixture
async def sweeper(
    database: Database, blobs: Blobs, clock: FakeClock, three_old_logs: None
) -> AsyncIterator[Sweeper]:
    sweeper = Sweeper(database, blobs, clock, plan=PLAN)
    yield sweeper
    await sweeper.close()


async def test_a_sweep_deletes_old_logs_in_steps(
    sweeper: Sweeper, database: Database, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    sweeper.open()
    for left in (1, 0):  # two of the three, then the last one, with a pause after each step
        await asleep(clock)
        assert await count(database) == left
        clock.advance(PLAN.pause_seconds)
    await asleep(clock)
    statement = text("SELECT count(*) FROM loose_blobs")
    assert await database.read(lambda each: each.execute(statement).scalar()) == 0
    assert "retention: 3 logs deleted" in caplog.text


async def asleep(clock: FakeClock) -> None:
    """Wait until the sweeper waits."""
    async with asyncio.timeout(5):
        while not clock.sleepers:
            await settle()


async def test_without_rules_everything_is_kept(
    database: Database, blobs: Blobs, clock: FakeClock, three_old_logs: None
) -> None:
    sweeper = Sweeper(database, blobs, clock)
    sweeper.open()
    await asleep(clock)
    assert await count(database) == 3
    await sweeper.close()


async def test_deliveries_of_a_webhook_that_was_removed_are_deleted(
    database: Database, blobs: Blobs, clock: FakeClock
) -> None:
    """No sender knows the webhook any more, so nothing else would."""
    hook = Webhook(url="https://hooks.test/in", events=EVENTS, vault_key="k")
    log = SqlLog(database, blobs, clock, webhooks=[hook])
    await log.append(await held(log), [started(), ended()])
    outbox = Outbox(database)
    for seconds, left in ((KEPT_SECONDS, 1), (1, 0)):
        clock.advance(seconds)
        sweeper = Sweeper(database, blobs, clock)
        sweeper.open()
        await asleep(clock)
        await sweeper.close()
        assert (await outbox.list(page=Page()))[1] == left
