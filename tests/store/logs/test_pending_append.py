"""Waiting for what is on its way."""

import asyncio
from collections.abc import Awaitable, Sequence

import pytest

from penstock.core.clock import Moment
from penstock.core.errors import LeaseLost
from penstock.core.events.events import NoteEmitted, Record
from penstock.core.ids import LogId
from penstock.store.blobs.blobs import Blobs
from penstock.store.logs.pending_append import PendingAppend
from penstock.store.rows import Rows
from penstock.testing.clock import settle

LOG = LogId("conv_1")
RECORD = Record(LOG, 3, Moment(0), None, None, NoteEmitted(event_type="t"))


@pytest.fixture
def appended(blobs: Blobs) -> PendingAppend:
    return PendingAppend(Rows(blobs, 100), LOG)


async def wait(for_: Awaitable[Sequence[Record]]) -> Sequence[Record]:
    return await for_


async def test_everybody_who_waits_is_told_now_or_later(appended: PendingAppend) -> None:
    waiting = [asyncio.ensure_future(wait(appended)) for _ in range(3)]
    await settle()
    appended.settle([RECORD])
    assert await asyncio.gather(*waiting) == [[RECORD]] * 3
    assert await appended == [RECORD]


async def test_who_gives_up_takes_it_from_nobody(appended: PendingAppend) -> None:
    impatient, patient = (asyncio.ensure_future(wait(appended)) for _ in range(2))
    await settle()
    impatient.cancel()
    await settle()
    appended.settle([RECORD])
    assert await patient == [RECORD]
    assert impatient.cancelled()


async def test_everybody_is_told_why_it_failed(appended: PendingAppend) -> None:
    waiting = asyncio.ensure_future(wait(appended))
    await settle()
    appended.settle(error=LeaseLost("gone"))
    for each in (waiting, appended):
        with pytest.raises(LeaseLost, match="gone"):
            await each


async def test_what_slipped_in_from_outside_comes_first(appended: PendingAppend) -> None:
    own = (1, Moment(0), None, None, "note_emitted", '{"event_type":"t"}', None)
    slipped = (2, Moment(0), None, None, "cancel_requested", "{}", None)
    appended.settle([RECORD], slipped=[own, slipped])
    assert [each.seq for each in await appended] == [2, 3]
