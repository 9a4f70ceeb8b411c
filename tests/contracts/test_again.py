"""When a message may be answered again, for every kind of log."""

import asyncio

import pytest

from penstock.core.errors import SessionBusy
from penstock.core.ids import TaskId
from penstock.store.logs.log import Lease, Log
from tests.kit.log_entries import (
    CHAT,
    ONE,
    THREE,
    TWO,
    asked,
    ended,
    held,
    message,
    started,
    suspended,
)


async def answered_once(log: Log) -> Lease:
    """Return the lease of a conversation whose only message was answered."""
    lease = await held(log)
    await log.append(lease, [started(), ended()])
    return lease


async def test_a_message_is_answered_again_only_while_no_task_is_open(log: Log) -> None:
    lease = await answered_once(log)
    await log.send(CHAT, [message(TWO)])
    again = [message(THREE, supersedes=ONE)]
    for entries in ([started(TWO)], [asked(task_id=TWO), suspended(TWO)], [ended(TWO)]):
        with pytest.raises(SessionBusy, match="being answered"):
            await log.send(CHAT, again)
        await log.append(lease, entries)
    assert len(await log.send(CHAT, again)) == 1


async def test_a_message_is_answered_again_once_at_a_time(log: Log) -> None:
    lease = await answered_once(log)
    tasks = [TaskId(f"again_{number}") for number in range(6)]
    sends = [log.send(CHAT, [message(each, supersedes=ONE)]) for each in tasks]
    sent = await asyncio.gather(*sends, return_exceptions=True)
    refused = [each for each in sent if isinstance(each, SessionBusy)]
    assert len(refused) == 5
    first = next(each for each in sent if not isinstance(each, BaseException))[0].task_id
    assert first is not None
    await log.append(lease, [started(first), ended(first)])
    with pytest.raises(SessionBusy, match="answered again or removed"):
        await log.send(CHAT, [message(THREE, supersedes=ONE)])


async def test_a_message_for_another_head_is_refused(log: Log) -> None:
    lease = await answered_once(log)
    await log.send(CHAT, [message(TWO)])
    await log.append(lease, [started(TWO), ended(TWO)])
    before = await log.head(CHAT)
    with pytest.raises(SessionBusy, match="meanwhile"):
        await log.send(CHAT, [message(THREE, supersedes=ONE)], head=4)
    assert await log.head(CHAT) == before
    assert len(await log.send(CHAT, [message(THREE, supersedes=ONE)], head=before)) == 1
