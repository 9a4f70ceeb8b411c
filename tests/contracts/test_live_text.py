"""The contract of every store of live replies."""

from collections.abc import AsyncIterator, Sequence

import pytest

from penstock.core.events.events import Entry, ReplyReceived, ReplyRestarted
from penstock.core.ids import LogId, MessageId
from penstock.core.task import TaskStatus
from penstock.store.blobs import open_blobs
from penstock.store.database import open_database
from penstock.store.logs.log import (
    FOLLOWED_SECONDS,
    OUTPUT_KIND,
    OUTPUT_UNITS,
    Lease,
    LiveText,
    Log,
    TextPiece,
    TextPosition,
)
from penstock.store.logs.sql_log import SqlLog
from penstock.testing.clock import FakeClock
from tests.contracts.conftest import LIMITS, Place
from tests.kit.log_entries import CHAT, ONE, ended, held, note, started, taken

ODD = "nul \x00, half \ud83d, whole \U0001f600, 'quote'"


def piece(units: int, text: str, *, base: int = 2, kind: str = "text") -> TextPiece:
    spot = TextPosition(base, units)
    return TextPiece(task_id=ONE, spot=spot, iteration=1, closing=False, kind=kind, text=text)


def whole(text: str = "Hello") -> Entry:
    return Entry(ReplyReceived(iteration=1, base=2, text=text, message_id=MessageId("m")), ONE)


HELLO = [piece(0, ""), piece(2, "Hm", kind="reasoning"), piece(7, "Hello")]


@pytest.fixture
async def elsewhere(place: Place, address: str | None) -> AsyncIterator[LiveText]:
    """The same logs, seen by another process."""
    if address is None:
        yield place.log.live_text
        return
    database = await open_database(address, synchronous="NORMAL", limits=LIMITS)
    yield SqlLog(database, open_blobs("memory:///"), place.clock).live_text
    await database.close()


class Heard:
    """Records the notifications of a holder about its readers."""

    def __init__(self, log: Log) -> None:
        self.told: list[tuple[LogId, int]] = []
        log.live_text.listen(lambda log_id, epoch: self.told.append((log_id, epoch)))


async def say(log: Log, lease: Lease, pieces: Sequence[TextPiece] = HELLO) -> None:
    await log.live_text.write(lease.log_id, lease.epoch, pieces)


async def test_pieces_are_read_elsewhere_in_order(log: Log, elsewhere: LiveText) -> None:
    lease = await held(log)
    await say(log, lease, HELLO[:2])
    assert await elsewhere.read(CHAT) == HELLO[:2]
    await say(log, lease, HELLO[2:])
    assert await elsewhere.read(CHAT) == HELLO
    assert await elsewhere.read(CHAT, after=TextPosition(2, 2)) == HELLO[2:]
    assert await elsewhere.read(CHAT, after=TextPosition(2, 7)) == []
    assert await elsewhere.read(LogId("conv_2")) == []


async def test_any_text_arrives_unchanged(log: Log, elsewhere: LiveText) -> None:
    lease = await held(log)
    await say(log, lease, [piece(len(ODD), ODD)])
    assert await elsewhere.read(CHAT) == [piece(len(ODD), ODD)]


async def test_a_written_piece_is_not_changed(log: Log, elsewhere: LiveText) -> None:
    """A model that was asked again before it said anything begins the same reply twice."""
    lease = await held(log)
    await say(log, lease, [piece(0, "")])
    await say(log, lease, [piece(0, ""), piece(1, "H")])
    assert await elsewhere.read(CHAT) == [piece(0, ""), piece(1, "H")]


async def test_a_typed_output_replaces_the_one_before(log: Log, elsewhere: LiveText) -> None:
    lease = await held(log)
    outputs = [piece(OUTPUT_UNITS, text, kind=OUTPUT_KIND) for text in ('{"a": 1}', "{}")]
    await say(log, lease, [*HELLO, outputs[0]])
    await say(log, lease, [outputs[1]])
    assert await elsewhere.read(CHAT) == [*HELLO, outputs[1]]
    assert await elsewhere.read(CHAT, after=TextPosition(2, 7)) == [outputs[1]]
    assert await elsewhere.read(CHAT, after=TextPosition(2, OUTPUT_UNITS)) == []


ENDS = [
    whole(),
    Entry(ReplyRestarted(iteration=1), ONE),
    ended(status=TaskStatus.FAILED),
]


@pytest.mark.parametrize("end", ENDS, ids=["whole", "restarted", "ended"])
async def test_it_is_dropped_with_the_event_that_ends_the_reply(
    log: Log, elsewhere: LiveText, end: Entry
) -> None:
    lease = await held(log)
    await say(log, lease)
    await log.append(lease, [note("by the way")])
    assert await elsewhere.read(CHAT) == HELLO
    await log.append(lease, [end])
    assert await elsewhere.read(CHAT) == []
    again = piece(3, "Yes", base=4)
    await say(log, lease, [again])
    assert await elsewhere.read(CHAT) == [again]


@pytest.mark.parametrize("crashes", [False, True])
async def test_text_of_an_earlier_holder_is_dropped_with_the_next_reply(
    log: Log, elsewhere: LiveText, clock: FakeClock, crashes: bool
) -> None:
    lease = await held(log)
    await elsewhere.read(CHAT)
    await say(log, lease)
    if crashes:
        clock.advance(4)
    else:
        await log.surrender(lease)
    after = await taken(log, "another")
    assert await elsewhere.read(CHAT) == HELLO
    await log.append(after, [whole()])
    assert await elsewhere.read(CHAT) == []


async def test_a_stale_holder_writes_no_text(
    log: Log, elsewhere: LiveText, clock: FakeClock
) -> None:
    stale = await held(log)
    clock.advance(4)
    await taken(log, "another")
    await say(log, stale)
    assert await elsewhere.read(CHAT) == []
    assert not log.live_text.is_followed(CHAT, stale.epoch)


async def test_a_new_reader_is_reported_with_a_renewal(
    log: Log, elsewhere: LiveText, clock: FakeClock
) -> None:
    heard = Heard(log)
    lease = await held(log)
    await log.renew(lease, after=2)
    assert heard.told == []
    await elsewhere.read(CHAT)
    await log.renew(lease, after=2)
    assert heard.told == [(CHAT, 1)]
    assert log.live_text.is_followed(CHAT, 1)
    clock.advance(FOLLOWED_SECONDS)
    assert not log.live_text.is_followed(CHAT, 1)
    await log.renew(lease, after=2)
    assert heard.told == [(CHAT, 1)], "who says no more has gone"


async def test_the_next_holder_is_notified_of_a_reader(
    log: Log, elsewhere: LiveText, clock: FakeClock
) -> None:
    lease = await held(log)
    await elsewhere.read(CHAT)
    await log.release(lease, head=2)
    heard = Heard(log)
    again = await taken(log)
    assert heard.told == [(CHAT, again.epoch)]


async def test_a_reader_that_keeps_reading_stays_registered(
    log: Log, elsewhere: LiveText, clock: FakeClock
) -> None:
    lease = await held(log)
    for _ in range(8):
        await elsewhere.read(CHAT)
        await log.renew(lease, after=2)
        assert log.live_text.is_followed(CHAT, 1)
        clock.advance(1)


async def test_a_log_without_a_holder_has_no_followers(log: Log, elsewhere: LiveText) -> None:
    lease = await held(log)
    await log.append(lease, [started(), ended()])
    await log.release(lease, head=4)
    assert await elsewhere.read(CHAT) == []
    heard = Heard(log)
    await taken(log)
    assert heard.told == []
