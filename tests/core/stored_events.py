"""Every kind of event as older versions stored it."""

from msgspec.structs import replace

from penstock.core.call import CallPath, ToolCall
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.events.events import (
    CallRequested,
    CallRetried,
    CallSettled,
    CallStarted,
    CancelRequested,
    Event,
    MessageReceived,
    NoteEmitted,
    ParkedCall,
    PromptResolved,
    QuestionAnswered,
    QuestionAsked,
    ReplyReceived,
    ReplyRestarted,
    SecretGiven,
    SessionOpened,
    SkillsSelected,
    StateWritten,
    TaskBlocked,
    TaskEnded,
    TaskResumed,
    TaskStarted,
    TaskSuspended,
)
from penstock.core.events.history_events import Erased, MessagesErased, Summarised
from penstock.core.events.hook_events import HookDecided, Verdict
from penstock.core.ids import ArtifactId, BlobId, CallId, MessageId, ProfileId, QuestionId, TaskId
from penstock.core.messages import StoredFile, Usage
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.task import (
    Missing,
    MissingKind,
    Option,
    Question,
    QuestionKind,
    QuestionStatus,
    TaskStatus,
)
from tests.core.stored_flow_events import STORED_OF_FLOWS
from tests.core.stored_replies import STORED_REPLIES
from tests.kit.child_events import STORED_OF_CHILDREN

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
    resume_payload={"n": 1},
)
PLAIN = Question(
    question_id=QUESTION, kind=QuestionKind.FORK, text="?", path=CallPath("task_1/choose/1")
)
FILE = StoredFile(blob_id=BLOB, mime_type="image/png", size=9, is_image=True, width=3, height=4)
ASKING = ToolCall(CALL, "send", {"to": "bob"}, "{to: bob}", cut=True)

# Every kind as older versions stored it: with every field set, and with the required fields only.
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
        MessageReceived(message_id=MESSAGE, content="", idempotency_key="key", request_hash="hash"),
        "message_received",
        '{"message_id":"msg_1","content":"","idempotency_key":"key","request_hash":"hash"}',
    ),
    (
        CallRequested(tool_id="send", input={}, profile_id=ANN),
        "call_requested",
        '{"tool_id":"send","input":{},"profile_id":"ann"}',
    ),
    (
        MessageReceived(message_id=MESSAGE, content="", selected_skills=("a", "b")),
        "message_received",
        '{"message_id":"msg_1","content":"","selected_skills":["a","b"]}',
    ),
    (
        CallRequested(tool_id="send", input={}, profile_id=ANN, selected_skills=("a",)),
        "call_requested",
        '{"tool_id":"send","input":{},"profile_id":"ann","selected_skills":["a"]}',
    ),
    (
        CallRequested(
            tool_id="send", input={}, profile_id=ANN, idempotency_key="k", request_hash="h"
        ),
        "call_requested",
        '{"tool_id":"send","input":{},"profile_id":"ann","idempotency_key":"k","request_hash":"h"}',
    ),
    (
        TaskStarted(model="m", offered=("a", "b")),
        "task_started",
        '{"model":"m","offered":["a","b"]}',
    ),
    (
        TaskStarted(command="new", is_fresh=True),
        "task_started",
        '{"command":"new","is_fresh":true}',
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
            clock_ms=1700000000000,
            trace="KeyError: 'x'",
        ),
        "call_settled",
        '{"tool_id":"send","envelope":{"status":"success","output":{"n":[1,2]}},"call_id":"tc_1",'
        '"context":"{\\"n\\":…","preview":"1 field: n","ran":false,"duration_ms":12,'
        '"artifact_id":"art_1","artifact_blob":"' + BLOB + '","total_characters":11,'
        '"files":[{"blob_id":"' + BLOB + '","mime_type":"image/png","size":9,"is_image":true,'
        '"width":3,"height":4},{"blob_id":"' + BLOB + '","mime_type":"x/y","size":1,'
        '"is_image":false}],"detector":"cycle","clock_ms":1700000000000,'
        '"trace":"KeyError: \'x\'"}',
    ),
    (
        CallSettled(
            tool_id="t",
            envelope=Envelope.success(1),
            context="1",
            files=(
                StoredFile(blob_id=BLOB, mime_type="x/y", size=1, is_image=False, name="a.txt"),
            ),
        ),
        "call_settled",
        '{"tool_id":"t","envelope":{"status":"success","output":1},"files":[{"blob_id":"'
        + BLOB
        + '","mime_type":"x/y","size":1,"is_image":false,"name":"a.txt"}]}',
    ),
    (
        CallSettled(tool_id="t", envelope=Envelope.success({"n": "é"}), context='{"n":"é"}'),
        "call_settled",
        '{"tool_id":"t","envelope":{"status":"success","output":{"n":"é"}}}',
    ),
    (
        CallSettled(tool_id="t", envelope=Envelope.success("é"), context='"é"'),
        "call_settled",
        '{"tool_id":"t","envelope":{"status":"success","output":"é"}}',
    ),
    (
        CallSettled(tool_id="t", envelope=Envelope.success("é"), context="é", is_text=True),
        "call_settled",
        '{"tool_id":"t","is_text":true,"envelope":{"status":"success","output":"é"}}',
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
        SkillsSelected(skill_ids=("research", "zip")),
        "skills_selected",
        '{"skill_ids":["research","zip"]}',
    ),
    (
        SecretGiven(scope=Scope(ScopeKind.SHARED, "team"), key="token"),
        "secret_given",
        '{"scope":{"kind":"shared","id":"team"},"key":"token"}',
    ),
    (
        HookDecided(hook="h", method="m", verdict=Verdict.EDIT, turn=1, text="t", value=[1]),
        "hook_decided",
        '{"hook":"h","method":"m","verdict":"edit","turn":1,"text":"t","value":[1]}',
    ),
    (
        *(Summarised(text="s", tasks=(TASK,), base=7, usage=SPENT, results=3), "summarised"),
        f'{{"text":"s","tasks":["task_1"],"base":7,"usage":{SPENT_JSON},"results":3}}',
    ),
    (PromptResolved(text="Be brief."), "prompt_resolved", '{"text":"Be brief."}'),
    (
        NoteEmitted(event_type="x.y", message="m", payload={"a": 0}, level="error", title="T"),
        "note_emitted",
        '{"event_type":"x.y","message":"m","payload":{"a":0},"level":"error","title":"T"}',
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
            '{"label":"No","value":"no"}],"schema":{"type":"string"},"expires_at":5,"resume_payload":{"n":1}}}'
        ),
    ),
    (
        QuestionAsked(question=replace(PLAIN, form={"type": "confirm"})),
        "question_asked",
        (
            '{"question":{"question_id":"q_1","kind":"fork","text":"?","path":"task_1/choose/1",'
            '"form":{"type":"confirm"}}}'
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
    (
        QuestionAnswered(
            question_id=QUESTION,
            status=QuestionStatus.ANSWERED,
            answer={"text": "Ann"},
            by=ANN,
            idempotency_key="key",
            request_hash="ab",
        ),
        "question_answered",
        (
            '{"question_id":"q_1","status":"answered","answer":{"text":"Ann"},"by":"ann",'
            '"idempotency_key":"key","request_hash":"ab"}'
        ),
    ),
    (
        TaskBlocked(blocked_on=(Missing(MissingKind.AGENT, "clerk"),)),
        "task_blocked",
        '{"blocked_on":[{"kind":"agent","id":"clerk"}]}',
    ),
    (TaskSuspended(questions=(QUESTION,)), "task_suspended", '{"questions":["q_1"]}'),
    (
        TaskSuspended(questions=(), runs=(TaskId("task_2"),)),
        "task_suspended",
        '{"questions":[],"runs":["task_2"]}',
    ),
    (
        TaskSuspended(
            questions=(QUESTION,),
            parked=(
                ParkedCall(CallPath("task_1/1/plan#cd"), 1200),
                ParkedCall(CallPath("task_1/1/send#ab"), 40, attempt=2, entries=3, computed_ms=7),
            ),
        ),
        "task_suspended",
        (
            '{"questions":["q_1"],"parked":[{"path":"task_1/1/plan#cd","active_ms":1200},'
            '{"path":"task_1/1/send#ab","active_ms":40,"attempt":2,"entries":3,"computed_ms":7}]}'
        ),
    ),
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
        *("messages_erased", '{"of_task":"task_1","user":true,"answer":false}'),
    ),
    *STORED_REPLIES,
    *STORED_OF_FLOWS,
    *STORED_OF_CHILDREN,
]
