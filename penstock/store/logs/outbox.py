"""The outbox of webhooks: which event goes to which webhook, and how far each delivery is.

Guarantees: a delivery is on disk exactly if its event is; one attempt runs at a time, in whichever
process; the deliveries of one task reach a webhook in the order of their events.

How it works. `OutboxWriter` adds the rows in the transaction that writes the event
(`log_units.AppendUnit`). A sender claims the oldest waiting row of each task for a time; if its
process dies, the claim runs out and another process sends again. So a receiver may get a delivery
twice, always with the same id, because the id is derived from the webhook and the event. A rebuild
of the lists adds no rows: its events were announced when they were written.

Proof: tests/store/logs/test_outbox.py.
"""

from collections.abc import Collection, Sequence
from enum import StrEnum
from functools import partial
from hashlib import sha256
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, Select, and_, func, select, tuple_
from sqlalchemy.engine.interfaces import DBAPICursor

from penstock.core.clock import Moment
from penstock.core.errors import NotFound
from penstock.core.events.events import QuestionAsked, Record, TaskEnded
from penstock.core.ids import LogId, TaskId
from penstock.store.database import Database
from penstock.store.logs.webhook import QUESTION_ASKED, TASK_ENDED, Webhook
from penstock.store.projections import Page
from penstock.store.statements import Statements
from penstock.store.tables import deliveries, paused_webhooks

_NAMES: dict[type, str] = {TaskEnded: TASK_ENDED, QuestionAsked: QUESTION_ASKED}
ANNOUNCED = frozenset(_NAMES)
"""The kinds of events in the log that become deliveries."""
KEPT_SECONDS = 30 * 24 * 3600
"""How long deliveries stay listed."""
_ID_LETTERS = 26


class OutboxWriter:
    """Adds deliveries in the transaction of their event."""

    def __init__(self, statements: Statements, webhooks: Sequence[Webhook]) -> None:
        self._sql = statements
        self._webhooks = webhooks

    def add(self, cursor: DBAPICursor, record: Record) -> None:
        """Add a delivery of the event for each webhook that wants it."""
        event = _NAMES[type(record.event)]
        cursor.execute(self._sql.sort_of_task, (record.task_id,))
        if (sort := cursor.fetchone()) is None:
            return
        for each in self._webhooks:
            if each.wants(event, kind=sort[0], agent=sort[1]):
                delivery_id = _id_of("dlv", f"{each.webhook_id}/{record.log_id}/{record.seq}")
                place = (record.log_id, record.task_id, record.seq)
                row = (delivery_id, each.webhook_id, *place, event, record.at, record.at)
                cursor.execute(self._sql.add_delivery, row)


class DeliveryStatus(StrEnum):
    """How far a delivery is. The values are the wire format."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


class Delivery(Struct, frozen=True, kw_only=True):
    """One event for one webhook."""

    delivery_id: str
    webhook_id: str
    log_id: LogId
    task_id: TaskId
    seq: int
    event: str
    """One of `EVENTS`."""
    at: Moment
    """When the event was written."""
    status: DeliveryStatus
    attempts: int
    next_at: Moment
    """When it is sent next, if it is pending."""
    ended_at: Moment | None = None
    problem: str | None = None
    """Why the last attempt failed."""
    tried_since: Moment | None = None
    """When a person had it sent again; None means that it is tried since its event."""

    @property
    def event_id(self) -> str:
        """The id of the event, the same for all webhooks and all attempts."""
        return _id_of("evt", f"{self.log_id}/{self.seq}")


class Outbox:
    """The deliveries of a database: claimed, settled and listed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(
        self, webhook_id: str, *, now: Moment, until: Moment, limit: int
    ) -> Sequence[Delivery]:
        """Return deliveries that are due, claimed until a time: at most one for each task.

        Returns none of a paused webhook.
        """
        due = due_of(webhook_id, now).limit(limit)
        found = await self._database.read(lambda each: each.execute(due).all())
        if not found:
            return []
        ids = [row.delivery_id for row in found]
        claimed = set(await self._database.write(partial(_claim, ids, now, until)))
        return [_delivery(row) for row in found if row.delivery_id in claimed]

    async def settle(self, delivery: Delivery, *, until: Moment) -> bool:
        """Write the outcome of an attempt; False if its claim, which held `until`, was lost."""
        new = {
            "status": delivery.status.value,
            "attempts": delivery.attempts,
            "next_at": delivery.next_at,
            "ended_at": delivery.ended_at,
            "problem": delivery.problem,
            "claimed_until": 0,
        }
        mine = and_(_is(delivery.delivery_id), deliveries.c.claimed_until == until)
        statement = deliveries.update().where(mine).values(new)
        return await self._database.write(lambda each: each.execute(statement).rowcount == 1)

    async def are_waiting(self, webhook_ids: Collection[str]) -> bool:
        """Whether a delivery to one of these webhooks is pending, and the webhook not paused."""
        pending = waiting_for(webhook_ids).limit(1)
        return await self._database.read(lambda each: each.execute(pending).first() is not None)

    async def find(self, delivery_id: str) -> Delivery | None:
        """Return a delivery."""
        query = select(deliveries).where(_is(delivery_id))
        row = await self._database.read(lambda each: each.execute(query).first())
        return None if row is None else _delivery(row)

    async def list(
        self, *, status: DeliveryStatus | None = None, webhook_id: str | None = None, page: Page
    ) -> tuple[Sequence[Delivery], int]:
        """Return deliveries, usually newest first, and how many there are."""
        conditions = [
            column == value
            for column, value in (
                (deliveries.c.status, status and status.value),
                (deliveries.c.webhook_id, webhook_id),
            )
            if value is not None
        ]
        columns = (deliveries.c.at, deliveries.c.delivery_id)
        descends = page.descends(usually=True)
        order = [each.desc() if descends else each for each in columns]
        query = select(deliveries).where(*conditions).order_by(*order)
        query = query.limit(page.limit).offset(page.offset)
        total = select(func.count()).select_from(deliveries).where(*conditions)

        def read(connection: Connection) -> tuple[Sequence[Row[Any]], int]:
            return connection.execute(query).all(), connection.execute(total).scalar_one()

        rows, found = await self._database.read(read)
        return [_delivery(each) for each in rows], found

    async def send_again(
        self, delivery_id: str, *, now: Moment, webhook_ids: Collection[str]
    ) -> Delivery:
        """Make a delivery due now, whatever its status, with a new day of attempts.

        One that is being sent stays as it is. Raises NotFound if the delivery is unknown, or goes
        to none of these webhooks: nothing would send it.
        """
        found = await self.find(delivery_id)
        if found is None:
            raise NotFound(f"there is no delivery {delivery_id!r}; they are kept for 30 days")
        if found.webhook_id not in webhook_ids:
            raise NotFound(
                f"delivery {delivery_id!r} goes to the webhook {found.webhook_id!r}, which is not "
                "in penstock.toml any more: add its url again, then send it again"
            )
        free = and_(_is(delivery_id), deliveries.c.claimed_until <= now)
        again = {"status": "pending", "attempts": 0, "next_at": now, "ended_at": None}
        statement = deliveries.update().where(free).values(again | {"tried_since": now})
        await self._database.write(lambda each: each.execute(statement).rowcount)
        return await self.find(delivery_id) or found

    async def pause(self, webhook_id: str, *, at: Moment, reason: str) -> None:
        """Stop sending to a webhook; its deliveries wait."""
        row = {"webhook_id": webhook_id, "at": at, "reason": reason}

        def unit(connection: Connection) -> None:
            connection.execute(_unpause(webhook_id))
            connection.execute(paused_webhooks.insert(), row)

        await self._database.write(unit)

    async def resume(self, webhook_id: str) -> bool:
        """Send to a paused webhook again; False if it was not paused."""
        return await self._database.write(
            lambda each: each.execute(_unpause(webhook_id)).rowcount == 1
        )

    async def paused(self) -> dict[str, str]:
        """Return the reason of each paused webhook by its id."""
        query = select(paused_webhooks.c.webhook_id, paused_webhooks.c.reason)
        return {
            each.webhook_id: each.reason
            for each in await self._database.read(lambda c: c.execute(query).all())
        }

    async def forget(self, *, now: Moment) -> None:
        """Delete the deliveries of events that are older than KEPT_SECONDS, whatever their status.

        Those that were sent again by hand stay as long again.
        """
        since = func.coalesce(deliveries.c.tried_since, deliveries.c.at)
        before = now - 1000 * KEPT_SECONDS
        # the first condition reads the index, which has few old rows
        are_old = (deliveries.c.at < before, since < before)
        one = select(deliveries.c.delivery_id).where(*are_old).limit(1)
        if await self._database.read(lambda each: each.execute(one).first()):
            old = deliveries.delete().where(*are_old)
            await self._database.write(lambda each: each.execute(old))


def _id_of(prefix: str, text: str) -> str:
    return f"{prefix}_{sha256(text.encode()).hexdigest()[:_ID_LETTERS]}"


_PENDING = deliveries.c.status == DeliveryStatus.PENDING.value
_IS_ACTIVE = deliveries.c.webhook_id.not_in(select(paused_webhooks.c.webhook_id))
_earlier = deliveries.alias("earlier")
_FIRST = select(deliveries).where(
    _PENDING,
    ~select(_earlier.c.delivery_id)
    .where(
        _earlier.c.webhook_id == deliveries.c.webhook_id,
        _earlier.c.task_id == deliveries.c.task_id,
        _earlier.c.status == DeliveryStatus.PENDING.value,
        tuple_(_earlier.c.at, _earlier.c.seq) < tuple_(deliveries.c.at, deliveries.c.seq),
    )
    .exists(),
)
"""The pending deliveries without an earlier one of the same task that is pending, too."""


def due_of(webhook_id: str, now: Moment) -> Select[Any]:
    """Return the query for what is due for a webhook, soonest first."""
    due = (deliveries.c.next_at <= now, deliveries.c.claimed_until <= now, _IS_ACTIVE)
    first = _FIRST.where(deliveries.c.webhook_id == webhook_id, *due)
    return first.order_by(deliveries.c.next_at)


def waiting_for(webhook_ids: Collection[str]) -> Select[Any]:
    """Return the query for deliveries to these webhooks that are pending, and not paused."""
    to_these = deliveries.c.webhook_id.in_(webhook_ids)
    return select(deliveries.c.delivery_id).where(_PENDING, to_these, _IS_ACTIVE)


def _is(delivery_id: str) -> Any:
    return deliveries.c.delivery_id == delivery_id


def _unpause(webhook_id: str) -> Any:
    return paused_webhooks.delete().where(paused_webhooks.c.webhook_id == webhook_id)


def _claim(
    delivery_ids: Collection[str], now: Moment, until: Moment, connection: Connection
) -> Sequence[str]:
    """Claim the rows that are still free and due; return their ids."""
    free = and_(deliveries.c.delivery_id.in_(delivery_ids), _PENDING, deliveries.c.next_at <= now)
    statement = deliveries.update().where(free, deliveries.c.claimed_until <= now)
    claimed = statement.values(claimed_until=until).returning(deliveries.c.delivery_id)
    return connection.execute(claimed).scalars().all()


def _delivery(row: Row[Any]) -> Delivery:
    values = {name: getattr(row, name) for name in Delivery.__struct_fields__}
    return Delivery(**values | {"status": DeliveryStatus(row.status)})
