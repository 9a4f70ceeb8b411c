"""A question is closed once, by one event of the log, whatever comes at the same time."""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.core.call import CallPath
from penstock.core.errors import AlreadyAnswered, NotFound, QuestionClosed, TaskOver
from penstock.core.events.events import (
    CancelRequested,
    Entry,
    MessageReceived,
    QuestionAnswered,
    QuestionAsked,
    Record,
    TaskEnded,
    TaskStarted,
)
from penstock.core.ids import LogId, MessageId, QuestionId, TaskId, new_id
from penstock.core.limits import Limits, World
from penstock.core.task import EXPIRED, Question, QuestionKind, QuestionStatus, TaskStatus
from penstock.engine.held_log import HeldLog
from penstock.engine.session_state import SessionState, fold
from penstock.engine.suspend import withdraw
from penstock.engine.task_state import TaskState
from penstock.store.logs.log import Log
from penstock.store.projections import Projections
from penstock.testing.clock import FakeClock
from tests.contracts.conftest import Place
from tests.kit.log_entries import (
    ANN,
    CHAT,
    ONE,
    WHY,
    answered,
    asked,
    cancelled,
    ended,
    expired,
    held,
    opened,
    started,
    suspended,
)

NUMBERS = count(1)
Step = tuple[str, ...]
"""What is done at once; the next step waits for all of it."""


class Story:
    """One conversation whose task asks two questions, its holder, and people outside."""

    def __init__(self, place: Place) -> None:
        number = next(NUMBERS)
        self.log, self.lists, self.clock = place.log, place.lists, place.clock
        self.log_id, self.task_id = LogId(f"conv_s{number}"), TaskId(f"task_s{number}")
        self.questions = [QuestionId(f"q_s{number}_{name}") for name in "ab"]
        self.accepted: dict[QuestionId, list[str]] = {each: [] for each in self.questions}
        self.refused: list[tuple[QuestionId, type[Exception]]] = []
        self.held: HeldLog

    async def begin(self) -> None:
        """Ask the first question; the second one comes with the deed `ask`."""
        brief = MessageReceived(message_id=MessageId(f"msg_{self.log_id}"), content="Hi")
        await self.log.send(self.log_id, [opened(), Entry(brief, self.task_id)])
        lease = await self.log.acquire(self.log_id, "me")
        assert lease is not None
        state = fold(self.log_id, await self.log.read(self.log_id))
        world = World(self.clock, Limits(), new_id)
        self.held = HeldLog(self.log, lease, state, world, since=self.clock.monotonic())
        self.held.add(TaskStarted(), self.task_id)
        self.ask(self.questions[0])
        await self.held.commit()

    def ask(self, question_id: QuestionId) -> None:
        path = CallPath(f"{self.task_id}/1/ask_user#{question_id}")
        question = Question(
            question_id=question_id, kind=QuestionKind.ASK_USER, text="?", path=path
        )
        self.held.add(QuestionAsked(question=question), self.task_id)

    async def answer(self, number: int) -> None:
        """Answer from outside, as `chat/inbox` does."""
        question_id = self.questions[number]
        said = str(next(NUMBERS))
        event = QuestionAnswered(
            question_id=question_id,
            status=QuestionStatus.ANSWERED,
            answer={"text": said},
            by=ANN,
        )
        try:
            await self.log.send(self.log_id, [Entry(event, self.task_id)])
        except (AlreadyAnswered, QuestionClosed, NotFound) as error:
            self.refused.append((question_id, type(error)))
        else:
            self.accepted[question_id].append(said)

    async def cancel(self) -> None:
        try:
            await self.log.send(self.log_id, [Entry(CancelRequested(by=ANN), self.task_id)])
        except TaskOver:
            assert self.task.is_ended

    async def expire(self) -> None:
        for question_id in list(self.task.waits.waiting):
            event = QuestionAnswered(
                question_id=question_id, status=QuestionStatus.CANCELLED, answer=EXPIRED
            )
            self.held.add(event, self.task_id)
        await self.held.commit()

    async def withdraw(self) -> None:
        """Open questions of a call are withdrawn together with the next events."""
        withdraw(self.held, self.task)
        self.held.submit()

    async def ask_more(self) -> None:
        if not self.task.is_ended and self.questions[1] not in self.task.waits.questions:
            self.ask(self.questions[1])
            await self.held.commit()

    async def end(self) -> None:
        if not self.task.is_ended:
            withdraw(self.held, self.task)
            how = TaskStatus.CANCELLED if self.task.cancel_requested else TaskStatus.FAILED
            self.held.add(TaskEnded(status=how), self.task_id)
            await self.held.commit()

    async def learn(self) -> None:
        await self.held.refresh()

    @property
    def task(self) -> TaskState:
        task = self.held.state.current
        assert task is not None
        return task

    async def tell(self, steps: list[Step]) -> list[Record]:
        """Do all of it, end the task, and return the whole log."""
        deeds: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "answer a": lambda: self.answer(0),
            "answer b": lambda: self.answer(1),
            "cancel": self.cancel,
            "expire": self.expire,
            "withdraw": self.withdraw,
            "ask": self.ask_more,
            "learn": self.learn,
            "end": self.end,
        }
        await self.begin()
        for step in steps:
            await asyncio.gather(*(deeds[name]() for name in step))
        await self.end()
        await self.held.commit()
        await self.learn()
        return list(await self.log.read(self.log_id))


DEEDS = ["answer a", "answer b", "cancel", "expire", "withdraw", "ask", "learn", "end"]
STEPS = st.lists(st.lists(st.sampled_from(DEEDS), min_size=1, max_size=4).map(tuple), max_size=5)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS)
async def test_one_of_several_simultaneous_events_closes_a_question(
    place: Place, steps: list[Step]
) -> None:
    story = Story(place)
    records = await story.tell(steps)
    assert [each.seq for each in records] == list(range(1, len(records) + 1))
    cancels = [each.seq for each in records if isinstance(each.event, CancelRequested)]
    for question_id in story.questions:
        ends = {
            each.seq: each.event
            for each in records
            if isinstance(each.event, QuestionAnswered) and each.event.question_id == question_id
        }
        assert len(ends) <= 1
        said = [(each.answer or {})["text"] for each in ends.values() if each.by is not None]
        assert story.accepted[question_id] == said
        assert not said or not cancels or min(ends) < cancels[0], "it came after the cancel"
        await is_shown_as_it_ended(story, question_id, list(ends.values()))
    assert live(story.held.state) == live(fold(story.log_id, records))


async def is_shown_as_it_ended(
    story: Story, question_id: QuestionId, ends: list[QuestionAnswered]
) -> None:
    shown = await story.lists.find_question(question_id)
    refusals = {error for refused, error in story.refused if refused == question_id}
    if shown is None:
        assert refusals <= {NotFound}
    elif ends and ends[0].by is not None:
        assert (shown.status, shown.answer) == (QuestionStatus.ANSWERED, ends[0].answer)
        assert refusals <= {AlreadyAnswered, NotFound}
    else:
        assert shown.status is QuestionStatus.CANCELLED
        assert refusals <= {QuestionClosed, NotFound}


def live(state: SessionState) -> tuple[Any, ...]:
    """The state that decides how the task continues."""
    task = state.current
    assert task is not None
    answers = {path: (each.status, each.answer) for path, each in task.waits.answers.items()}
    return state.seq, task.is_ended, set(task.waits.waiting), answers


BETWEEN: list[tuple[list[Entry], type[Exception]]] = [
    ([cancelled()], QuestionClosed),
    ([answered("first"), cancelled()], AlreadyAnswered),
]


@pytest.mark.parametrize(("between", "refusal"), BETWEEN)
async def test_an_answer_after_the_cancel_is_refused_before_the_holder_knows(
    log: Log, lists: Projections, between: list[Entry], refusal: type[Exception]
) -> None:
    lease = await held(log)
    await log.append(lease, [started(), asked(), suspended()])
    await log.send(CHAT, between)
    with pytest.raises(refusal):
        await log.send(CHAT, [answered("late")])
    assert await lists.open_questions(CHAT) == []


async def test_a_question_that_is_asked_after_the_cancel_takes_no_answer(
    log: Log, lists: Projections
) -> None:
    lease = await held(log)
    await log.append(lease, [started()])
    await log.send(CHAT, [cancelled()])
    await log.append(lease, [asked()])
    with pytest.raises(QuestionClosed):
        await log.send(CHAT, [answered("late")])
    await log.append(lease, [expired(), ended(status=TaskStatus.CANCELLED)])
    shown = await lists.find_question(WHY)
    assert shown is not None
    assert shown.status is QuestionStatus.CANCELLED


async def test_events_sent_together_are_admitted_in_order(log: Log) -> None:
    lease = await held(log)
    await log.append(lease, [started(), asked()])
    head = await log.head(CHAT)
    with pytest.raises(QuestionClosed):
        await log.send(CHAT, [cancelled(), answered("late")])
    assert await log.head(CHAT) == head
    await log.send(CHAT, [answered("in time"), cancelled()])


async def test_the_holder_receives_an_answer_committed_before_its_own_end(log: Log) -> None:
    """Several appends are on their way at once, and what one leaves out none of them counts."""
    lease = await held(log)
    await log.append(lease, [started(), asked()])
    first = (await log.send(CHAT, [answered("first")]))[0]
    appends = [log.append(lease, [expired()]), log.append(lease, [ended()])]
    known = [record for append in appends for record in await append]
    assert [each.seq for each in known] == [first.seq, first.seq + 1]
    assert [type(each.event) for each in known] == [QuestionAnswered, TaskEnded]
    assert await log.head(CHAT) == first.seq + 1
    assert not await log.release(lease, head=first.seq + 1)


async def test_another_holder_continues_after_an_omitted_event(log: Log, clock: FakeClock) -> None:
    lease = await held(log)
    await log.append(lease, [started(), asked()])
    await log.send(CHAT, [answered("first")])
    await log.append(lease, [expired()])
    clock.advance(4)
    other = await log.acquire(CHAT, "another")
    assert other is not None
    (written,) = await log.append(other, [ended(ONE)])
    assert written.seq == await log.head(CHAT) == other.head + 1
