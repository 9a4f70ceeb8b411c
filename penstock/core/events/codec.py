"""Converts events to JSON and back: the only code that knows their stored form.

Guarantees: every body that any released version wrote can be read; `decode(kind, encode(event))`
equals the event; a body that cannot be read raises ValueError with the field and the value.

How it works. `_FORMS` has one row for each kind: its stable name, its class, and the conversion of
the fields that are not plain JSON. A body contains the fields by name, without fields that have
their default value. Unknown fields are ignored, so an older version reads newer bodies.

Relies on these rules for changes: add fields only with a default; never rename a field or a kind;
never give an old name a new meaning. A change that breaks them makes stored logs unreadable.

Proof: tests/core/events/test_codec.py, with stored bodies of earlier versions.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import fields

from penstock.core.call import ToolCall
from penstock.core.envelope import Envelope, ErrorDetail, Json, Status
from penstock.core.events.child_events import (
    ChildrenSpawned,
    ChildRequested,
    Dependency,
    Join,
    TreeAsked,
    WaiterAdded,
)
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
from penstock.core.events.flow_events import (
    AgentReminded,
    AgentStarted,
    FileUse,
    FlowNotified,
    FlowRequested,
    FlowStarted,
    HandedBack,
    HandedOff,
    Outcome,
    RunEnded,
    StepResult,
    StepSettled,
    StepStarted,
    StepStatus,
)
from penstock.core.events.history_events import Erased, Forked, MessagesErased, Summarised
from penstock.core.events.hook_events import HookDecided, Verdict
from penstock.core.events.schedule_events import ScheduleFired, WaitExpired
from penstock.core.json_values.json_text import compact
from penstock.core.messages import Carry, StoredFile, Usage
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.stored.changes import Replaced, Revert
from penstock.core.task import (
    Missing,
    MissingKind,
    Option,
    Question,
    QuestionKind,
    QuestionStatus,
    TaskOutput,
    TaskStatus,
)
from penstock.core.text import cut

_FOUND_CHARACTERS = 200


def kind_of(event: Event) -> str:
    """Return the stable name of the event's kind."""
    return _BY_TYPE[type(event)].kind


def to_wire(event: Event) -> dict[str, Any]:
    """Return the body of the event."""
    wire = _BY_TYPE[type(event)].write(event)
    if type(event) is CallSettled:
        wire["envelope"] = event.envelope.to_wire()
        output = event.envelope.output
        shown = output if event.is_text else compact(output)
        if event.context != shown or event.envelope.status is not Status.SUCCESS:
            wire["context"] = event.context
    return wire


def encode(event: Event) -> str:
    """Return the body of the event as compact JSON."""
    ((_, body),) = encode_all((event,))
    return body


def encode_all(events: Sequence[Event]) -> list[tuple[str, str]]:
    """Return the kind of each event, and its body as compact JSON."""
    forms = [_BY_TYPE[type(event)] for event in events]
    wires = [form.write(event) for form, event in zip(forms, events, strict=True)]
    return [
        (form.kind, _settled_text(event, wire) if type(event) is CallSettled else compact(wire))
        for form, event, wire in zip(forms, events, wires, strict=True)
    ]


def from_wire(kind: str, body: Json) -> Event:
    """Convert a body to an event. Raises ValueError if it is not a body of this kind."""
    return _read(_form_of(kind), body, None)


def decode(kind: str, text: str) -> Event:
    """Convert the text that `encode` returned to an event. Raises ValueError for other text."""
    form = _form_of(kind)
    try:
        body, end = _raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(_no_object(kind, text, str(error))) from None
    if end != len(text):
        raise ValueError(_no_object(kind, text, f"more follows at {end}"))
    return _read(form, body, text)


def _form_of(kind: str) -> "_Form":
    form = _BY_KIND.get(kind)
    if form is None:
        raise ValueError(f"unknown kind of event {kind!r}; a newer penstock may have written it")
    return form


def _read(form: "_Form", body: Any, text: str | None) -> Event:
    if type(body) is not dict:
        raise ValueError(_no_object(form.kind, body, "it is none"))
    if form.cls is CallSettled and "context" not in body:
        body = {**body, "context": _output_text(body, text)}
    return cast("Event", form.read(body))


# The text that the model read (`context`) is usually the JSON of the output. Then only the output
# is stored, at the end of the body, and reading cuts `context` out of the body's text instead of
# encoding the output again.
_OUTPUT = '"envelope":{"status":"success","output":'


_APART = frozenset({(CallSettled, "context"), (CallSettled, "envelope")})
"""Fields that `_Form.write` leaves to `_settled_text`."""


def _settled_text(event: CallSettled, wire: dict[str, Any]) -> str:
    """Return the body of an outcome, without the context if the output determines it.

    `to_wire` compares the two in the same way.
    """
    output = compact(event.envelope.output)
    shown = event.envelope.output if event.is_text else output
    if event.context == shown and event.envelope.status is Status.SUCCESS:
        return f"{compact(wire)[:-1]},{_OUTPUT}{output}}}}}"
    wire["envelope"], wire["context"] = event.envelope.to_wire(), event.context
    return compact(wire)


def _output_text(body: dict[str, Any], text: str | None) -> str:
    envelope = body.get("envelope")
    if type(envelope) is not dict or "output" not in envelope:
        return compact(None)
    if body.get("is_text") and isinstance(envelope["output"], str):
        output: str = envelope["output"]
        return output
    # only if the output is the last field: then it ends two braces before the end of the text
    if text and next(reversed(body)) == "envelope" and next(reversed(envelope)) == "output":
        start = text.find(_OUTPUT)
        if start >= 0:
            return text[start + len(_OUTPUT) : -2]
    return compact(envelope["output"])


def _no_object(kind: str, value: Any, why: str) -> str:
    shown = cut(value if isinstance(value, str) else repr(value), _FOUND_CHARACTERS)
    return f"a body of {kind!r} is one JSON object, found {shown!r}: {why}"


_raw_decode = json.JSONDecoder().raw_decode


class _Pair(Struct, frozen=True):
    """The conversions of a field that is not plain JSON."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


class _Form:
    """The stored form of one class."""

    __slots__ = ("_fields", "_known", "_pairs", "_required", "cls", "kind")

    def __init__(self, kind: str, cls: type[Any], /, **pairs: _Pair) -> None:
        self.kind = kind
        self.cls = cls
        self._pairs = [(name, pair.read) for name, pair in pairs.items()]
        self._fields = [
            (each.name, each.default, pairs[each.name].write if each.name in pairs else None)
            for each in fields(cls)
            if (cls, each.name) not in _APART
        ]
        self._known = {each.name for each in fields(cls)}
        self._required = [each.name for each in fields(cls) if each.required]

    def write(self, value: Any) -> dict[str, Any]:
        """Return the fields that differ from their defaults."""
        wire = {}
        for name, default, write in self._fields:
            field = getattr(value, name)
            # identity first: most fields are their default, and then nothing is compared
            if field is not default and field != default:
                wire[name] = field if write is None else write(field)
        return wire

    def read(self, wire: Json) -> Any:
        """Return the value; ignore unknown fields. Raises ValueError."""
        values = dict(wire)
        for name, read in self._pairs:
            if name in values:
                try:
                    values[name] = read(values[name])
                except (AttributeError, KeyError, TypeError, ValueError) as error:
                    found = cut(repr(values[name]), _FOUND_CHARACTERS)
                    raise ValueError(f"{name} cannot be {found}: {error}") from None
        try:
            return self.cls(**values)
        except TypeError:  # a field is unknown or missing, which is rare: check only now
            known = {name: each for name, each in values.items() if name in self._known}
            if missing := [name for name in self._required if name not in known]:
                raise ValueError(f"{self.kind} lacks {', '.join(missing)}") from None
            return self.cls(**known)


def _many(form: _Form) -> _Pair:
    return _Pair(
        lambda values: [form.write(each) for each in values],
        lambda wires: tuple([form.read(each) for each in wires]),
    )


def _maybe(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda wire: None if wire is None else read(wire)


def _tuple(wire: Any) -> tuple[Any, ...]:
    if type(wire) is not list:
        raise TypeError("expected an array")
    return tuple(wire)


_LIST = _Pair(list, _tuple)
_MAYBE_LIST = _Pair(list, _maybe(_tuple))
_USAGE_FORM = _Form("usage", Usage)
_USAGE = _Pair(_USAGE_FORM.write, _USAGE_FORM.read)
_ENVELOPE = _Pair(Envelope.to_wire, Envelope.from_wire)
_ERROR = _Pair(ErrorDetail.to_wire, ErrorDetail.from_wire)
_CARRY_FORM = _Form("carry", Carry, parts=_LIST)
_CARRY = _Pair(_CARRY_FORM.write, _maybe(_CARRY_FORM.read))
_CALLS = _many(_Form("tool_call", ToolCall))
_PARKED = _many(_Form("parked_call", ParkedCall))
_MISSING = _many(_Form("missing", Missing, kind=_Pair(str, MissingKind)))
_FILES = _many(_Form("file", StoredFile))
_OPTIONS = _many(_Form("option", Option, aliases=_LIST))
_QUESTION_FORM = _Form("question", Question, kind=_Pair(str, QuestionKind), options=_OPTIONS)
_QUESTION = _Pair(_QUESTION_FORM.write, _maybe(_QUESTION_FORM.read))
_SCOPE_FORM = _Form("scope", Scope, kind=_Pair(str, ScopeKind))
_SCOPE = _Pair(_SCOPE_FORM.write, _SCOPE_FORM.read)
_REVERT_FORM = _Form("revert", Revert)
_REVERT = _Pair(_REVERT_FORM.write, _maybe(_REVERT_FORM.read))
_OLD = _many(_Form("replaced", Replaced, scope=_SCOPE))
_OUTPUT_FORM = _Form("task_output", TaskOutput)

_BRANCH = _Pair(
    lambda branch: list(branch) if isinstance(branch, tuple) else branch,
    lambda wire: tuple(wire) if type(wire) is list else wire,
)
_RESULT_FORM = _Form(
    "step_result",
    StepResult,
    status=_Pair(str, StepStatus),
    files=_many(_Form("file_use", FileUse)),
    branch=_BRANCH,
)

_STATUS = _Pair(lambda status: status and status.value, _maybe(TaskStatus))
_JOINS = _many(_Form("join", Join, runs=_LIST))

_FORMS = (
    _Form("session_opened", SessionOpened),
    _Form(
        "message_received",
        MessageReceived,
        permissions=_MAYBE_LIST,
        selected_skills=_LIST,
        attachments=_FILES,
    ),
    _Form("call_requested", CallRequested, permissions=_MAYBE_LIST, selected_skills=_LIST),
    _Form("task_started", TaskStarted, offered=_LIST),
    _Form("handed_off", HandedOff, offered=_LIST),
    _Form("handed_back", HandedBack),
    _Form("task_resumed", TaskResumed),
    _Form(
        "reply_received",
        ReplyReceived,
        order=_LIST,
        calls=_CALLS,
        usage=_USAGE,
        carry=_CARRY,
    ),
    _Form("reply_restarted", ReplyRestarted),
    _Form("call_started", CallStarted),
    _Form("call_retried", CallRetried, error=_ERROR),
    _Form(
        "call_settled", CallSettled, envelope=_ENVELOPE, files=_FILES, revert=_REVERT, replaced=_OLD
    ),
    _Form("state_written", StateWritten),
    _Form("skills_selected", SkillsSelected, skill_ids=_LIST),
    _Form("secret_given", SecretGiven, scope=_SCOPE),
    _Form("prompt_resolved", PromptResolved),
    _Form("note_emitted", NoteEmitted),
    _Form("question_asked", QuestionAsked, question=_QUESTION),
    _Form("question_answered", QuestionAnswered, status=_Pair(str, QuestionStatus)),
    _Form(
        "task_suspended", TaskSuspended, questions=_LIST, runs=_LIST, parked=_PARKED, joins=_JOINS
    ),
    _Form("task_blocked", TaskBlocked, blocked_on=_MISSING),
    _Form("cancel_requested", CancelRequested),
    _Form(
        "task_ended",
        TaskEnded,
        status=_Pair(str, TaskStatus),
        usage=_USAGE,
        error=_Pair(ErrorDetail.to_wire, _maybe(ErrorDetail.from_wire)),
        envelope=_Pair(Envelope.to_wire, _maybe(Envelope.from_wire)),
        output=_Pair(_OUTPUT_FORM.write, _maybe(_OUTPUT_FORM.read)),
    ),
    _Form("flow_requested", FlowRequested, permissions=_MAYBE_LIST),
    _Form("schedule_fired", ScheduleFired, required_labels=_LIST),
    _Form("wait_expired", WaitExpired),
    _Form("flow_started", FlowStarted),
    _Form("step_started", StepStarted),
    _Form(
        "step_settled",
        StepSettled,
        outcome=_Pair(str, Outcome),
        result=_Pair(_RESULT_FORM.write, _RESULT_FORM.read),
        targets=_LIST,
        usage=_USAGE,
    ),
    _Form("flow_told", FlowNotified),
    _Form("run_ended", RunEnded, status=_STATUS),
    _Form(
        "child_requested",
        ChildRequested,
        permissions=_MAYBE_LIST,
        selected_skills=_LIST,
        allowed_tools=_MAYBE_LIST,
        dependencies=_many(_Form("dependency", Dependency)),
        working_for=_LIST,
    ),
    _Form("children_spawned", ChildrenSpawned, children=_LIST),
    _Form("waiter_added", WaiterAdded),
    _Form("tree_asked", TreeAsked, question=_QUESTION, open=_LIST),
    _Form("agent_began", AgentStarted, offered=_LIST),
    _Form("agent_reminded", AgentReminded),
    _Form("hook_decided", HookDecided, verdict=_Pair(str, Verdict)),
    _Form("summarised", Summarised, tasks=_LIST, usage=_USAGE),
    _Form("erased", Erased),
    _Form("messages_erased", MessagesErased),
    _Form("forked", Forked),
)
_BY_TYPE: dict[type[Any], _Form] = {form.cls: form for form in _FORMS}
_BY_KIND = {form.kind: form for form in _FORMS}
