"""Events as a test needs them, and a session whose log holds them."""

from typing import Any

from penstock.core.call import CallPath, ToolCall
from penstock.core.envelope import Envelope
from penstock.core.events.events import (
    CallSettled,
    Entry,
    Event,
    MessageReceived,
    QuestionAnswered,
    QuestionAsked,
    ReplyReceived,
    SessionOpened,
    TaskEnded,
)
from penstock.core.ids import CallId, LogId, MessageId, ProfileId, QuestionId, TaskId, new_id
from penstock.core.limits import Limits, World
from penstock.core.task import EXPIRED, Question, QuestionKind, QuestionStatus, TaskStatus
from penstock.engine.budget import Allowance, Budget
from penstock.engine.held_log import HeldLog
from penstock.engine.ledger import Ledger
from penstock.engine.session_state import SessionState, fold
from penstock.testing.clock import FakeClock
from penstock.testing.log import MemoryLog

LOG = LogId("conv_1")
ANN = ProfileId("ann")
ONE, TWO = TaskId("task_1"), TaskId("task_2")
KEY = bytes(32)


def path_of(call_id: str) -> CallPath:
    return CallPath(f"task/1/tool#{call_id}")


def message(content: str = "Hi", **more: Any) -> MessageReceived:
    return MessageReceived(message_id=MessageId("msg_1"), content=content, **more)


def reply(iteration: int, *call_ids: str, text: str = "", **more: Any) -> ReplyReceived:
    calls = tuple(ToolCall(CallId(each), "tool", {}) for each in call_ids)
    return ReplyReceived(
        iteration=iteration, base=0, text=text, message_id=MessageId("msg_2"), calls=calls, **more
    )


def outcome(call_id: str, **more: Any) -> CallSettled:
    fields: dict[str, Any] = {"context": f"{call_id} done", "envelope": Envelope.success(1)} | more
    return CallSettled(tool_id="tool", call_id=CallId(call_id), **fields)


def question(name: str, **more: Any) -> Question:
    return Question(
        question_id=QuestionId(f"q_{name}"),
        kind=QuestionKind.APPROVAL,
        text="Run it?",
        path=path_of(name),
        **more,
    )


def answered(name: str, by: ProfileId | None = ANN, **answer: Any) -> QuestionAnswered:
    """Without a person: the question expires."""
    status = QuestionStatus.ANSWERED if by else QuestionStatus.CANCELLED
    message = answer if by else {**EXPIRED, **answer}
    return QuestionAnswered(
        question_id=QuestionId(f"q_{name}"), status=status, answer=message, by=by
    )


def withdrawn(name: str) -> QuestionAnswered:
    return QuestionAnswered(question_id=QuestionId(f"q_{name}"), status=QuestionStatus.CANCELLED)


def ended(status: TaskStatus = TaskStatus.SUCCEEDED) -> TaskEnded:
    return TaskEnded(status=status)


async def held_log(
    *events: Event, log: MemoryLog | None = None, clock: FakeClock | None = None
) -> HeldLog:
    """Return a held log whose first task has a request and these events."""
    clock = clock or FakeClock()
    log = log or MemoryLog(clock)
    opened = SessionOpened(profile_id=ANN, agent="assistant", title="")
    await log.send(LOG, [Entry(opened), Entry(message(), ONE)])
    lease = await log.acquire(LOG, "me")
    assert lease
    world = World(clock, Limits(), new_id)
    held = HeldLog(log, lease, fold(LOG, await log.read(LOG)), world, since=clock.monotonic())
    for event in events:
        path = event.question.path if isinstance(event, QuestionAsked) else None
        held.add(event, ONE, path)
    await held.commit()
    return held


def ledger_of(held: HeldLog) -> Ledger:
    """Return the ledger of the running task."""
    task = held.state.current
    assert task
    return Ledger(held, task, Budget(Allowance(), task.spent, FakeClock()), KEY)


def folded_with(*events: Event) -> SessionState:
    """Return the state of Ann's session after these events of its first task."""
    state = SessionState(LOG)
    state.apply(SessionOpened(profile_id=ANN, agent="assistant", title=""), None, None, 0)
    for event in events:
        state.apply(event, ONE, None, 0)
    return state
