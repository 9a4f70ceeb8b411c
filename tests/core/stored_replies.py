"""Replies with what their provider receives back, files, and typed outputs, as they are stored."""

from penstock.core.clock import Moment
from penstock.core.envelope import Envelope
from penstock.core.events.events import (
    CallRequested,
    CallSettled,
    Event,
    MessageReceived,
    PromptResolved,
    ReplyReceived,
    TaskEnded,
    TaskStarted,
)
from penstock.core.events.flow_events import HandedBack, HandedOff
from penstock.core.events.history_events import Summarised
from penstock.core.events.schedule_events import ScheduleFired, WaitExpired
from penstock.core.ids import BlobId, MessageId, ProfileId, ScheduleId, TaskId
from penstock.core.messages import Carry, StoredFile, Usage
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.stored.changes import Replaced, Revert
from penstock.core.task import TaskOutput, TaskStatus

STORED_REPLIES: tuple[tuple[Event, str, str], ...] = (
    (
        ReplyReceived(
            iteration=1,
            base=4,
            text="so",
            message_id=MessageId("msg_1"),
            usage=Usage(
                cached_tokens=4,
                cache_write_tokens=3,
                cache_write_long_tokens=2,
                reasoning_tokens=1,
            ),
            carry=Carry("p@h", "m", "f0", ({"type": "thinking", "signature": "s"},)),
            carry_dropped=True,
            refusal="no",
            response_id="r1",
            model="anthropic:claude-opus-5-5",
            waited_ms=7,
        ),
        "reply_received",
        """{"iteration":1,"base":4,"text":"so","message_id":"msg_1",
        "usage":{"cached_tokens":4,"cache_write_tokens":3,"cache_write_long_tokens":2,
        "reasoning_tokens":1},"carry":{"provider":"p@h","family":"m","prefix":"f0",
        "parts":[{"type":"thinking","signature":"s"}]},"carry_dropped":true,"refusal":"no",
        "response_id":"r1","model":"anthropic:claude-opus-5-5","waited_ms":7}""",
    ),
    (
        MessageReceived(
            message_id=MessageId("msg_1"),
            content="What is this?",
            model_settings={"temperature": 0},
            attachments=(
                StoredFile(
                    blob_id=BlobId("b" * 64),
                    mime_type="image/png",
                    size=70,
                    is_image=True,
                    width=1,
                    height=2,
                    name="a.png",
                    tokens=1500,
                    at=5,
                ),
            ),
        ),
        "message_received",
        '{"message_id":"msg_1","content":"What is this?","model_settings":{"temperature":0},'
        '"attachments":[{"blob_id":"'
        + "b"
        * 64
        + '","mime_type":"image/png","size":70,"is_image":true,"width":1,"height":2,'
        '"name":"a.png","tokens":1500,"at":5}]}',
    ),
    (
        MessageReceived(
            message_id=MessageId("msg_1"), content="", output_schema={"type": "integer"}
        ),
        "message_received",
        '{"message_id":"msg_1","content":"","output_schema":{"type":"integer"}}',
    ),
    (
        MessageReceived(message_id=MessageId("msg_1"), content="", metadata={"shop": "Oslo"}),
        "message_received",
        '{"message_id":"msg_1","content":"","metadata":{"shop":"Oslo"}}',
    ),
    (
        PromptResolved(text="Be brief.", agent="clerk"),
        "prompt_resolved",
        '{"text":"Be brief.","agent":"clerk"}',
    ),
    (
        HandedOff(
            agent="billing",
            previous="triage",
            model="m",
            offered=("pay",),
            agent_schema={},
            agent_digest="d1",
        ),
        "handed_off",
        (
            '{"agent":"billing","previous":"triage","model":"m","offered":["pay"],"agent_schema":{},'
            '"agent_digest":"d1"}'
        ),
    ),
    (
        HandedBack(agent="triage", by=ProfileId("ann")),
        "handed_back",
        '{"agent":"triage","by":"ann"}',
    ),
    (
        ScheduleFired(
            schedule_id=ScheduleId("sched_1"),
            name="News",
            due_at=Moment(60_000),
            next_run=Moment(120_000),
            missed=2,
            missed_from=Moment(1),
            context={"region": "EU"},
            required_labels=("press",),
            skips_preselected=True,
            suspension_seconds=60,
            resume_prompt="Go on.",
        ),
        "schedule_fired",
        (
            '{"schedule_id":"sched_1","name":"News","due_at":60000,"next_run":120000,"missed":2,'
            '"missed_from":1,'
            '"context":{"region":"EU"},"required_labels":["press"],"skips_preselected":true,'
            '"suspension_seconds":60,"resume_prompt":"Go on."}'
        ),
    ),
    (WaitExpired(resume_prompt="Go on."), "wait_expired", '{"resume_prompt":"Go on."}'),
    (
        ScheduleFired(schedule_id=ScheduleId("sched_1"), name="News"),
        "schedule_fired",
        '{"schedule_id":"sched_1","name":"News"}',
    ),
    (TaskStarted(agent="billing"), "task_started", '{"agent":"billing"}'),
    (TaskStarted(agent_digest="0a1b"), "task_started", '{"agent_digest":"0a1b"}'),
    (
        TaskStarted(agent_schema={"type": "integer"}),
        "task_started",
        '{"agent_schema":{"type":"integer"}}',
    ),
    (
        TaskEnded(
            status=TaskStatus.SUCCEEDED,
            content="3",
            output=TaskOutput(value=[3], type_name="list"),
        ),
        "task_ended",
        '{"status":"succeeded","content":"3","output":{"value":[3],"type_name":"list"}}',
    ),
    (
        TaskEnded(status=TaskStatus.SUCCEEDED, output=TaskOutput(value=None)),
        "task_ended",
        '{"status":"succeeded","output":{"value":null}}',
    ),
    (
        CallRequested(
            tool_id="undo", input={}, profile_id=ProfileId("ann"), undoes=TaskId("task_1")
        ),
        "call_requested",
        '{"tool_id":"undo","input":{},"profile_id":"ann","undoes":"task_1"}',
    ),
    (
        CallSettled(
            tool_id="t",
            envelope=Envelope.success({"n": 1}),
            context='{"n":1}',
            # Looks like the output, which a reader finds by this pattern.
            revert=Revert(
                tool_id="r", input='{"envelope":{"status":"success","output":2}}', agent="a"
            ),
        ),
        "call_settled",
        (
            r'{"tool_id":"t","revert":{"tool_id":"r","input":"{\"envelope\":{\"status\":\"success\",'
            r'\"output\":2}}","agent":"a"},"envelope":{"status":"success","output":{"n":1}}}'
        ),
    ),
    (
        CallSettled(
            tool_id="t",
            envelope=Envelope.success({"n": 1}),
            context='{"n":1}',
            replaced=(
                Replaced(
                    scope=Scope(ScopeKind.PROFILE, "ann"),
                    name="k",
                    left="rev_2",
                    was="rev_1",
                    text='{"envelope":{"status":"success","output":2}}',
                    expires_at=Moment(9),
                ),
                Replaced(scope=Scope(ScopeKind.SESSION, "conv_1"), name="a/b", is_file=True),
            ),
        ),
        "call_settled",
        (
            r'{"tool_id":"t","replaced":[{"scope":{"kind":"profile","id":"ann"},"name":"k",'
            r'"left":"rev_2","was":"rev_1","text":"{\"envelope\":{\"status\":\"success\",'
            r'\"output\":2}}","expires_at":9},{"scope":{"kind":"session","id":"conv_1"},'
            r'"name":"a/b","is_file":true}],"envelope":{"status":"success","output":{"n":1}}}'
        ),
    ),
    (
        *(Summarised(keeps_earlier=True, constant=9, too_long=True), "summarised"),
        '{"keeps_earlier":true,"constant":9,"too_long":true}',
    ),
)
