"""The contract of every log, in memory and in a database."""

import asyncio
from collections.abc import Sequence

import pytest

from penstock.core.errors import (
    AlreadyAnswered,
    IdempotencyConflict,
    NameTaken,
    NotFound,
    PenstockError,
    QuestionClosed,
    SessionBusy,
    TaskOver,
)
from penstock.core.events.codec import to_wire
from penstock.core.events.events import CallRequested, Entry, Record
from penstock.core.events.history_events import MessagesErased
from penstock.core.events.roles import is_outside
from penstock.core.ids import LogId, QuestionId, TaskId
from penstock.core.task import TaskStatus
from penstock.store.logs.log import Log
from penstock.testing.clock import FakeClock
from tests.kit.log_entries import (
    ANN,
    BOB,
    CHAT,
    ONE,
    THREE,
    TWO,
    answered,
    asked,
    cancelled,
    ended,
    expired,
    held,
    keyed,
    message,
    note,
    opened,
    settled,
    started,
    suspended,
    taken,
)


def shown(records: Sequence[Record]) -> list[tuple[int, Entry]]:
    return [(each.seq, Entry(each.event, each.task_id, each.path)) for each in records]


# ---- events and their order ----------------------------------------------------------------------


async def test_events_are_numbered_from_one_and_read_back_as_they_were(log: Log) -> None:
    lease = await held(log)
    wrote = [started(), settled({"é": [1, None]}), asked(), suspended()]
    await log.append(lease, wrote[:2])
    await log.append(lease, wrote[2:])
    expected = list(enumerate([opened(), message(), *wrote], 1))
    assert shown(await log.read(CHAT)) == expected
    assert await log.head(CHAT) == 6


async def test_a_part_of_a_log_can_be_read(log: Log) -> None:
    lease = await held(log)
    await log.append(lease, [note(str(number)) for number in range(6)])
    assert [each.seq for each in await log.read(CHAT, after=2)] == [3, 4, 5, 6, 7, 8]
    assert [each.seq for each in await log.read(CHAT, after=2, limit=2)] == [3, 4]
    assert [each.seq for each in await log.read(CHAT, limit=1)] == [1]
    assert await log.read(CHAT, after=8) == []


async def test_a_part_of_a_log_ends_at_a_size(log: Log) -> None:
    """However large the bodies are, there is one event at least, and the rest comes next."""
    lease = await held(log)
    large = [settled("x" * 300), settled("y" * 300), note("short"), settled("z" * 300)]
    await log.append(lease, large)
    seen, parts = 2, []
    while part := await log.read(CHAT, after=seen, limit=9, size=301):
        parts.append(len(part))
        seen = part[-1].seq
    assert (parts, seen) == ([1, 1, 2], 6)
    assert len(await log.read(CHAT, after=2, limit=9, size=10**6)) == 4


async def test_an_unknown_log_is_empty(log: Log) -> None:
    nowhere = LogId("nowhere")
    assert (await log.read(nowhere), await log.head(nowhere)) == ([], 0)
    assert await log.acquire(nowhere, "me") is None


async def test_logs_are_apart(log: Log) -> None:
    await held(log)
    await log.send(LogId("conv_2"), [opened(), message(TWO)])
    assert [each.task_id for each in await log.read(LogId("conv_2"))] == [None, TWO]
    assert [each.task_id for each in await log.read(CHAT)] == [None, ONE]


async def test_every_event_has_the_time_when_it_was_written(log: Log, clock: FakeClock) -> None:
    lease = await held(log)
    opened_at = clock.now()
    clock.advance(1.5)
    (record,) = await log.append(lease, [started()])
    assert record.at == opened_at + 1500
    assert [each.at - opened_at for each in await log.read(CHAT)] == [0, 0, 1500]


async def test_appends_keep_their_order_also_when_they_are_awaited_late(log: Log) -> None:
    lease = await held(log)
    waiting = [log.append(lease, [note(str(number))]) for number in range(30)]
    last = await waiting[-1]
    results = [last, *[await each for each in waiting[:-1]]]
    assert sorted(each.seq for result in results for each in result) == list(range(3, 33))
    notes = [to_wire(each.event)["message"] for each in await log.read(CHAT, after=2)]
    assert notes == [str(number) for number in range(30)]


async def test_a_large_event_keeps_its_place_between_small_ones(log: Log) -> None:
    lease = await held(log)
    texts = ["a", "b" * 50_000, "c", "é" * 300, "d" * 100_000, "e"]
    waiting = [log.append(lease, [note(text)]) for text in texts]
    results = [await each for each in waiting]
    assert [each.seq for result in results for each in result] == [3, 4, 5, 6, 7, 8]
    notes = [to_wire(each.event)["message"] for each in await log.read(CHAT, after=2)]
    assert notes == texts


async def test_entries_may_be_changed_once_append_has_returned(log: Log) -> None:
    lease = await held(log)
    entries = [note("a")]
    waiting = log.append(lease, entries)
    entries[0] = note("b")
    entries.append(note("c"))
    assert shown(await waiting) == [(3, note("a"))]


HOSTILE = [
    "",
    "\x00",
    "a\x1fb",
    "\u2028\u2029",
    "\U0001f600",
    "'; DROP TABLE events; --",
    "%s ? {}",
]


@pytest.mark.parametrize("text", HOSTILE)
async def test_no_text_is_too_strange_to_be_kept(log: Log, text: str) -> None:
    lease = await held(log)
    entries = [note(text), settled({text: [text]})]
    await log.append(lease, entries)
    assert shown(await log.read(CHAT, after=2)) == [(3, entries[0]), (4, entries[1])]


async def test_logs_erased_after_an_event_are_distinguished_from_grown_ones(log: Log) -> None:
    grown, erased, gone = LogId("conv_2"), LogId("conv_3"), LogId("conv_4")
    for log_id in (CHAT, grown, erased):
        await log.send(log_id, [opened(), message(TaskId(f"task_{log_id}"))])
    task_id = TaskId(f"task_{erased}")
    await log.send(grown, [message(THREE)])
    await log.send(erased, [Entry(MessagesErased(of_task=task_id, user=True, answer=False))])
    assert await log.erased(dict.fromkeys([CHAT, grown, erased, gone], 2)) == {erased, gone}
    assert await log.erased({erased: 3}) == set()


# ---- events from outside -------------------------------------------------------------------------


async def test_an_outside_event_returns_with_its_place(log: Log) -> None:
    records = await log.send(CHAT, [opened(), message()])
    assert shown(records) == [(1, opened()), (2, message())]
    assert shown(await log.send(CHAT, [cancelled()])) == [(3, cancelled())]


async def test_the_holder_receives_an_outside_event_with_its_next_append(log: Log) -> None:
    lease = await held(log)
    assert shown(await log.append(lease, [started()])) == [(3, started())]
    await log.send(CHAT, [message(TWO)])
    await log.send(CHAT, [cancelled()])
    first, second = log.append(lease, [note("a")]), log.append(lease, [note("b")])
    assert shown(await first) == [(4, message(TWO)), (5, cancelled()), (6, note("a"))]
    assert shown(await second)[-1] == (7, note("b"))
    assert shown(await log.append(lease, [note("c")])) == [(8, note("c"))]


async def test_the_holder_receives_an_outside_event_when_it_renews(log: Log) -> None:
    lease = await held(log)
    await log.append(lease, [started()])
    await log.send(CHAT, [message(TWO)])
    assert shown(await log.renew(lease, after=3)) == [(4, message(TWO))]
    assert shown(await log.renew(lease, after=4)) == []


async def test_a_renewal_does_not_return_the_events_of_the_holder(log: Log) -> None:
    lease = await held(log)
    await log.append(lease, [started(), asked()])
    assert shown(await log.renew(lease, after=2)) == []


async def test_events_before_the_lease_are_not_news(log: Log) -> None:
    await log.send(CHAT, [opened(), message()])
    await log.send(CHAT, [message(TWO)])
    lease = await taken(log)
    assert lease.head == 3
    assert shown(await log.append(lease, [started()])) == [(4, started())]


async def test_many_at_once_get_places_without_gaps(log: Log) -> None:
    lease = await held(log)
    await log.append(lease, [started(), asked()])
    sends = [log.send(CHAT, [cancelled()]) for _ in range(10)]
    appends = [log.append(lease, [note(str(number))]) for number in range(10)]
    await asyncio.gather(*sends)
    for each in appends:
        await each
    assert [each.seq for each in await log.read(CHAT)] == list(range(1, 25))


async def test_listeners_hear_everything_in_the_order_of_the_log(log: Log) -> None:
    heard: list[Record] = []
    from_outside: list[Record] = []
    log.listen(heard.extend)
    log.listen(from_outside.extend, of_holders=False)
    lease = await held(log)
    waiting = [log.append(lease, [note(str(number))]) for number in range(5)]
    await log.send(CHAT, [message(TWO)])
    for each in waiting:
        await each
    await log.append(lease, [note("d" * 1000)])
    assert heard == await log.read(CHAT)
    assert from_outside == [each for each in heard if is_outside(each.event)]


# ---- refusals: nothing is written ----------------------------------------------------------------

NO_QUESTION = QuestionId("q_9")
REFUSED: list[tuple[list[Entry], list[Entry], type[PenstockError]]] = [
    ([], [cancelled(TaskId("task_9"))], NotFound),
    ([], [answered("x", NO_QUESTION)], NotFound),
    ([], [opened()], NameTaken),
    ([], [message(ONE)], NameTaken),
    ([started(), ended()], [cancelled()], TaskOver),
    ([started(), asked(), answered("a", by=None)], [answered("b")], AlreadyAnswered),
    ([started(), asked(), expired()], [answered("b")], QuestionClosed),
    ([started(), asked(), ended(status=TaskStatus.FAILED)], [answered("b")], QuestionClosed),
    ([], [message(TWO), message(TWO)], NameTaken),
    ([], [message(TWO), cancelled(THREE)], NotFound),
    ([started(), asked()], [answered("a"), answered("b")], AlreadyAnswered),
    ([], [message(TWO), message(THREE), message(TaskId("task_4"))], SessionBusy),
]


@pytest.mark.parametrize(("before", "sent", "refusal"), REFUSED)
async def test_a_batch_with_a_conflict_is_refused_as_a_whole(
    log: Log, before: list[Entry], sent: list[Entry], refusal: type[PenstockError]
) -> None:
    lease = await held(log)
    await log.append(lease, [*before, note("last")])
    head = await log.head(CHAT)
    with pytest.raises(refusal):
        await log.send(CHAT, sent)
    assert await log.head(CHAT) == head
    assert not await log.release(lease, head=head)
    assert not await log.pending(limit=9), "a refused event gives no work"


async def test_a_message_makes_no_log(log: Log) -> None:
    with pytest.raises(NotFound, match="there is no log 'conv_1'"):
        await log.send(CHAT, [message()])
    assert await log.head(CHAT) == 0


async def test_a_direct_call_makes_a_log_of_its_own(log: Log) -> None:
    call = Entry(CallRequested(tool_id="t", input={"a": 1}, profile_id=ANN), ONE)
    assert shown(await log.send(LogId("task_1"), [call])) == [(1, call)]


async def test_a_task_of_another_log_is_unknown_here(log: Log) -> None:
    await held(log)
    await log.send(LogId("conv_2"), [opened(), message(TWO)])
    with pytest.raises(NotFound, match="task_2"):
        await log.send(CHAT, [cancelled(TWO)])


async def test_a_question_of_another_log_is_unknown_here(log: Log) -> None:
    lease = await held(log)
    await log.append(lease, [started(), asked()])
    await log.send(LogId("conv_2"), [opened(), message(TWO)])
    with pytest.raises(NotFound, match="q_1"):
        await log.send(LogId("conv_2"), [answered("x")])


async def test_a_later_answer_receives_the_first_one(log: Log) -> None:
    lease = await held(log)
    await log.append(lease, [started(), asked()])
    await log.send(CHAT, [answered("first")])
    with pytest.raises(AlreadyAnswered) as refused:
        await log.send(CHAT, [answered("second")])
    assert refused.value.details == {"answer": {"text": "first"}}


async def test_of_many_answers_at_once_one_counts(log: Log) -> None:
    lease = await held(log)
    await log.append(lease, [started(), asked(), suspended()])
    sends = [log.send(CHAT, [answered(str(number))]) for number in range(8)]
    results = await asyncio.gather(*sends, return_exceptions=True)
    refused = [each for each in results if isinstance(each, AlreadyAnswered)]
    (recorded,) = [each for each in results if not isinstance(each, BaseException)]
    assert len(refused) == 7
    answer = to_wire(recorded[0].event)["answer"]
    assert [each.details for each in refused] == [{"answer": answer}] * 7


async def test_waiting_tasks_are_counted_and_no_others(log: Log) -> None:
    lease = await held(log)
    await log.append(lease, [started()])
    await log.send(CHAT, [message(TWO), message(THREE), message(TaskId("task_4"))])
    with pytest.raises(SessionBusy):
        await log.send(CHAT, [message(TaskId("task_5"))])
    await log.append(lease, [ended(), started(TWO)])
    await log.send(CHAT, [message(TaskId("task_5"))])
    await log.append(lease, [ended(THREE, TaskStatus.CANCELLED)])
    await log.send(CHAT, [message(TaskId("task_6"))])
    with pytest.raises(SessionBusy):
        await log.send(CHAT, [message(TaskId("task_7"))])


# ---- requests with a key of their own ------------------------------------------------------------


@pytest.mark.parametrize(("request_hash", "same"), [("h", True), ("another", False)])
async def test_a_repeated_request_receives_its_task(
    log: Log, *, request_hash: str, same: bool
) -> None:
    """Also when it would begin a conversation of its own."""
    await log.send(CHAT, [opened(), keyed(ONE, "key")])
    for log_id, entries in ((CHAT, []), (LogId("conv_2"), [opened()])):
        with pytest.raises(IdempotencyConflict) as refused:
            await log.send(log_id, [*entries, keyed(TWO, "key", request_hash)])
        assert refused.value.details == {"task_id": ONE, "log_id": CHAT, "same": same}
    assert (await log.head(CHAT), await log.head(LogId("conv_2"))) == (2, 0)


async def test_a_key_belongs_to_a_profile_and_counts_for_its_time(
    log: Log, clock: FakeClock
) -> None:
    await log.send(CHAT, [opened(), keyed(ONE, "key")])
    await log.send(LogId("conv_2"), [opened(profile_id=BOB), keyed(TWO, "key")])
    clock.advance(24 * 3600)
    with pytest.raises(IdempotencyConflict):
        await log.send(CHAT, [keyed(THREE, "key")])
    clock.advance(1)
    await log.send(CHAT, [keyed(THREE, "key")])
    with pytest.raises(IdempotencyConflict) as refused:
        await log.send(CHAT, [keyed(TaskId("task_4"), "key")])
    assert refused.value.details == {"task_id": THREE, "log_id": CHAT, "same": True}


@pytest.mark.parametrize(("request_hash", "same"), [("h", True), ("another", False)])
async def test_an_answer_has_a_key_as_a_message_has(
    log: Log, *, request_hash: str, same: bool
) -> None:
    lease = await held(log)
    why_not = QuestionId("q_2")
    await log.append(lease, [started(), asked(), asked(why_not)])
    await log.send(CHAT, [answered("Because.", key="key")])
    coming = (
        keyed(TWO, "key", request_hash),
        answered("Because.", why_not, key="key", request_hash=request_hash),
    )
    for entry in coming:
        with pytest.raises(IdempotencyConflict) as refused:
            await log.send(CHAT, [entry])
        assert refused.value.details == {"task_id": ONE, "log_id": CHAT, "same": same}


async def test_a_refused_request_leaves_its_key_free(log: Log) -> None:
    await held(log)
    with pytest.raises(NotFound):
        await log.send(CHAT, [keyed(TWO, "key"), cancelled(THREE)])
    await log.send(CHAT, [keyed(TWO, "key")])
    assert await log.head(CHAT) == 3


async def test_a_repeated_request_is_recognized_behind_any_number_of_tasks(log: Log) -> None:
    await log.send(CHAT, [opened(), keyed(ONE, "key"), message(TWO), message(THREE)])
    with pytest.raises(SessionBusy):
        await log.send(CHAT, [keyed(TaskId("task_4"), "other")])
    with pytest.raises(IdempotencyConflict) as refused:
        await log.send(CHAT, [keyed(TaskId("task_4"), "key")])
    assert refused.value.details == {"task_id": ONE, "log_id": CHAT, "same": True}
    lease = await log.acquire(CHAT, "me")
    assert lease
    await log.append(lease, [started()])
    await log.send(CHAT, [keyed(TaskId("task_4"), "other")])
