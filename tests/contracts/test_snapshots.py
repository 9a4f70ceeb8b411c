"""The contract of every store of snapshots."""

import pytest

from penstock.core.events.events import Entry
from penstock.core.events.history_events import MessagesErased
from penstock.core.ids import LogId
from penstock.store.logs.log import Log, StoredState
from tests.kit.log_entries import CHAT, ONE, ended, held, started

BODY = bytes(range(256)) * 300


def snapshot(seq: int, version: str = "v", body: bytes = BODY) -> StoredState:
    return StoredState(seq, version, body)


async def talk(log: Log) -> None:
    lease = await held(log)
    await log.append(lease, [started(), ended()])
    await log.release(lease, head=4)


async def test_a_snapshot_reads_back_byte_for_byte(log: Log) -> None:
    await talk(log)
    assert await log.snapshots.read(CHAT) is None
    assert await log.snapshots.write(CHAT, snapshot(4))
    assert await log.snapshots.read(CHAT) == snapshot(4)


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        (snapshot(2), snapshot(4), snapshot(4)),
        (snapshot(4), snapshot(2), snapshot(4)),
        (snapshot(4), snapshot(2, "w"), snapshot(2, "w")),
        (snapshot(4), snapshot(4, body=b"x"), snapshot(4, body=b"x")),
    ],
)
async def test_the_newest_snapshot_stays_and_other_code_replaces_it(
    log: Log, first: StoredState, second: StoredState, kept: StoredState
) -> None:
    await talk(log)
    assert await log.snapshots.write(CHAT, first)
    assert await log.snapshots.write(CHAT, second) is (second == kept)
    assert await log.snapshots.read(CHAT) == kept


async def test_an_unknown_log_has_no_snapshot(log: Log) -> None:
    assert not await log.snapshots.write(LogId("conv_none"), snapshot(1))
    assert await log.snapshots.read(LogId("conv_none")) is None


async def test_a_snapshot_from_before_an_erasure_is_refused(log: Log) -> None:
    await talk(log)
    await log.send(CHAT, [Entry(MessagesErased(of_task=ONE, user=True, answer=True), ONE)])
    assert not await log.snapshots.write(CHAT, snapshot(4))
    assert await log.snapshots.write(CHAT, snapshot(5))
    assert await log.snapshots.read(CHAT) == snapshot(5)
