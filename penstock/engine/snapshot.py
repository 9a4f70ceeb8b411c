"""Snapshots: the state of a log between two tasks, in a form that is stored.

Guarantees: folding the events after a snapshot gives the state that folding all events gives, or
`SessionState.is_short` says that it does not, and all events must be folded. A snapshot of other
code is not restored. Its size depends on what a model reads, not on the length of the log.

How: between two tasks little of a state is read again: the newest messages, the agents, and the
queue. Left out are messages before a fresh start (`past`) and the names of tasks that left the
history (`gone`). Only a message that replaces one of those needs them; `omits` says that they
exist. `fold_version` is a digest over the source of every module that the fold depends on, so a
change of any of them makes each older snapshot worthless, without a number to keep.

Relies on: nothing reads the calls of a task after its end, except the runs that it waited for; a
task with such runs, or with children, gets no snapshot, nor does a queue in which a task has more
than its request. The store keeps the bytes with a checksum, and deletes them with what is erased
(`store/logs/sql_snapshots`).

Shown by tests/engine/test_snapshot.py, at every cut of recorded and generated logs.
"""

import pkgutil
from functools import cache
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from penstock.core.call import ToolCall
from penstock.core.events.codec import decode, encode, kind_of
from penstock.core.events.events import SessionOpened, TaskStarted
from penstock.core.ids import CallId, LogId, ProfileId, TaskId
from penstock.core.json_values.json_text import compact, parse_json
from penstock.core.messages import (
    AssistantMessage,
    Carry,
    Message,
    StoredFile,
    ToolMessage,
    UserMessage,
)
from penstock.core.task import Missing
from penstock.engine.agent_chain import AgentChain
from penstock.engine.dialogue import (
    CachedRequest,
    Dialogue,
    FileEntry,
    MessageList,
    TaskBoundary,
)
from penstock.engine.session_state import SessionState
from penstock.engine.task_state import TaskState
from penstock.engine.waits import NO_WAITS

FOLD_SOURCES = (
    "core/call.py",
    "core/envelope.py",
    "core/events/child_events.py",
    "core/events/codec.py",
    "core/events/events.py",
    "core/events/flow_events.py",
    "core/events/history_events.py",
    "core/events/hook_events.py",
    "core/events/roles.py",
    "core/events/schedule_events.py",
    "core/json_values/json_text.py",
    "core/messages.py",
    "core/scopes.py",
    "core/task.py",
    "core/text.py",
    "engine/agent_chain.py",
    "engine/dialogue.py",
    "engine/related_tasks.py",
    "engine/session_state.py",
    "engine/slash_commands.py",
    "engine/snapshot.py",
    "engine/task_state.py",
    "engine/waits.py",
)
"""The modules that the state of a log depends on. A test finds one that is missing here."""


@cache
def fold_version() -> str:
    """Return a digest of the code that folds; empty without source: then nothing is kept."""
    digest = sha256()
    for name in FOLD_SOURCES:
        try:
            source = pkgutil.get_data("penstock", name)
        except OSError:
            return ""
        digest.update(b"%d\n" % len(source or b"") + (source or b""))
    return digest.hexdigest()


class _User(Struct, frozen=True, array_like=True, tag=0):
    content: str
    files: tuple[StoredFile, ...]
    is_note: bool


class _Call(Struct, frozen=True, array_like=True):
    call_id: CallId
    name: str
    arguments: str
    """As JSON: integers of any size read back."""
    arguments_text: str | None
    cut: bool


class _Reply(Struct, frozen=True, array_like=True, tag=1):
    content: str
    calls: tuple[_Call, ...]
    carry: tuple[str, str, str, str] | None
    """Its parts are JSON."""
    reasoning: str


class _Result(Struct, frozen=True, array_like=True, tag=2):
    call_id: CallId
    name: str
    content: str
    ok: bool
    files: tuple[StoredFile, ...]


class _Messages(Struct, frozen=True, kw_only=True):
    """A `MessageList` without `gone`."""

    entries: list[_User | _Reply | _Result]
    boundaries: list[TaskBoundary]
    tokens: int
    requests: list[tuple[int, int, int]]
    files: list[FileEntry]
    previews: dict[CallId, str]
    has_files: bool
    instructions: dict[str, str] | None
    summarised: tuple[TaskId, ...]
    shortened_for: TaskId | None
    tools: tuple[str, ...]
    told: tuple[str, ...]
    cached: CachedRequest | None
    is_refused: bool


class _Task(Struct, frozen=True, kw_only=True):
    """A task that waits in the queue, or the newest one after its end."""

    task_id: TaskId
    brief: tuple[str, str] | None
    started: str | None
    blocked_on: tuple[Missing, ...]
    cancel_requested: bool
    cancelled_by: ProfileId | None
    is_ended: bool


class _Snapshot(Struct, frozen=True, kw_only=True):
    tick: int
    last_at: int
    opened: str | None
    agents: AgentChain
    selected: tuple[str, ...]
    queue: list[_Task]
    current: _Task | None
    messages: _Messages
    omits: bool


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Snapshot)
_SAME = tuple(each.name for each in fields(_Messages) if each.name != "entries")
"""The fields that a `MessageList` and its stored form have in common."""


def is_at_rest(state: SessionState) -> bool:
    """Whether the state is one between two tasks, which a snapshot can hold."""
    current = state.current
    queued = state.queue.values()
    if state.aside or any(each.fired or each.waits is not NO_WAITS for each in queued):
        return False
    if current is None or state.session_id != state.log_id:  # a child has one task, and ends
        return current is None and state.session_id == state.log_id
    waits = current.waits
    return current.is_ended and not (waits.awaited or waits.children or waits.waiters)


def to_snapshot(state: SessionState) -> bytes | None:
    """Return a state at rest as bytes; None if some text of it cannot be stored."""
    opened, current = state.opened, state.current
    stored = _Snapshot(
        tick=state.tick,
        last_at=state.last_at,
        opened=None if opened is None else encode(opened),
        agents=state.agents,
        selected=state.selected,
        queue=[_task(task) for task in state.queue.values()],
        current=None if current is None else _task(current),
        messages=_Messages(
            entries=[_stored(message) for message in state.messages.entries],
            **{name: getattr(state.messages, name) for name in _SAME},
        ),
        omits=state.omits or bool(state.past or state.messages.gone),
    )
    try:
        return _ENCODER.encode(stored)
    except UnicodeEncodeError:  # half a character, which the log has as U+FFFD
        return None


def from_snapshot(log_id: LogId, seq: int, body: bytes) -> SessionState:
    """Return the state of a log after an event. The bytes must be those of `to_snapshot`."""
    stored: _Snapshot = _DECODER.decode(body)
    state = SessionState(log_id)
    state.seq = state.saved = seq
    state.tick, state.last_at, state.omits = stored.tick, stored.last_at, stored.omits
    state.agents, state.selected = stored.agents, stored.selected
    if stored.opened is not None:
        state.opened = _event(SessionOpened, stored.opened)
    state.messages = MessageList(
        entries=[_message(each) for each in stored.messages.entries],
        **{name: getattr(stored.messages, name) for name in _SAME},
    )
    state.queue = {each.task_id: _restored(each, state.messages) for each in stored.queue}
    if stored.current is not None:
        state.current = _restored(stored.current, state.messages)
    return state


def _task(task: TaskState) -> _Task:
    brief, started = task.brief, task.started
    return _Task(
        task_id=task.task_id,
        brief=None if brief is None else (kind_of(brief), encode(brief)),
        started=None if started is None else encode(started),
        blocked_on=task.blocked_on,
        cancel_requested=task.cancel_requested,
        cancelled_by=task.cancelled_by,
        is_ended=task.is_ended,
    )


def _restored(stored: _Task, messages: MessageList) -> TaskState:
    brief: Any = None if stored.brief is None else decode(*stored.brief)
    task = TaskState(stored.task_id, brief, main=Dialogue(messages))
    if stored.started is not None:
        task.started = _event(TaskStarted, stored.started)
    task.blocked_on, task.is_ended = stored.blocked_on, stored.is_ended
    task.cancel_requested, task.cancelled_by = stored.cancel_requested, stored.cancelled_by
    return task


_KINDS = {SessionOpened: "session_opened", TaskStarted: "task_started"}


def _event(kind: Any, body: str) -> Any:
    return decode(_KINDS[kind], body)


def _stored(message: Message) -> _User | _Reply | _Result:
    match message:
        case UserMessage():
            return _User(message.content, message.files, message.is_note)
        case AssistantMessage():
            calls = tuple([_stored_call(each) for each in message.calls])
            carry = message.carry
            kept = carry and (carry.provider, carry.family, carry.prefix, compact([*carry.parts]))
            return _Reply(message.content, calls, kept or None, message.reasoning)
        case ToolMessage():
            named = (message.call_id, message.name, message.content, message.ok)
            return _Result(*named, message.files)


def _stored_call(call: ToolCall) -> _Call:
    arguments = compact(call.arguments)
    return _Call(call.call_id, call.name, arguments, call.arguments_text, call.cut)


def _message(stored: _User | _Reply | _Result) -> Message:
    match stored:
        case _User():
            return UserMessage(stored.content, stored.files, is_note=stored.is_note)
        case _Reply():
            carry = stored.carry
            whole = carry and Carry(*carry[:3], parts=tuple(parse_json(carry[3])))
            calls = tuple([_call(each) for each in stored.calls])
            return AssistantMessage(stored.content, calls, whole or None, stored.reasoning)
        case _Result():
            named = (stored.call_id, stored.name, stored.content, stored.ok)
            return ToolMessage(*named, files=stored.files)


def _call(stored: _Call) -> ToolCall:
    arguments = parse_json(stored.arguments)
    return ToolCall(stored.call_id, stored.name, arguments, stored.arguments_text, cut=stored.cut)
