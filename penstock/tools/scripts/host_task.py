"""The calls of `flo.task`: values of the task, notes in its timeline, questions, and its context.

Each call that changes something is recorded under its place, so that a later entry gets the same
result and changes nothing again. `task.getContext` alone is fresh in each entry: it tells the
script which entry this is, and what was answered meanwhile. Proof:
tests/tools/scripts/test_host_task.py.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from penstock.core.call import Effect
from penstock.core.clock import Moment, to_iso
from penstock.core.events.child_events import Join
from penstock.core.events.events import NOTE_LEVELS, NoteEmitted, QuestionAnswered, StateWritten
from penstock.core.ids import QuestionId
from penstock.core.json_values.json_text import is_larger
from penstock.core.task import Question, QuestionKind, QuestionStatus
from penstock.engine.suspend import ask
from penstock.engine.task_state import TaskState
from penstock.resources.state import STATE_KEY_BYTES
from penstock.sandbox.bridge import HostCallResult
from penstock.tools.invocation import Invocation
from penstock.tools.python.capabilities import EVENT_BYTES, MAX_EVENTS
from penstock.tools.redaction import check_key, check_value
from penstock.tools.scripts.arguments import (
    ScriptSchema,
    mapping,
    number,
    optional_number,
    optional_text,
    text,
)
from penstock.tools.scripts.host import Answer
from penstock.tools.scripts.host_children import batch_of
from penstock.tools.scripts.recording import Recording
from penstock.tools.tasks.task_values import ALWAYS, MAX_SECONDS, AnyRevision, TaskValues

SHARED = ""
"""The partition that all tools of a task share."""
EMIT = "task.emitEvent"
TYPE_CHARACTERS, TITLE_CHARACTERS, MESSAGE_CHARACTERS = 128, 200, 4000
WAIT = "task.waitForUserMessage"
MAX_WAIT_SECONDS = 365 * 24 * 3600


class ConfigCalls:
    """`getRuntimeConfig`: texts that the operator sets for scripts."""

    def __init__(self, recording: Recording, texts: Mapping[str, str]) -> None:
        self._recording = recording
        self._texts = texts

    def get(self, arguments: Any) -> HostCallResult:
        """Return the text of a key, or null."""
        key = text(arguments, "key").strip()
        if not key:
            raise TypeError("key must not be blank")
        name = "getRuntimeConfig"
        path = self._recording.place(name, key, Effect.READ)
        return self._recording.find(path) or self._recording.settle(
            path, name, self._texts.get(key)
        )


class ValueCalls:
    """`task.getState`, `task.putState`, and the same for the partition of a tool."""

    def __init__(self, invocation: Invocation, recording: Recording) -> None:
        self._invocation = invocation
        self._recording = recording
        self._values = TaskValues(invocation.ledger, invocation.edition.world.clock)
        self._limits = invocation.edition.world.limits

    def get_shared(self, arguments: Any) -> HostCallResult:
        """Return a value of the shared partition."""
        return self._get("task.getState", SHARED, arguments)

    def put_shared(self, arguments: Any) -> HostCallResult:
        """Store a value in the shared partition."""
        return self._put("task.putState", SHARED, arguments)

    def get_own(self, arguments: Any) -> HostCallResult:
        """Return a value of the partition of this tool, or of the named one."""
        partition = optional_text(arguments, "tool_id") or self._invocation.spec.tool_id
        return self._get("task.getToolState", partition, arguments)

    def put_own(self, arguments: Any) -> HostCallResult:
        """Store a value in the partition of this tool."""
        return self._put("task.putToolState", self._invocation.spec.tool_id, arguments)

    def _key(self, arguments: Any) -> str:
        key = text(arguments, "key")
        if len(key.encode()) > STATE_KEY_BYTES:
            raise TypeError(f"key must have at most {STATE_KEY_BYTES} bytes")
        return key

    def _get(self, name: str, partition: str, arguments: Any) -> HostCallResult:
        key = self._key(arguments)
        path = self._recording.place(name, [partition, key], Effect.READ)
        if (recorded := self._recording.find(path)) is not None:
            return recorded
        written = self._values.find(partition, key)
        return self._recording.settle_read(path, name, None if written is None else written.value)

    def _put(self, name: str, partition: str, arguments: Any) -> HostCallResult:
        key, value = self._key(arguments), arguments.get("value")
        if is_larger(value, most := self._limits.state_value_bytes):
            raise TypeError(f"value must have at most {most} bytes as JSON")
        check_key(self._invocation.caller.secrets, key)
        check_value(self._invocation.caller.secrets, value)
        ttl = optional_number(arguments, "ttl_seconds", 1, MAX_SECONDS)
        if_revision = arguments.get("if_revision", ALWAYS)
        if not isinstance(if_revision, str | AnyRevision | None):
            raise TypeError("if_revision must be a text or null")
        shape = [partition, key, value, ttl, [] if if_revision is ALWAYS else [if_revision]]
        path = self._recording.place(name, shape, Effect.WRITE)
        if (recorded := self._recording.find(path)) is not None:
            return recorded
        written = self._values.write(partition, key, value, ttl=ttl, if_revision=if_revision)
        if isinstance(written, StateWritten):
            self._invocation.ledger.put(path, written)
            return self._recording.settle(path, name, {"ok": True, "entry": _entry(written)})
        conflict = {} if written is None else {"conflict_revision": written}
        return self._recording.settle(path, name, {"ok": False, **conflict})


class NoteCalls:
    """`task.emitEvent`: events of an author in the timeline of the task."""

    def __init__(self, invocation: Invocation, recording: Recording) -> None:
        self._invocation = invocation
        self._recording = recording
        self._limits = invocation.edition.world.limits
        self._count = recording.counted[EMIT]

    def emit(self, arguments: Any) -> HostCallResult:
        """Write an event. Later entries do not write it again."""
        arguments = self._invocation.caller.secrets.json(arguments)
        note = self._read(arguments)
        path = self._recording.place(EMIT, arguments, Effect.WRITE)
        if (recorded := self._recording.find(path)) is not None:
            return recorded
        # Earlier entries of this attempt count, too: `counted` starts with their events.
        self._count += 1
        if self._count <= MAX_EVENTS:
            self._invocation.note(note)
        elif self._count == MAX_EVENTS + 1:
            message = f"more than {MAX_EVENTS} events; the others are dropped"
            self._invocation.note(
                NoteEmitted(event_type="script.events", message=message, level="warning")
            )
        return self._recording.settle(path, EMIT, None)

    def _read(self, arguments: Any) -> NoteEmitted:
        event_type = text(arguments, "event_type", most=TYPE_CHARACTERS)
        if any(map(str.isspace, event_type)):
            raise TypeError("event_type must have no spaces")
        level = arguments.get("level", "info")
        if not isinstance(level, str) or level not in NOTE_LEVELS:
            raise TypeError(f"level must be one of {', '.join(NOTE_LEVELS)}")
        payload = arguments.get("payload")
        if is_larger(payload, EVENT_BYTES):
            raise TypeError(f"payload must have at most {EVENT_BYTES} bytes as JSON")
        return NoteEmitted(
            event_type=event_type,
            title=optional_text(arguments, "title", most=TITLE_CHARACTERS),
            message=optional_text(arguments, "message", most=MESSAGE_CHARACTERS),
            payload=payload,
            level=level,
        )


class PersonCalls:
    """`task.waitForUserMessage`: waits for a message of a person, or for a timeout."""

    def __init__(self, invocation: Invocation, recording: Recording) -> None:
        self._invocation = invocation
        self._recording = recording
        self._world = invocation.edition.world

    def wait(self, arguments: Any) -> Answer:
        """Open a question and suspend. A recorded answer is returned immediately.

        Raises NotPermitted if the task may not ask a person, even with a timeout.
        """
        question = self._question(arguments)
        if (recorded := self._recording.find(question.path)) is not None:
            return recorded
        self._invocation.caller.check_may_ask(WAIT)
        return self._recording.live(question.path, self._waited(question, arguments))

    def _question(self, arguments: Any) -> Question:
        secrets = self._invocation.caller.secrets
        words, schema = text(arguments, "user_message"), arguments.get("resume_schema")
        if not words.strip():
            raise TypeError("user_message must not be blank")
        timeout = mapping(arguments, "timeout")
        seconds = number(timeout, "seconds", 1, MAX_WAIT_SECONDS) if timeout else None
        if timeout:
            text(timeout, "resume_prompt")
        if schema is not None:
            problems = ScriptSchema(schema).problems(arguments.get("resume_payload"))
            if problems and "resume_payload" in arguments:
                raise TypeError(f"resume_payload is not valid: {problems[0]}")
        now = self._world.clock.now()
        return Question(
            question_id=QuestionId(self._world.new_id("q")),
            kind=QuestionKind.USER_MESSAGE,
            text=secrets.text(words),
            path=self._recording.place(WAIT, arguments, Effect.WRITE),
            call_id=self._invocation.root_call_id,
            tool_id=self._invocation.spec.tool_id,
            schema=secrets.json(schema),
            resume_payload=secrets.json(arguments.get("resume_payload")),
            expires_at=None if seconds is None else Moment(now + round(1000 * seconds)),
        )

    async def _waited(self, question: Question, arguments: Any) -> HostCallResult:
        answered = await ask(self._invocation.ledger, question)
        return self._recording.settle(question.path, WAIT, _result(answered, arguments))


class ContextCalls:
    """`task.getContext`, which is fresh in each entry, and `task.getProfile`, which is recorded."""

    def __init__(
        self,
        invocation: Invocation,
        recording: Recording,
        *,
        extra: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._invocation = invocation
        self._recording = recording
        self._extra = extra

    def context(self, _: Any) -> HostCallResult:
        """Return the ids of the task and the call; `resume_payload` is what arrived last for it."""
        invocation = self._invocation
        call, ledger = invocation.call, invocation.ledger
        fired = ledger.task.fired
        given = {} if fired is None else fired.context or {}
        context: dict[str, Any] = {**given, **self._extra} | {
            "task_id": ledger.task.task_id,
            "session_id": ledger.held.state.session_id,
            "selected_skill_ids": list(invocation.caller.newest().skills),
            "call": {
                "call_id": call.call_id or call.path,
                "tool_id": call.tool_id,
                "depth": call.depth + 1,
                "entry": ledger.entry(call.path),
                "attempt": invocation.attempt,
                "idempotency_key": invocation.idempotency_key,
            },
        }
        for arrived in ledger.arrivals(call.path):
            if (payload := _resumed(arrived, ledger.task)) is not None:
                context["resume_payload"] = payload
                break
        return self._recording.fresh(context)

    def profile(self, arguments: Any) -> HostCallResult:
        """Return the profile for which the script runs."""
        profile = self._invocation.caller.profile
        name = "task.getProfile"
        path = self._recording.place(name, arguments, Effect.READ)
        if (recorded := self._recording.find(path)) is not None:
            return recorded
        result = {
            "profile_id": profile.profile_id,
            "profile_kind": profile.kind,
            "permissions": profile.listed(self._invocation.edition.permissions),
        }
        return self._recording.settle(path, name, result)


def _entry(written: StateWritten) -> dict[str, Any]:
    entry = {"key": written.key, "value": written.value, "revision": str(written.revision)}
    if written.expires_at is not None:
        entry["expires_at"] = to_iso(written.expires_at)
    return entry


def _result(answered: QuestionAnswered, arguments: Any) -> dict[str, Any]:
    """Return the result of the wait. A payload in the answer replaces the one of the script."""
    answer = answered.answer
    payload = answer if "resume_payload" in answer else arguments
    kept = {"resume_payload": payload["resume_payload"]} if "resume_payload" in payload else {}
    if answered.status is QuestionStatus.ANSWERED:
        return {"resume_reason": "user_message", "user_message": answer["text"], **kept}
    prompt = mapping(arguments, "timeout").get("resume_prompt", "")
    return {"resume_reason": "timeout", "resume_prompt": prompt, **kept}


def _resumed(arrived: QuestionAnswered | Join, task: TaskState) -> dict[str, Any] | None:
    """Return an answer or a batch as `resume_payload`; None for a wait for other tasks."""
    if isinstance(arrived, Join):
        batch_id = batch_of(task, arrived)
        return None if batch_id is None else {"kind": "batch", "batch_id": batch_id}
    answer = arrived.answer
    payload = answer.get("resume_payload")
    extra = payload if isinstance(payload, dict) else {}
    if arrived.status is not QuestionStatus.ANSWERED:
        return {**extra, "kind": "timeout"}
    if "decision" in answer:
        return {"kind": "approval", **answer}
    return {**extra, "kind": "user_message", "user_message": answer.get("text", "")}
