"""The contract of every projection: tasks, sessions and questions follow the logs."""

import pytest

from penstock.core.events.codec import from_wire
from penstock.core.events.events import CallRequested, Entry, TaskEnded
from penstock.core.ids import LogId, QuestionId, SessionId, TaskId
from penstock.core.task import QuestionKind, QuestionStatus, SessionRecord, TaskRecord, TaskStatus
from penstock.store.logs.log import Log
from penstock.store.projections import Page, Projections, SessionSort
from penstock.testing.clock import START, FakeClock
from tests.kit.log_entries import (
    ANN,
    BOB,
    CHAT,
    ONE,
    THREE,
    TWO,
    WHY,
    answered,
    asked,
    cancelled,
    ended,
    expired,
    held,
    message,
    note,
    opened,
    resumed,
    settled,
    started,
    suspended,
)

ALL = Page(limit=100)
TALK = SessionId(CHAT)
EVENING = QuestionId("q_2")


# ---- tasks ---------------------------------------------------------------------------------------


async def test_a_task_is_shown_from_its_message_to_its_end(
    log: Log, lists: Projections, clock: FakeClock
) -> None:
    lease = await held(log)
    assert await lists.find_task(ONE) == TaskRecord(
        task_id=ONE,
        log_id=CHAT,
        kind="message",
        status=TaskStatus.QUEUED,
        profile_id=ANN,
        agent="assistant",
        created_at=START,
        first_seq=2,
    )
    clock.advance(1)
    await log.append(lease, [started()])
    clock.advance(1)
    end = ended()
    await log.append(lease, [note("x"), end])
    task = await lists.find_task(ONE)
    assert task is not None
    assert (task.status, task.started_seq, task.ended_seq) == (TaskStatus.SUCCEEDED, 3, 5)
    assert (task.started_at, task.ended_at) == (START + 1000, START + 2000)
    assert task.outcome is not None
    assert from_wire("task_ended", task.outcome) == end.event


STATUSES = [
    ([], TaskStatus.QUEUED),
    ([started()], TaskStatus.RUNNING),
    ([started(), asked(), suspended()], TaskStatus.SUSPENDED),
    ([started(), asked(), suspended(), resumed()], TaskStatus.RUNNING),
    ([started(), asked(), suspended(), answered("x", by=None)], TaskStatus.SUSPENDED),
    ([started(), ended()], TaskStatus.SUCCEEDED),
    ([started(), ended(status=TaskStatus.FAILED)], TaskStatus.FAILED),
    ([ended(status=TaskStatus.CANCELLED)], TaskStatus.CANCELLED),
]


@pytest.mark.parametrize(("happened", "status"), STATUSES)
async def test_the_status_of_a_task_follows_its_events(
    log: Log, lists: Projections, happened: list[Entry], status: TaskStatus
) -> None:
    lease = await held(log)
    await log.append(lease, [*happened, note("last")])
    task, session = await lists.find_task(ONE), await lists.find_session(TALK)
    assert (task and task.status, session and session.status) == (status, status)


async def test_a_direct_call_is_a_task_of_its_caller(log: Log, lists: Projections) -> None:
    call = CallRequested(tool_id="t", input={}, profile_id=BOB)
    await log.send(LogId("task_9"), [Entry(call, TaskId("task_9"))])
    task = await lists.find_task(TaskId("task_9"))
    assert task is not None
    assert (task.kind, task.profile_id, task.agent, task.first_seq) == ("call", BOB, "", 1)
    assert await lists.find_session(SessionId("task_9")) is None


async def test_tasks_are_listed_newest_first_a_page_at_a_time(
    log: Log, lists: Projections, clock: FakeClock
) -> None:
    await log.send(CHAT, [opened(), message()])
    clock.advance(1)
    await log.send(LogId("conv_2"), [opened(profile_id=BOB), message(TWO)])
    clock.advance(1)
    await log.send(CHAT, [message(THREE)])

    async def page(limit: int, offset: int) -> tuple[list[TaskId], int]:
        found, count = await lists.tasks(page=Page(limit=limit, offset=offset))
        return [task.task_id for task in found], count

    assert await page(9, 0) == ([THREE, TWO, ONE], 3)
    assert await page(1, 1) == ([TWO], 3)
    assert await page(9, 3) == ([], 3)
    oldest, _ = await lists.tasks(page=Page(is_descending=False))
    assert [task.task_id for task in oldest] == [ONE, TWO, THREE]
    of_chat, _ = await lists.tasks(log_id=CHAT, page=ALL)
    of_bob, count = await lists.tasks(profile_id=BOB, page=ALL)
    assert [task.task_id for task in of_chat] == [THREE, ONE]
    assert ([task.task_id for task in of_bob], count) == ([TWO], 1)


async def test_the_task_of_an_event_is_found(log: Log, lists: Projections) -> None:
    lease = await held(log)
    await log.append(lease, [started(), ended()])
    await log.send(CHAT, [message(TWO)])
    await log.append(lease, [started(TWO), note("x")])
    found = [await lists.task_at(CHAT, seq) for seq in (1, 2, 3, 5, 6, 99)]
    assert [task and task.task_id for task in found] == [None, None, ONE, ONE, TWO, TWO]


async def test_missing_rows_are_none(lists: Projections) -> None:
    assert await lists.find_task(ONE) is None
    assert await lists.find_session(TALK) is None
    assert await lists.find_question(WHY) is None
    assert await lists.task_at(CHAT, 1) is None
    assert await lists.tasks(page=ALL) == ([], 0)
    assert await lists.sessions(profile_id=ANN, page=ALL) == ([], 0)
    assert await lists.questions(page=ALL) == ([], 0)


# ---- sessions ------------------------------------------------------------------------------------


async def test_a_session_is_shown_as_it_was_opened(
    log: Log, lists: Projections, clock: FakeClock
) -> None:
    await log.send(CHAT, [opened("About tea")])
    assert await lists.find_session(TALK) == SessionRecord(
        session_id=TALK,
        profile_id=ANN,
        agent="assistant",
        title="About tea",
        created_at=START,
        updated_at=START,
    )


async def test_a_session_counts_messages_and_answers(
    log: Log, lists: Projections, clock: FakeClock
) -> None:
    lease = await held(log)
    clock.advance(1)
    await log.append(lease, [started(), settled(1), ended()])
    clock.advance(1)
    await log.send(CHAT, [message(TWO)])
    await log.append(lease, [started(TWO), ended(TWO, TaskStatus.FAILED)])
    session = await lists.find_session(TALK)
    assert session is not None
    assert (session.message_count, session.status) == (3, TaskStatus.FAILED)
    assert (session.created_at, session.updated_at) == (START, START + 2000)


async def test_messages_that_were_answered_again_are_not_counted(
    log: Log, lists: Projections
) -> None:
    lease = await held(log)
    await log.append(lease, [started(), ended()])
    await log.send(CHAT, [message(TWO)])
    await log.append(lease, [started(TWO), ended(TWO)])
    await log.send(CHAT, [message(THREE, supersedes=ONE)])
    session = await lists.find_session(TALK)
    assert session is not None
    assert (session.message_count, session.status) == (1, TaskStatus.QUEUED)


async def test_a_session_has_the_status_of_its_newest_unfinished_task(
    log: Log, lists: Projections
) -> None:
    lease = await held(log)
    await log.append(lease, [started(), asked(), suspended()])
    await log.send(CHAT, [message(TWO)])
    await log.append(lease, [ended(TWO, TaskStatus.CANCELLED)])
    session = await lists.find_session(TALK)
    assert session is not None
    assert session.status is TaskStatus.SUSPENDED


async def test_sessions_are_listed_as_they_were_used_last(
    log: Log, lists: Projections, clock: FakeClock
) -> None:
    for number, title in enumerate(["Tea", "Coffee", "Green tea"]):
        await log.send(LogId(f"conv_{number}"), [opened(title), message(TaskId(title))])
        clock.advance(1)
    await log.send(LogId("conv_9"), [opened("Tea", profile_id=BOB)])
    await log.send(LogId("conv_8"), [opened("Tea", agent="cook")])
    clock.advance(1)
    await log.send(LogId("conv_0"), [message(TaskId("Milk"))])

    async def titles(
        agent: str | None = "assistant", search: str = "", page: Page = ALL
    ) -> tuple[list[str], int]:
        found, count = await lists.sessions(profile_id=ANN, agent=agent, search=search, page=page)
        return [session.title for session in found], count

    assert await titles() == (["Tea", "Green tea", "Coffee"], 3)
    assert await titles(page=Page(limit=1, offset=1)) == (["Green tea"], 3)
    assert await titles(search="TEA") == (["Tea", "Green tea"], 2)
    assert await titles(search="%") == ([], 0)
    assert await titles(search="_ea") == ([], 0)
    assert await titles(agent=None) == (["Tea", "Tea", "Green tea", "Coffee"], 4)


SORTED = [
    (SessionSort.UPDATED, None, ["conv_3", "conv_1", "conv_4", "conv_2"]),
    (SessionSort.UPDATED, False, ["conv_2", "conv_4", "conv_1", "conv_3"]),
    (SessionSort.CREATED, None, ["conv_4", "conv_3", "conv_2", "conv_1"]),
    (SessionSort.CREATED, False, ["conv_1", "conv_2", "conv_3", "conv_4"]),
    (SessionSort.TITLE, None, ["conv_2", "conv_3", "conv_4", "conv_1"]),
    (SessionSort.TITLE, True, ["conv_1", "conv_4", "conv_3", "conv_2"]),
]


@pytest.mark.parametrize(("sort", "is_descending", "expected"), SORTED)
async def test_sessions_are_sorted_and_pages_fit_together(
    log: Log,
    lists: Projections,
    clock: FakeClock,
    sort: SessionSort,
    is_descending: bool | None,
    expected: list[str],
) -> None:
    """Titles are compared without case, and equal ones are ordered by id."""
    for number, title in enumerate(["École", "_a", "Tea", "tea"], 1):
        await log.send(LogId(f"conv_{number}"), [opened(title)])
        clock.advance(number < 3)
    for number, name in enumerate(["conv_2", "conv_4", "conv_1", "conv_3"]):
        clock.advance(number > 1)
        await log.send(LogId(name), [message(TaskId(f"task_{number}"))])
    found: list[str] = []
    for offset in range(5):
        page = Page(limit=1, offset=offset, is_descending=is_descending)
        part, count = await lists.sessions(profile_id=ANN, sort=sort, page=page)
        found += [each.session_id for each in part]
        assert count == 4
    assert found == expected


# ---- questions -----------------------------------------------------------------------------------


async def test_a_question_is_shown_from_being_asked_to_its_answer(
    log: Log, lists: Projections, clock: FakeClock
) -> None:
    lease = await held(log)
    clock.advance(1)
    await log.append(lease, [started(), asked(), suspended()])
    found = await lists.find_question(WHY)
    assert found is not None
    assert (found.question.kind, found.question.text) == (QuestionKind.ASK_USER, "Why?")
    assert (found.log_id, found.task_id, found.profile_id, found.agent) == (
        CHAT,
        ONE,
        ANN,
        "assistant",
    )
    assert (found.asked_at, found.status) == (START + 1000, QuestionStatus.OPEN)
    assert (found.answered_at, found.answered_by, found.answer) == (None, None, None)
    clock.advance(1)
    await log.send(CHAT, [answered("because")])
    found = await lists.find_question(WHY)
    assert found is not None
    assert (found.status, found.answered_at) == (QuestionStatus.ANSWERED, START + 2000)
    assert (found.answered_by, found.answer) == (ANN, {"text": "because"})


CLOSED = [
    [expired()],
    [ended(status=TaskStatus.FAILED)],
    [ended(status=TaskStatus.CANCELLED)],
]


@pytest.mark.parametrize("closing", CLOSED)
async def test_a_question_without_a_waiting_task_is_cancelled(
    log: Log, lists: Projections, clock: FakeClock, closing: list[Entry]
) -> None:
    lease = await held(log)
    await log.append(lease, [started(), asked(), asked(EVENING), answered("x", EVENING, by=None)])
    clock.advance(1)
    await log.append(lease, closing)
    found, kept = await lists.find_question(WHY), await lists.find_question(EVENING)
    assert found is not None
    assert (found.status, found.answered_at) == (QuestionStatus.CANCELLED, START + 1000)
    assert found.answered_by is None
    assert kept is not None
    assert kept.status is QuestionStatus.ANSWERED


async def test_a_late_answer_of_the_holder_changes_nothing(log: Log, lists: Projections) -> None:
    lease = await held(log)
    await log.append(lease, [started(), asked()])
    await log.send(CHAT, [answered("first")])
    await log.append(lease, [expired()])
    found = await lists.find_question(WHY)
    assert found is not None
    assert (found.status, found.answer) == (QuestionStatus.ANSWERED, {"text": "first"})


async def test_questions_are_listed_oldest_first(
    log: Log, lists: Projections, clock: FakeClock
) -> None:
    lease = await held(log)
    await log.append(lease, [started(), asked(QuestionId("q_3")), asked(QuestionId("q_2"))])
    await log.send(LogId("conv_2"), [opened(profile_id=BOB, agent="cook"), message(TWO)])
    other = await log.acquire(LogId("conv_2"), "me")
    assert other is not None
    clock.advance(1)
    await log.append(other, [started(TWO), asked(QuestionId("q_1"), TWO)])
    await log.send(CHAT, [answered("x", QuestionId("q_3"))])
    found, count = await lists.questions(page=ALL)
    assert ([each.question.question_id for each in found], count) == (["q_3", "q_2", "q_1"], 3)
    found, count = await lists.questions(page=Page(limit=1, offset=2))
    assert ([each.question.question_id for each in found], count) == (["q_1"], 3)
    found, _ = await lists.questions(page=Page(is_descending=True))
    assert [each.question.question_id for each in found] == ["q_1", "q_2", "q_3"]
    found, _ = await lists.questions(log_id=CHAT, status=QuestionStatus.OPEN, page=ALL)
    assert [each.question.question_id for each in found] == ["q_2"]
    found, _ = await lists.questions(profile_id=BOB, page=ALL)
    assert [each.question.question_id for each in found] == ["q_1"]
    found, _ = await lists.questions(agent="cook", status=QuestionStatus.ANSWERED, page=ALL)
    assert found == []


async def test_all_that_is_open_is_found_without_a_page(log: Log, lists: Projections) -> None:
    lease = await held(log)
    ids = [QuestionId(f"q_{number:03}") for number in range(250)]
    await log.append(lease, [started(), *(asked(each) for each in ids)])
    await log.send(CHAT, [answered("x", ids[7])])
    left = [each for each in ids if each != ids[7]]
    for task_id, wanted in ((None, left), (ONE, left), (TWO, [])):
        found = await lists.open_questions(CHAT, task_id)
        assert [each.question.question_id for each in found] == wanted
    assert await lists.open_questions(LogId("conv_2")) == []


# ---- together with the log -----------------------------------------------------------------------


async def test_a_refused_event_shows_nowhere(log: Log, lists: Projections) -> None:
    await log.send(CHAT, [opened(), message()])
    with pytest.raises(Exception, match="task_9"):
        await log.send(CHAT, [message(TWO), cancelled(TaskId("task_9"))])
    assert await lists.find_task(TWO) is None
    session = await lists.find_session(TALK)
    assert session is not None
    assert session.message_count == 1


async def test_large_texts_are_shown_whole(log: Log, lists: Projections) -> None:
    lease = await held(log)
    large = "é" * 50_000
    end = Entry(TaskEnded(status=TaskStatus.FAILED, content=large), ONE)
    await log.append(lease, [started(), asked(text=large)])
    await log.send(CHAT, [answered(large)])
    await log.append(lease, [end])
    task, question = await lists.find_task(ONE), await lists.find_question(WHY)
    assert task is not None
    assert task.outcome is not None
    assert from_wire("task_ended", task.outcome) == end.event
    assert question is not None
    assert (question.question.text, question.answer) == (large, {"text": large})
