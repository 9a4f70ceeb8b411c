"""Entries for logs and projections: one event each, with its task and call."""

from penstock.core.call import CallPath
from penstock.core.envelope import Envelope
from penstock.core.events.events import (
    CallRequested,
    CallSettled,
    CancelRequested,
    Entry,
    MessageReceived,
    NoteEmitted,
    QuestionAnswered,
    QuestionAsked,
    SessionOpened,
    TaskEnded,
    TaskResumed,
    TaskStarted,
    TaskSuspended,
)
from penstock.core.ids import LogId, MessageId, ProfileId, QuestionId, TaskId
from penstock.core.task import Question, QuestionKind, QuestionStatus, TaskStatus
from penstock.store.logs.log import Lease, Log
from penstock.testing.clock import FakeClock

ANN, BOB = ProfileId("ann"), ProfileId("bob")
CHAT = LogId("conv_1")
CALL = LogId("task_call")
ONE, TWO, THREE = TaskId("task_1"), TaskId("task_2"), TaskId("task_3")
WHY = QuestionId("q_1")


def opened(title: str = "Hi", *, profile_id: ProfileId = ANN, agent: str = "assistant") -> Entry:
    return Entry(SessionOpened(profile_id=profile_id, agent=agent, title=title))


def message(task_id: TaskId = ONE, *, supersedes: TaskId | None = None) -> Entry:
    event = MessageReceived(
        message_id=MessageId(f"msg_{task_id}"), content="Hello", supersedes=supersedes
    )
    return Entry(event, task_id)


def keyed(task_id: TaskId, key: str, request_hash: str = "h") -> Entry:
    event = MessageReceived(
        message_id=MessageId(f"msg_{task_id}"),
        content="Hello",
        idempotency_key=key,
        request_hash=request_hash,
    )
    return Entry(event, task_id)


def note(text: str) -> Entry:
    return Entry(NoteEmitted(event_type="test", message=text), ONE)


def settled(output: object) -> Entry:
    event = CallSettled(tool_id="t", envelope=Envelope.success(output))
    return Entry(event, ONE, CallPath("task_1/1/t#ab"))


def started(task_id: TaskId = ONE) -> Entry:
    return Entry(TaskStarted(), task_id)


def resumed(task_id: TaskId = ONE, *, crashed: bool = False) -> Entry:
    return Entry(TaskResumed(crashed=crashed), task_id)


def suspended(task_id: TaskId = ONE) -> Entry:
    return Entry(TaskSuspended(questions=(WHY,)), task_id)


def ended(task_id: TaskId = ONE, status: TaskStatus = TaskStatus.SUCCEEDED) -> Entry:
    answer = MessageId(f"msg_{task_id}_answer") if status is TaskStatus.SUCCEEDED else None
    return Entry(TaskEnded(status=status, message_id=answer, content="Hi"), task_id)


def asked(question_id: QuestionId = WHY, task_id: TaskId = ONE, *, text: str = "Why?") -> Entry:
    question = Question(
        question_id=question_id,
        kind=QuestionKind.ASK_USER,
        text=text,
        path=CallPath(f"{task_id}/1/ask_user#ab"),
    )
    return Entry(QuestionAsked(question=question), task_id)


def answered(
    text: str,
    question_id: QuestionId = WHY,
    by: ProfileId | None = ANN,
    *,
    key: str | None = None,
    request_hash: str = "h",
) -> Entry:
    event = QuestionAnswered(
        question_id=question_id,
        status=QuestionStatus.ANSWERED,
        answer={"text": text},
        by=by,
        idempotency_key=key,
        request_hash=request_hash if key else None,
    )
    return Entry(event, ONE)


def expired(question_id: QuestionId = WHY) -> Entry:
    event = QuestionAnswered(question_id=question_id, status=QuestionStatus.CANCELLED)
    return Entry(event, ONE)


def cancelled(task_id: TaskId = ONE) -> Entry:
    return Entry(CancelRequested(by=ANN), task_id)


async def held(log: Log, owner: str = "me") -> Lease:
    """Return the lease of a new conversation with one message in it: two events."""
    await log.send(CHAT, [opened(), message()])
    return await taken(log, owner)


async def taken(log: Log, owner: str = "me") -> Lease:
    lease = await log.acquire(CHAT, owner)
    assert lease is not None
    return lease


async def live_a_little(log: Log, clock: FakeClock) -> None:
    """A conversation with everything in it, one of another profile, and a direct call."""
    await log.send(CHAT, [opened("A title"), message()])
    lease = await log.acquire(CHAT, "me")
    assert lease is not None
    for step in [started(), note("x" * 1000), asked(), suspended(), resumed(), ended()]:
        clock.advance(1)
        await log.append(lease, [step])
    await log.send(CHAT, [message(TWO, supersedes=ONE), message(THREE), cancelled(TWO)])
    await log.append(lease, [ended(TWO, TaskStatus.CANCELLED), started(THREE)])
    await log.send(LogId("conv_2"), [opened(profile_id=BOB)])
    direct = CallRequested(tool_id="t", input={"large": "x" * 1000}, profile_id=ANN)
    await log.send(CALL, [Entry(direct, TaskId("task_4"))])
