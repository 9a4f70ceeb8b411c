"""What erasing a message does to rows: bodies, titles and counts."""

from functools import partial

import pytest
from sqlalchemy import Connection, select

from penstock.core.errors import SessionBusy, StoreCorrupt
from penstock.core.events.codec import encode
from penstock.core.events.events import MessageReceived
from penstock.store.database import Database
from penstock.store.erasing.blanks import ErasedPart
from penstock.store.erasing.overwrite import brief_of, overwrite, refuse_if_busy
from penstock.store.logs.sql_log import SqlLog
from penstock.store.tables import events, sessions
from tests.kit.entries import CHAT, ONE, TWO, ended, held, message, opened, started

TITLES = {
    "Hello": ("Hello", ""),
    "its beginning": ("Hel…", ""),
    "of somebody else": ("Greetings", "Greetings"),
    "none": ("", ""),
}


def blank(connection: Connection, half: ErasedPart = ErasedPart.USER) -> None:
    assert overwrite(connection, (CHAT, ONE), {}, half) == set()


def count_of(connection: Connection) -> int | None:
    return connection.execute(select(sessions.c.message_count)).scalar()


@pytest.mark.parametrize(("before", "after"), TITLES.values(), ids=list(TITLES))
async def test_a_title_goes_if_it_is_the_beginning_of_the_message(
    log: SqlLog, database: Database, before: str, after: str
) -> None:
    await log.send(CHAT, [opened(before), message()])
    await database.write(blank)
    shown = await database.read(lambda each: each.execute(select(sessions.c.title)).scalar())
    body = await database.read(lambda each: each.execute(select(events.c.body)).scalars().first())
    assert (shown, body) == (after, encode(opened(after).event))


async def test_a_message_is_the_brief_of_its_task_until_it_is_overwritten(
    log: SqlLog, database: Database
) -> None:
    await held(log)
    brief = await database.read(partial(brief_of, CHAT, ONE, {}))
    assert isinstance(brief, MessageReceived)
    await database.write(blank)
    assert await database.read(partial(brief_of, CHAT, ONE, {})) is None


async def test_a_log_is_busy_until_every_task_has_ended(log: SqlLog, database: Database) -> None:
    lease = await held(log)
    with pytest.raises(SessionBusy):
        await database.read(partial(refuse_if_busy, CHAT))
    await log.append(lease, [started(), ended()])
    await database.read(partial(refuse_if_busy, CHAT))
    await log.send(CHAT, [message(TWO)])
    with pytest.raises(SessionBusy):
        await database.read(partial(refuse_if_busy, CHAT))


async def test_an_event_that_does_not_read_back_is_named(log: SqlLog, database: Database) -> None:
    await held(log)
    broken = events.update().where(events.c.seq == 2).values(body="{")
    await database.write(lambda connection: connection.execute(broken))
    with pytest.raises(StoreCorrupt, match=f"event 2 of log '{CHAT}'.*delete this conversation"):
        await database.write(blank)


async def test_messages_of_the_conversation_are_counted_anew(
    log: SqlLog, database: Database
) -> None:
    lease = await held(log)
    await log.append(lease, [started(), ended()])
    counts: list[int | None] = []
    for half in (ErasedPart.USER, ErasedPart.USER, ErasedPart.ANSWER):
        await database.write(partial(blank, half=half))
        counts.append(await database.read(count_of))
    assert counts == [1, 1, 0]
