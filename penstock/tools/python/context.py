"""What a Python tool may ask of the runtime while it runs."""

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, TypeVar

from msgspec.structs import replace

from penstock.core.call import Call, Effect
from penstock.core.call_errors import DepthExceeded, Rejected
from penstock.core.envelope import Envelope
from penstock.core.events import NoteEmitted, StoredFile
from penstock.core.ids import SessionId, TaskId
from penstock.core.profile import Profile
from penstock.core.question import Option, QuestionStatus
from penstock.core.scope import Scope, ScopeKind
from penstock.tools.detached import DetachedCalls
from penstock.tools.invocation import Invocation
from penstock.tools.outputs import given_json, own_copy
from penstock.tools.python.reach import KeptState, ToolFiles, secret_of
from penstock.tools.python.telling import checked_note, mime_of, question_form, question_text
from penstock.tools.redaction import redacted_files, redacted_note
from penstock.tools.state import ToolState

T = TypeVar("T")

EMIT = "emit"
KEEP = "artifacts.put"
PROGRESS = "progress"
TOO_MANY = "tool.events"


class ToolContext:
    """Handed to a Python tool that has a parameter with this hint, under whatever name."""

    __slots__ = ("_invocation", "_loop", "_thread", "artifacts", "state", "workspace")

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.state = ToolMemory(invocation)
        """What the tool remembers: within this task, `.session` in its conversation, `.profile`."""
        self.artifacts = OutputKeeper(invocation)
        """Bytes kept beside the output, shown to people."""
        self.workspace = ToolFiles(invocation)
        """The files of the task and of its conversation."""

    async def call(
        self, tool_id: str, input: Mapping[str, Any] | None = None, *, wait: bool = True
    ) -> Envelope:
        """Call another tool, with the grants that a script has; its failure is an Envelope too.

        The outcome is recorded: a function that is entered again gets it without a second run.
        With `wait=False` a call that waits for a person answers `suspended`, with its open
        questions, and stays with the task: the next equal call takes it up.
        """
        if not isinstance(tool_id, str):
            raise TypeError(f"tool_id must be a text, not {tool_id!r}")
        invocation = self._invocation
        depth = invocation.inside.world.limits.json_depth
        given = given_json(dict(input or {}), depth, f"the input of {tool_id!r}")
        try:
            call = invocation.nested(tool_id, given)
        except DepthExceeded as error:
            return error.envelope()
        calls = DetachedCalls(invocation, self._record)
        envelope = await invocation.join(calls.make(call, wait=wait))
        return replace(envelope, output=own_copy(envelope.output)) if envelope.ok else envelope

    def call_sync(
        self, tool_id: str, input: Mapping[str, Any] | None = None, *, wait: bool = True
    ) -> Envelope:
        """Call another tool from a tool that is no coroutine."""
        return self.wait(self.call(tool_id, input, wait=wait))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what one of these gives to a tool that is no coroutine: `ctx.wait(ctx.ask(…))`."""
        if threading.get_ident() == self._thread:
            work.close()
            raise RuntimeError("this would stop the event loop here: await it instead")
        with self._invocation.inside.threads.lent():
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def secret(self, key: str, shared: str | None = None) -> str:
        """Return a secret of the profile, or of the shared place of this name.

        A profile that has none gets the shared one, if there is one place with it. It is taken out
        of outputs, events and errors. Raises VaultNotFound.
        """
        return await secret_of(self._invocation, key, shared)

    async def ask(
        self,
        question: str,
        options: Sequence[str | Option] | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return a person's answer: words, the value of an option, or what matches the schema.

        The call is parked and the function is later entered again from its top, so ask before
        anything with an effect that is not made by this context. Only options answer a question
        that has some, and other words if one of them is `Other (describe)`. Raises Rejected when
        the person will not say.
        """
        form = question_form(options, schema)
        answered = await self._invocation.ask(question_text(question), form=form)
        answer = answered.answer
        if answered.status is QuestionStatus.CANCELLED or answer.get("cancel"):
            raise Rejected(f"nobody answered: {question}")
        return own_copy(answer["value"]) if "value" in answer else answer.get("text")

    def emit(
        self,
        event_type: str,
        message: str | None = None,
        payload: Any = None,
        level: str = "info",
    ) -> None:
        """Write an event into the task's timeline, once however often the function is entered."""
        note = NoteEmitted(event_type=event_type, message=message, payload=payload, level=level)
        self._soon(note, once=True)

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Say how far the work has come."""
        payload = {"done": done} if total is None else {"done": done, "total": total}
        self._soon(NoteEmitted(event_type=PROGRESS, message=message, payload=payload), once=False)

    async def wait_cancelled(self) -> None:
        """Return when nobody wants the outcome any more: a cancel, or the timeout."""
        await self._invocation.wait_stopped()

    @property
    def cancelled(self) -> bool:
        """Whether nobody wants the outcome any more."""
        return self._invocation.is_cancelled

    @property
    def idempotency_key(self) -> str:
        """The same key for the same call, over crashes and attempts."""
        return self._invocation.idempotency_key

    @property
    def call_id(self) -> str:
        """The call's own name: the model's, or its place in the task."""
        return self._invocation.call.call_id or self._invocation.call.path

    @property
    def task_id(self) -> TaskId:
        """The piece of work that the call belongs to."""
        return self._invocation.ledger.task.task_id

    @property
    def session_id(self) -> SessionId:
        """The conversation; of a direct call, its own log."""
        return SessionId(self._invocation.ledger.held.state.log_id)

    @property
    def profile(self) -> Profile:
        """Whom it is done for."""
        return self._invocation.caller.profile

    @property
    def depth(self) -> int:
        """How many calls the call is inside of."""
        return self._invocation.call.depth

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._invocation.attempt

    @property
    def deadline(self) -> float:
        """When the timeout ends the call, on `time.monotonic()`."""
        return self._invocation.deadline

    def _record(self, call: Call, envelope: Envelope) -> None:
        self._invocation.record(call.path, call.tool_id, envelope)

    def _soon(self, note: NoteEmitted, *, once: bool) -> None:
        note = checked_note(note, self._invocation.inside.world.limits)
        tell = partial(self._tell, note, once=once)
        if threading.get_ident() == self._thread:
            tell()
        else:
            self._loop.call_soon_threadsafe(tell)

    def _tell(self, note: NoteEmitted, *, once: bool) -> None:
        invocation, most = self._invocation, self._invocation.inside.world.limits.events
        invocation.told += 1
        if invocation.told > most + 1:
            return
        if invocation.told > most:
            said = f"more than {most} events; the others are dropped"
            note, once = NoteEmitted(event_type=TOO_MANY, message=said, level="warning"), True
        if once:
            self._write_once(note)
        else:
            invocation.note(note)

    def _write_once(self, note: NoteEmitted) -> None:
        invocation = self._invocation
        if invocation.has_ended:
            return
        shape = [note.event_type, note.message, note.payload, note.level]
        path = invocation.place(EMIT, shape, Effect.WRITE)
        if invocation.ledger.find(path) is None:
            told = redacted_note(note, invocation.caller.secrets)
            invocation.ledger.note(invocation.call.path, told)
            invocation.record(path, EMIT, Envelope.success(None))


class ToolMemory(ToolState):
    """What a tool remembers within its task, and beside it."""

    __slots__ = ("profile", "session")

    def __init__(self, invocation: Invocation) -> None:
        super().__init__(invocation)
        log_id = invocation.ledger.held.state.log_id
        self.session = KeptState(invocation, Scope(ScopeKind.SESSION, log_id))
        """What it remembers in the conversation."""
        profile_id = invocation.caller.profile.profile_id
        self.profile = KeptState(invocation, Scope(ScopeKind.PROFILE, profile_id))
        """What it remembers of whom it works for."""


class OutputKeeper:
    """Keeps bytes that a tool made.

    Each has a record of its own: erasing the conversation finds the bytes there also when the call
    failed, or was cancelled before it had an outcome.
    """

    __slots__ = ("_invocation",)

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation

    async def put(self, data: bytes, mime: str, name: str | None = None) -> StoredFile:
        """Keep the bytes; people see them beside the result, an image as an image."""
        if not isinstance(data, bytes):
            raise TypeError(f"data must be bytes, not {type(data).__name__}")
        invocation, mime = self._invocation, mime_of(mime)
        shape = {"mime": mime, "name": name, "bytes": blake2b(data, digest_size=16).hexdigest()}
        path = invocation.place(KEEP, shape, Effect.WRITE)
        settled = invocation.ledger.find(path)
        if settled is None:
            shown = invocation.caller.secrets.bytes(data)
            kept = await invocation.inside.artifacts.keep(shown, mime, name=name)
            files = redacted_files((kept,), invocation.caller.secrets)
            settled = invocation.record(path, KEEP, Envelope.success(None), files=files)
        (stored,) = settled.files
        if stored not in invocation.files:
            invocation.files.append(stored)
        return stored
