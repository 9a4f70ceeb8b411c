"""The bodies of deliveries: the task, its end or its question, and content on request only."""

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.app.background.bodies import Describer
from penstock.core.call import CallPath
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope, ErrorDetail
from penstock.core.events.events import Event, QuestionAsked, Record, TaskEnded
from penstock.core.ids import LogId, ProfileId, QuestionId, TaskId
from penstock.core.task import Question, QuestionKind, TaskOutput, TaskRecord, TaskStatus
from penstock.store.logs.outbox import Delivery, DeliveryStatus
from penstock.store.logs.webhook import Webhook

LOG, TASK = LogId("conv_1"), TaskId("task_1")
HOOK = Webhook(url="https://hooks.test", events=("task.ended",), vault_key="k")
SENT = Delivery(
    delivery_id="dlv_1",
    webhook_id=HOOK.webhook_id,
    log_id=LOG,
    task_id=TASK,
    seq=7,
    event="task.ended",
    at=Moment(0),
    status=DeliveryStatus.PENDING,
    attempts=0,
    next_at=Moment(0),
)
RECORD = TaskRecord(
    task_id=TASK,
    log_id=LOG,
    kind="message",
    status=TaskStatus.FAILED,
    profile_id=ProfileId("ann"),
    agent="assistant",
    created_at=Moment(0),
    first_seq=1,
)


class Stored:
    """A log with one event, and the task of it."""

    def __init__(self, event: Event, task: TaskRecord | None = RECORD) -> None:
        self._record = Record(LOG, 7, Moment(0), TASK, None, event)
        self._task = task

    async def read(self, _: LogId, *, after: int, limit: int) -> list[Record]:
        return [self._record][: limit if after < self._record.seq else 0]

    async def find_task(self, _: TaskId) -> TaskRecord | None:
        return self._task


async def body(stored: Stored, hook: Webhook = HOOK, sent: Delivery = SENT) -> Any:
    describer = Describer(stored, stored, "https://me.test/")  # type: ignore[arg-type]
    return await describer.describe(sent, hook)


ASKED = QuestionAsked(
    question=Question(
        question_id=QuestionId("q_1"),
        kind=QuestionKind.APPROVAL,
        text="May send_email run?",
        path=CallPath("task_1/1/send_email#ab"),
        input={"to": "ann"},
        context="the order is late",
    )
)
ENDED = TaskEnded(
    status=TaskStatus.FAILED,
    content="Partly done",
    error=ErrorDetail(code="TOOL_FAILED", message="no ann"),
    envelope=Envelope.success({"sum": 1}),
    output=TaskOutput(value={"sum": 2}),
)


@pytest.mark.parametrize("has_content", [False, True])
async def test_content_is_sent_on_request_only(*, has_content: bool) -> None:
    """Spec: "no outputs, arguments or messages unless `content = true`"."""
    hook = replace(HOOK, has_content=has_content)
    question, task = (await body(Stored(ASKED), hook))["question"], await body(Stored(ENDED), hook)
    assert ("arguments" in question, "context" in question) == (has_content, has_content)
    assert question["url"] == "https://me.test/api/questions/q_1"
    given = {each: task["task"].get(each) for each in ("content", "output", "error", "result")}
    assert (given["content"], given["output"]) == (
        ("Partly done", {"sum": 2}) if has_content else (None, None)
    )
    assert given["error"]["code"] == "TOOL_FAILED"
    assert ("no ann" in str(task), given["result"] is not None) == (has_content, has_content)


async def test_an_event_that_was_erased_has_no_body() -> None:
    assert await body(Stored(ENDED, task=None)) is None
    assert await body(Stored(ENDED), sent=replace(SENT, seq=8)) is None
