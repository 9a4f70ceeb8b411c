"""Events as JSON and back."""

import json
from contextlib import suppress
from dataclasses import fields
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.call import CallPath, ToolCall
from penstock.core.clock import Moment
from penstock.core.codec import decode, encode, from_wire, kind_of, to_wire
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.events import (
    CallRequested,
    CallRetried,
    CallSettled,
    CallStarted,
    CancelRequested,
    Erased,
    Event,
    MessageReceived,
    MessagesErased,
    NoteEmitted,
    QuestionAnswered,
    QuestionAsked,
    ReplyReceived,
    ReplyRestarted,
    SessionOpened,
    StateWritten,
    StoredFile,
    TaskEnded,
    TaskResumed,
    TaskStarted,
    TaskSuspended,
)
from penstock.core.ids import ArtifactId, BlobId, CallId, MessageId, ProfileId, QuestionId, TaskId
from penstock.core.messages import Usage
from penstock.core.question import Option, Question, QuestionKind, QuestionStatus
from penstock.core.task import TaskStatus

TASK, MESSAGE, CALL = TaskId("task_1"), MessageId("msg_1"), CallId("tc_1")
QUESTION, ANN, BLOB = QuestionId("q_1"), ProfileId("ann"), BlobId("ab" * 32)
SPENT = Usage(input_tokens=9, output_tokens=8, model_calls=7, tool_calls=6, cost_usd=0.5)
DOWN = ErrorDetail(
    code="UPSTREAM_UNAVAILABLE",
    message="no answer",
    retryable=True,
    continuable=False,
    suggestion="Try later.",
    details={"status": 503},
)
SPENT_JSON = '{"input_tokens":9,"output_tokens":8,"model_calls":7,"tool_calls":6,"cost_usd":0.5}'
DOWN_JSON = (
    '{"code":"UPSTREAM_UNAVAILABLE","message":"no answer","retryable":true,"continuable":false,'
    '"suggestion":"Try later.","details":{"status":503}}'
)
ASKED = Question(
    question_id=QUESTION,
    kind=QuestionKind.APPROVAL,
    text="May it run?",
    path=CallPath("task_1/1/send#ab"),
    call_id=CALL,
    tool_id="send",
    input={"to": "bob"},
    input_schema={"type": "object"},
    context="because",
    options=(Option(label="Yes", value="yes", aliases=("y", "ok")), Option(label="No", value="no")),
    schema={"type": "string"},
    expires_at=Moment(5),
)
PLAIN = Question(
    question_id=QUESTION, kind=QuestionKind.FORK, text="?", path=CallPath("task_1/choose/1")
)
FILE = StoredFile(blob_id=BLOB, mime_type="image/png", size=9, is_image=True, width=3, height=4)
ASKING = ToolCall(CALL, "send", {"to": "bob"}, "{to: bob}", cut=True)

# Every kind as it stands in logs of yesterday: with every field set, and with as few as can be.
# A line here is never changed. A new field gets a default, and a line of its own.
STORED: list[tuple[Event, str, str]] = [
    (
        SessionOpened(profile_id=ANN, agent="assistant", title="Hi"),
        "session_opened",
        '{"profile_id":"ann","agent":"assistant","title":"Hi"}',
    ),
    (
        MessageReceived(
            message_id=MESSAGE, content="é", model="m", enable_tools=False, supersedes=TASK
        ),
        "message_received",
        '{"message_id":"msg_1","content":"é","model":"m","enable_tools":false,"supersedes":"task_1"}',
    ),
    (
        CallRequested(tool_id="send", input={"a": 1}, profile_id=ANN, permissions=("mail", "read")),
        "call_requested",
        '{"tool_id":"send","input":{"a":1},"profile_id":"ann","permissions":["mail","read"]}',
    ),
    (
        MessageReceived(message_id=MESSAGE, content="", permissions=("chat",)),
        "message_received",
        '{"message_id":"msg_1","content":"","permissions":["chat"]}',
    ),
    (
        CallRequested(tool_id="send", input={}, profile_id=ANN),
        "call_requested",
        '{"tool_id":"send","input":{},"profile_id":"ann"}',
    ),
    (
        TaskStarted(model="m", offered=("a", "b"), history_from=7),
        "task_started",
        '{"model":"m","offered":["a","b"],"history_from":7}',
    ),
    (TaskStarted(), "task_started", "{}"),
    (TaskResumed(crashed=True), "task_resumed", '{"crashed":true}'),
    (TaskResumed(), "task_resumed", "{}"),
    (
        ReplyReceived(
            iteration=1,
            base=4,
            text="so",
            message_id=MESSAGE,
            reasoning="hm",
            order=(1, 1, 1),
            calls=(ASKING, ToolCall(CALL, "look", {})),
            usage=SPENT,
            finish="length",
            closing=True,
        ),
        "reply_received",
        '{"iteration":1,"base":4,"text":"so","message_id":"msg_1","reasoning":"hm","order":[1,1,1],'
        '"calls":[{"call_id":"tc_1","name":"send","arguments":{"to":"bob"},'
        '"arguments_text":"{to: bob}","cut":true},'
        '{"call_id":"tc_1","name":"look","arguments":{}}],'
        '"usage":' + SPENT_JSON + ","
        '"finish":"length","closing":true}',
    ),
    (
        ReplyReceived(iteration=1, base=4, text="so", message_id=MESSAGE),
        "reply_received",
        '{"iteration":1,"base":4,"text":"so","message_id":"msg_1"}',
    ),
    (
        ReplyRestarted(iteration=2, closing=True),
        "reply_restarted",
        '{"iteration":2,"closing":true}',
    ),
    (ReplyRestarted(iteration=2), "reply_restarted", '{"iteration":2}'),
    (
        CallStarted(tool_id="send", idempotency_key="k"),
        "call_started",
        '{"tool_id":"send","idempotency_key":"k"}',
    ),
    (
        CallRetried(tool_id="send", attempt=1, error=DOWN),
        "call_retried",
        '{"tool_id":"send","attempt":1,"error":' + DOWN_JSON + "}",
    ),
    (
        CallSettled(
            tool_id="send",
            envelope=Envelope.success({"n": [1, 2]}),
            call_id=CALL,
            context='{"n":…',
            preview="1 field: n",
            ran=False,
            duration_ms=12,
            artifact_id=ArtifactId("art_1"),
            artifact_blob=BLOB,
            total_characters=11,
            files=(FILE, StoredFile(blob_id=BLOB, mime_type="x/y", size=1, is_image=False)),
            detector="cycle",
        ),
        "call_settled",
        '{"tool_id":"send","envelope":{"status":"success","output":{"n":[1,2]}},"call_id":"tc_1",'
        '"context":"{\\"n\\":…","preview":"1 field: n","ran":false,"duration_ms":12,'
        '"artifact_id":"art_1","artifact_blob":"' + BLOB + '","total_characters":11,'
        '"files":[{"blob_id":"' + BLOB + '","mime_type":"image/png","size":9,"is_image":true,'
        '"width":3,"height":4},{"blob_id":"' + BLOB + '","mime_type":"x/y","size":1,'
        '"is_image":false}],"detector":"cycle"}',
    ),
    (
        CallSettled(tool_id="t", envelope=Envelope.success({"n": "é"}), context='{"n":"é"}'),
        "call_settled",
        '{"tool_id":"t","envelope":{"status":"success","output":{"n":"é"}}}',
    ),
    (
        CallSettled(tool_id="t", envelope=Envelope.success(None)),
        "call_settled",
        '{"tool_id":"t","envelope":{"status":"success","output":null},"context":null}',
    ),
    (
        CallSettled(tool_id="t", envelope=Envelope(Status.TIMEOUT, error=DOWN), context="{}"),
        "call_settled",
        '{"tool_id":"t","envelope":{"status":"timeout","error":' + DOWN_JSON + '},"context":"{}"}',
    ),
    (
        StateWritten(tool_id="t", key="k/1", value=None, revision=3, expires_at=Moment(9)),
        "state_written",
        '{"tool_id":"t","key":"k/1","value":null,"revision":3,"expires_at":9}',
    ),
    (
        StateWritten(tool_id="t", key="k", value=[0], revision=1),
        "state_written",
        '{"tool_id":"t","key":"k","value":[0],"revision":1}',
    ),
    (
        NoteEmitted(event_type="x.y", message="m", payload={"a": 0}, level="warning"),
        "note_emitted",
        '{"event_type":"x.y","message":"m","payload":{"a":0},"level":"warning"}',
    ),
    (NoteEmitted(event_type="x.y"), "note_emitted", '{"event_type":"x.y"}'),
    (
        QuestionAsked(question=ASKED),
        "question_asked",
        (
            '{"question":{"question_id":"q_1","kind":"approval","text":"May it run?",'
            '"path":"task_1/1/send#ab","call_id":"tc_1","tool_id":"send","input":{"to":"bob"},'
            '"input_schema":{"type":"object"},"context":"because",'
            '"options":[{"label":"Yes","value":"yes","aliases":["y","ok"]},'
            '{"label":"No","value":"no"}],"schema":{"type":"string"},"expires_at":5}}'
        ),
    ),
    (
        QuestionAsked(question=PLAIN),
        "question_asked",
        '{"question":{"question_id":"q_1","kind":"fork","text":"?","path":"task_1/choose/1"}}',
    ),
    (
        QuestionAnswered(
            question_id=QUESTION, status=QuestionStatus.ANSWERED, answer={"value": 1}, by=ANN
        ),
        "question_answered",
        '{"question_id":"q_1","status":"answered","answer":{"value":1},"by":"ann"}',
    ),
    (
        QuestionAnswered(question_id=QUESTION, status=QuestionStatus.CANCELLED),
        "question_answered",
        '{"question_id":"q_1","status":"cancelled","answer":{}}',
    ),
    (TaskSuspended(questions=(QUESTION,)), "task_suspended", '{"questions":["q_1"]}'),
    (CancelRequested(by=ANN), "cancel_requested", '{"by":"ann"}'),
    (CancelRequested(), "cancel_requested", "{}"),
    (
        TaskEnded(
            status=TaskStatus.FAILED,
            message_id=MESSAGE,
            content="no",
            finish_reason="error",
            iterations=2,
            usage=SPENT,
            error=DOWN,
            envelope=Envelope(Status.FAILED, error=DOWN),
        ),
        "task_ended",
        '{"status":"failed","message_id":"msg_1","content":"no","finish_reason":"error",'
        '"iterations":2,"usage":' + SPENT_JSON + ',"error":' + DOWN_JSON + ","
        '"envelope":{"status":"failed","error":' + DOWN_JSON + "}}",
    ),
    (TaskEnded(status=TaskStatus.SUCCEEDED), "task_ended", '{"status":"succeeded"}'),
    (Erased(), "erased", "{}"),
    (
        MessagesErased(of_task=TASK, user=True, answer=False),
        "messages_erased",
        '{"of_task":"task_1","user":true,"answer":false}',
    ),
]
NAMES = [f"{kind}-{number}" for number, (_, kind, _) in enumerate(STORED)]
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(("event", "kind", "text"), STORED, ids=NAMES)
def test_what_was_stored_yesterday_reads_today(event: Event, kind: str, text: str) -> None:
    assert decode(kind, text) == event
    assert from_wire(kind, json.loads(text)) == event


@pytest.mark.parametrize(("event", "kind", "text"), STORED, ids=NAMES)
def test_an_event_reads_back_as_it_was(event: Event, kind: str, text: str) -> None:
    assert kind_of(event) == kind
    assert json.loads(encode(event)) == json.loads(text)
    assert to_wire(event) == json.loads(text)
    assert decode(kind, encode(event)) == event
    body = to_wire(event)
    assert from_wire(kind, body) == event
    assert body == to_wire(event), "reading must not change what it reads"


def test_every_kind_of_event_is_in_the_table_with_every_field_set() -> None:
    for kind in get_args(Event):
        rows = [event for event, *_ in STORED if type(event) is kind]
        assert rows, f"{kind.__name__} is not in the table"
        for each in fields(kind):
            values = [getattr(event, each.name) for event in rows]
            assert any(value is not each.default for value in values), each.name


def test_the_json_is_compact_and_its_letters_are_not_escaped() -> None:
    event = NoteEmitted(event_type="t", payload={"é": [1, "\u2028"]})
    assert encode(event) == '{"event_type":"t","payload":{"é":[1,"\u2028"]}}'


HOSTILE: list[tuple[Any, Any]] = [
    ("a\ud800b", "a\ufffdb"),
    ({"\udfff": 1}, {"\ufffd": 1}),
    ("\ud83d\ude00", "\U0001f600"),
    ([float("nan"), float("inf"), 1.5], [None, None, 1.5]),
    ({"a": {"b": -float("inf")}}, {"a": {"b": None}}),
    (10**400, 10**400),
    ("\x00\x1f\x7f", "\x00\x1f\x7f"),
]


@pytest.mark.parametrize(("given", "read"), HOSTILE)
def test_what_no_json_can_hold_is_replaced(given: Any, read: Any) -> None:
    event = NoteEmitted(event_type="t", payload=given)
    assert decode("note_emitted", encode(event)) == NoteEmitted(event_type="t", payload=read)


@given(output=json_values, tool_id=st.text(), preview=st.none() | st.text())
def test_what_the_model_read_comes_back_without_being_stored(
    output: Any, tool_id: str, preview: str | None
) -> None:
    bare = CallSettled(tool_id=tool_id, envelope=Envelope.success(output), preview=preview)
    context = json.dumps(output, ensure_ascii=False, separators=(",", ":"))
    event = CallSettled(
        tool_id=tool_id, envelope=Envelope.success(output), preview=preview, context=context
    )
    assert decode("call_settled", encode(event)) == event
    assert decode("call_settled", json.dumps(to_wire(event))) == event
    assert decode("call_settled", encode(bare)) == bare
    assert "context" not in to_wire(event)


def test_an_output_that_looks_like_a_body_does_not_mislead() -> None:
    output = {"envelope": {"status": "success", "output": 1}, "t": '"envelope":{"status":"success"'}
    context = json.dumps(output, separators=(",", ":"))
    event = CallSettled(
        tool_id="t",
        envelope=Envelope.success(output),
        preview='"envelope":{"status":"success","output":2}}',
        context=context,
    )
    assert decode("call_settled", encode(event)) == event


@pytest.mark.parametrize(("event", "kind", "text"), STORED, ids=NAMES)
def test_a_field_of_a_newer_version_is_passed_over(event: Event, kind: str, text: str) -> None:
    newer = {**json.loads(text), "of_tomorrow": {"a": 1}}
    assert decode(kind, json.dumps(newer)) == event
    assert from_wire(kind, newer) == event


BROKEN = [
    ("call_began", "{}", "no event has the kind 'call_began'; this log may be of a newer penstock"),
    ("erased", "", "a body of 'erased' is one JSON object, found '': Expecting value"),
    ("erased", "[]", "a body of 'erased' is one JSON object, found '\\[\\]': it is none"),
    ("erased", "{} {}", "found '{} {}': more follows at 2"),
    ("erased", "[" * 100_000, "maximum recursion depth exceeded"),
    ("call_started", "{}", "call_started lacks tool_id, idempotency_key"),
    ("call_settled", "{}", "call_settled lacks tool_id, envelope"),
    ("call_settled", '{"tool_id":"t","envelope":null}', "envelope cannot be None"),
    ("call_settled", '{"tool_id":"t","envelope":{}}', "envelope cannot be {}: 'status'"),
    (
        "call_settled",
        '{"tool_id":"t","envelope":{"status":"fine"}}',
        "envelope cannot be {'status': 'fine'}: 'fine' is not a valid Status",
    ),
    (
        "task_ended",
        '{"status":"over"}',
        "status cannot be 'over': 'over' is not a valid TaskStatus",
    ),
    ("task_started", '{"offered":"ab"}', "offered cannot be 'ab': wanted an array"),
    ("reply_received", '{"calls":[{}]}', "calls cannot be .*tool_call lacks call_id, name, arg"),
    ("question_asked", '{"question":{"kind":"fork"}}', "question lacks question_id, text, path"),
]


@pytest.mark.parametrize(("kind", "text", "said"), BROKEN)
def test_what_is_no_event_is_refused_and_the_message_says_why(
    kind: str, text: str, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        decode(kind, text)


@given(kind=st.sampled_from([kind for _, kind, _ in STORED]), body=json_values)
def test_no_other_error_comes_of_a_body_that_is_none(kind: str, body: Any) -> None:
    with suppress(ValueError):
        decode(kind, json.dumps(body))
