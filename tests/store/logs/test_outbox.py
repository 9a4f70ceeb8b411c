"""The outbox of webhooks: written with its event, claimed by one sender, in order for a task."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, TextClause, text

from penstock.core.clock import Moment
from penstock.core.errors import LeaseLost, NotFound
from penstock.store.blobs import Blobs
from penstock.store.database import Database, open_database
from penstock.store.erasure import Erasure
from penstock.store.logs.log import Lease
from penstock.store.logs.outbox import (
    KEPT_SECONDS,
    Delivery,
    DeliveryStatus,
    Outbox,
    due_of,
    waiting_for,
)
from penstock.store.logs.sql_log import SqlLog
from penstock.store.logs.webhook import EVENTS, Webhook
from penstock.store.projections import Page
from penstock.store.repair import rebuild
from penstock.testing.clock import FakeClock
from tests.kit.log_entries import CHAT, ONE, TWO, asked, ended, held, message, started, taken

URL = "https://hooks.test/in"
HOOK = Webhook(url=URL, events=EVENTS, vault_key="k").webhook_id


def webhook(url: str = URL, **more: Any) -> Webhook:
    """Return a webhook for all events."""
    return Webhook(**{"url": url, "events": EVENTS, "vault_key": "k"} | more)


class Store:
    """A log with subscribers, and its outbox."""

    def __init__(self, database: Database, blobs: Blobs, clock: FakeClock) -> None:
        self.clock = clock
        self.parts = (database, blobs, clock)
        self.outbox = Outbox(database)

    def log(self, *webhooks: Webhook) -> SqlLog:
        return SqlLog(*self.parts, webhooks=webhooks or [webhook()])

    async def claim(self, limit: int = 9, webhook_id: str = HOOK) -> Sequence[Delivery]:
        now = self.clock.now()
        until = Moment(now + 30_000)
        return await self.outbox.claim(webhook_id, now=now, until=until, limit=limit)

    async def settle(self, delivery: Delivery, status: DeliveryStatus) -> bool:
        after = replace(delivery, status=status, attempts=1)
        return await self.outbox.settle(after, until=Moment(self.clock.now() + 30_000))

    async def send_again(
        self, delivery: Delivery, webhook_ids: Sequence[str] = (HOOK,)
    ) -> Delivery:
        now = self.clock.now()
        return await self.outbox.send_again(delivery.delivery_id, now=now, webhook_ids=webhook_ids)

    async def all(self) -> Sequence[Delivery]:
        found, total = await self.outbox.list(page=Page(is_descending=False))
        assert total == len(found)
        return found


@pytest.fixture
def store(database: Database, blobs: Blobs, clock: FakeClock) -> Store:
    return Store(database, blobs, clock)


async def two_events(store: Store, log: SqlLog) -> Lease:
    """Write a question and the end of a task."""
    lease = await held(log)
    await log.append(lease, [started(), asked()])
    store.clock.advance(1)
    await log.append(lease, [ended()])
    return lease


async def test_a_delivery_is_written_with_its_event(store: Store) -> None:
    """Spec: "the delivery row is written in the transaction of its event"."""
    lease = await two_events(store, store.log())
    assert [(each.event, each.task_id, each.seq) for each in await store.all()] == [
        ("question.asked", ONE, 4),
        ("task.ended", ONE, 5),
    ]
    log = store.log()  # it does not hold the lease, so nothing is written
    with pytest.raises(LeaseLost):
        await log.append(lease, [ended(TWO)])
    assert len(await store.all()) == 2


@pytest.mark.parametrize(
    "other", [webhook(events=()), webhook(agents=("other",)), webhook(kinds=("flow",))]
)
async def test_a_webhook_gets_the_events_that_it_wants(store: Store, other: Webhook) -> None:
    second = webhook("https://hooks.test/2", events=EVENTS[:1], agents=("a*", "x"))
    await two_events(store, store.log(other, second))
    assert [(each.webhook_id, each.event) for each in await store.all()] == [
        (second.webhook_id, EVENTS[0])
    ]


async def test_a_log_without_subscribers_fills_no_outbox(store: Store) -> None:
    await two_events(store, SqlLog(*store.parts))
    assert await store.all() == []


async def test_the_next_delivery_of_a_task_follows_when_the_one_before_has_ended(
    store: Store,
) -> None:
    """Spec: "the next is sent when the one before was taken or is dead"."""
    await two_events(store, store.log())
    for status in (DeliveryStatus.DELIVERED, DeliveryStatus.DEAD):
        (only,) = await store.claim()
        assert await store.claim() == []
        assert await store.settle(only, status)
    assert [each.status.value for each in await store.all()] == ["delivered", "dead"]
    assert not await store.outbox.are_waiting([HOOK])


async def test_tasks_do_not_wait_for_each_other(store: Store) -> None:
    """Spec: "Others run beside"."""
    log = store.log()
    lease = await two_events(store, log)
    await log.send(CHAT, [message(TWO)])
    await log.append(lease, [ended(TWO)])
    assert {each.task_id for each in await store.claim()} == {ONE, TWO}


async def test_a_claim_that_ran_out_is_taken_by_another(store: Store) -> None:
    await two_events(store, store.log())
    (first,) = await store.claim()
    until = Moment(store.clock.now() + 30_000)
    store.clock.advance(31)
    (again,) = await store.claim()
    assert again.delivery_id == first.delivery_id
    late = replace(first, status=DeliveryStatus.DEAD)
    assert not await store.outbox.settle(late, until=until)
    assert await store.settle(again, DeliveryStatus.DELIVERED)


async def test_a_paused_webhook_gets_nothing_until_it_is_resumed(store: Store) -> None:
    await two_events(store, store.log())
    await store.outbox.pause(HOOK, at=store.clock.now(), reason="gone")
    await store.outbox.pause(HOOK, at=store.clock.now(), reason="gone again")
    assert await store.outbox.paused() == {HOOK: "gone again"}
    assert (await store.claim(), await store.outbox.are_waiting([HOOK])) == ([], False)
    assert await store.outbox.resume(HOOK)
    assert not await store.outbox.resume(HOOK)
    assert len(await store.claim()) == 1


async def test_a_delivery_can_be_sent_again(store: Store) -> None:
    await two_events(store, store.log())
    (first,) = await store.claim()
    assert (await store.send_again(first)).tried_since is None, "it is being sent"
    await store.settle(first, DeliveryStatus.DEAD)
    assert (await store.send_again(first)).tried_since == store.clock.now()
    (again,) = await store.claim()
    assert (again.delivery_id, again.event_id) == (first.delivery_id, first.event_id)


async def test_what_nothing_would_send_is_not_sent_again(store: Store) -> None:
    """A delivery to a webhook that left penstock.toml would be pending for ever."""
    await two_events(store, store.log())
    (first,) = await store.claim()
    await store.settle(first, DeliveryStatus.DEAD)
    with pytest.raises(NotFound, match=f"{HOOK}.*not in penstock.toml"):
        await store.send_again(first, webhook_ids=["wh_other"])
    with pytest.raises(NotFound, match="no delivery 'dlv_unknown'"):
        await store.send_again(replace(first, delivery_id="dlv_unknown"))
    assert (await store.all())[0].status is DeliveryStatus.DEAD


async def test_old_deliveries_are_forgotten(store: Store) -> None:
    await two_events(store, store.log())
    (first,) = await store.claim()
    store.clock.advance(KEPT_SECONDS)
    await store.outbox.forget(now=store.clock.now())
    assert [each.event for each in await store.all()] == ["task.ended"]
    store.clock.advance(1)
    (second,) = await store.claim()
    assert first.delivery_id != second.delivery_id
    await store.settle(second, DeliveryStatus.DEAD)
    await store.send_again(second)
    await store.outbox.forget(now=store.clock.now())
    assert len(await store.all()) == 1, "it was sent again just now"
    store.clock.advance(KEPT_SECONDS + 1)
    await store.outbox.forget(now=store.clock.now())
    assert await store.all() == []


async def test_a_rebuild_of_the_lists_announces_nothing_again(store: Store) -> None:
    await two_events(store, store.log())
    before = await store.all()
    await rebuild(store.parts[0], store.log())
    assert await store.all() == before


async def test_erasing_a_conversation_erases_its_deliveries(store: Store) -> None:
    log = store.log()
    lease = await two_events(store, log)
    await log.release(lease, head=5)
    await Erasure(*store.parts).erase_log(CHAT)
    assert await store.all() == []
    assert await taken_or_none(log) is None


async def taken_or_none(log: SqlLog) -> Lease | None:
    """Return the lease of the log, if there is a log."""
    return await taken(log) if await log.head(CHAT) else None


async def test_a_look_reads_only_what_waits() -> None:
    """A delivery stays for 30 days: reading those that arrived took 130 ms per look for 200,000."""
    database = await open_database("sqlite://")
    for query in (due_of(HOOK, Moment(1)), waiting_for([HOOK])):
        statement = str(query.compile(compile_kwargs={"literal_binds": True}))
        explain = partial(plan_of, text(f"EXPLAIN QUERY PLAN {statement}"))
        assert "deliveries_that_wait (webhook_id=? AND status=?" in await database.read(explain)
    await database.close()


def plan_of(explain: TextClause, connection: Connection) -> str:
    return str(connection.execute(explain).all())
