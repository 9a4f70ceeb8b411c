"""The ToolContext: what a Python tool can ask of the runtime while it runs.

It guarantees that what a tool calls, asks, stores and emits through it happens once, however often
the function runs. Each operation has a path below the call (`Invocation.place`), is recorded there,
and is answered from the record in a later entry. The context can be used from the tool's own
thread, too: events are passed to the event loop with `call_soon_threadsafe`, and `wait` runs a
coroutine there. Values are copied when they leave the record, so that a tool that changes a result
in place does not change what a later entry reads.

Proof: `tests/tools/python/test_context.py`.
"""

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, overload

from msgspec.structs import replace

from penstock.core.call import Call, Effect
from penstock.core.call_errors import DepthExceeded, Rejected
from penstock.core.envelope import Envelope
from penstock.core.events.events import NoteEmitted
from penstock.core.ids import SessionId, TaskId
from penstock.core.json_values.json_text import JSON_DEPTH
from penstock.core.profile import Profile
from penstock.core.task import Option, QuestionStatus
from penstock.resources.dependencies import MISSING, AgentContext, DepsT_co, TaskScope
from penstock.tools.detached_calls import DetachedCalls
from penstock.tools.hooks.hooks import scope_of
from penstock.tools.invocation import Invocation
from penstock.tools.outputs import given_json, own_copy
from penstock.tools.python.capabilities import (
    MAX_EVENTS,
    OutputKeeper,
    ToolFiles,
    ToolMemory,
    checked_note,
    question_form,
    question_text,
    secret_of,
)
from penstock.tools.python.children import Spawning
from penstock.tools.redaction import redacted_note

T = TypeVar("T")

EMIT = "emit"
PROGRESS = "progress"
TOO_MANY = "tool.events"


class ToolContext(Spawning, AgentContext[DepsT_co]):
    """The runtime's interface for a Python tool during one call.

    A tool receives it in any parameter with this hint; callers and models do not see the parameter.
    What a tool calls, asks, stores and writes through it is recorded: after a crash or a wait for
    a person the function runs again from its top, gets the recorded results, and nothing happens
    twice.

    Example:
        >>> import asyncio
        >>> from penstock import ToolContext, tool
        >>> from penstock.testing import memory_runtime
        >>> @tool(effect="write", direct_call=True)
        ... async def count(ctx: ToolContext) -> int:
        ...     '''Count the calls in this conversation.'''
        ...     calls = 1 + await ctx.state.session.get("calls", 0)
        ...     await ctx.state.session.put("calls", calls)
        ...     ctx.progress(1, 1, "counted")
        ...     return calls
        >>> async def main() -> None:
        ...     async with memory_runtime(tools=[count]) as runtime:
        ...         print((await runtime.call("count", {})).output)
        >>> asyncio.run(main())
        1
    """

    __slots__ = ("_invocation", "_loop", "_thread", "artifacts", "state", "workspace")

    def __init__(self, invocation: Invocation, deps: Any = MISSING) -> None:
        self._invocation = invocation
        self._deps = deps
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.state = ToolMemory(invocation)
        """The tool's values of this task; `.session` and `.profile` live longer."""
        self.artifacts = OutputKeeper(invocation)
        """Stores bytes in addition to the output, and shows them to people."""
        self.workspace = ToolFiles(invocation)
        """The files of the task and of its conversation."""

    async def call(
        self, tool_id: str, input: Mapping[str, Any] | None = None, *, wait: bool = True
    ) -> Envelope:
        """Call another tool with the grants of a script. A failure is an Envelope, too.

        The outcome is recorded: a function that runs again gets it without a second call.

        Args:
            tool_id: The tool.
            input: What it takes; None means no input.
            wait: False returns `suspended` with the open questions when the call waits for a
                person. The call then stays with the task, and the next equal call resumes it.

        Returns:
            The outcome. Test `ok` before you use `output`.

        Raises:
            TypeError: The id is not text, or the input is not JSON.
            ValueError: The input is nested too deeply.
        """
        if not isinstance(tool_id, str):
            raise TypeError(f"tool_id must be a text, not {tool_id!r}")
        invocation = self._invocation
        arguments = given_json(dict(input or {}), JSON_DEPTH, f"the input of {tool_id!r}")
        try:
            call = invocation.nested(tool_id, arguments)
        except DepthExceeded as error:
            return error.envelope()
        calls = DetachedCalls(invocation, self._record)
        envelope = await invocation.join(calls.make(call, wait=wait))
        return replace(envelope, output=own_copy(envelope.output)) if envelope.ok else envelope

    def call_sync(
        self, tool_id: str, input: Mapping[str, Any] | None = None, *, wait: bool = True
    ) -> Envelope:
        """Call another tool from a plain function, which runs in a thread.

        Args:
            tool_id: The tool.
            input: What it takes; None means no input.
            wait: As for `call`.

        Returns:
            The outcome. Test `ok` before you use `output`.
        """
        return self.wait(self.call(tool_id, input, wait=wait))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of this context from a plain function: `ctx.wait(ctx.ask(…))`.

        Args:
            work: A coroutine of this context.

        Returns:
            The result of the coroutine.

        Raises:
            RuntimeError: The tool is a coroutine: use `await`.
        """
        if threading.get_ident() == self._thread:
            work.close()
            raise RuntimeError("this would stop the event loop here: await it instead")
        # This thread only waits: a nested call may need a thread of the pool itself.
        with self._invocation.edition.threads.lent():
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def secret(self, key: str, shared: str | None = None) -> str:
        """Return a secret of the profile, or of a shared scope.

        From then on it is redacted in outputs, events and errors of the task.

        Args:
            key: Its key, as in `penstock vault set profile KEY`.
            shared: The name of a shared scope. None means the profile; if the profile does not have
                the secret and exactly one shared scope does, that one is used.

        Raises:
            VaultNotFound: There is no such secret, or it cannot be opened.
            ToolNotConfigured: The runtime has no vault.
        """
        return await secret_of(self._invocation, key, shared)

    @overload
    async def ask(self, question: str, options: Sequence[str] | None = None) -> str: ...
    @overload
    async def ask(
        self,
        question: str,
        options: Sequence[str | Option] | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> Any: ...
    async def ask(
        self,
        question: str,
        options: Sequence[str | Option] | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> Any:
        """Ask a person, and return the answer: a text, an option's value, or JSON of the schema.

        The call waits without a thread or a process, and the function later runs again from its
        top. So ask before any effect that is not made through this context.

        Args:
            question: What the person reads.
            options: What can be chosen: texts, or Options with a label, a value and aliases.
                Nothing else answers, unless one of them is `Other (describe)`.
            schema: A JSON Schema for an answer that is a value.

        Returns:
            The value of the chosen option, the value that matches the schema, or the text.

        Raises:
            Rejected: The person declined, or the question expired.
            TypeError: The question, an option or the schema has a wrong type.
            ValueError: The question is blank, two options are equal, or the schema is invalid.
        """
        form = question_form(options, schema)
        answered = await self._invocation.ask(question_text(question), form=form)
        answer = answered.answer
        if answered.status is QuestionStatus.CANCELLED or answer.get("cancel"):
            raise Rejected(f"no person answered: {question}")
        return own_copy(answer["value"]) if "value" in answer else answer.get("text")

    def emit(
        self,
        event_type: str,
        message: str | None = None,
        payload: Any = None,
        level: str = "info",
    ) -> None:
        """Write an event into the task's timeline, once even if the function runs again.

        Args:
            event_type: Your name for it, 1 to 128 characters without spaces.
            message: A sentence for people, at most 4096 characters.
            payload: JSON for programs, at most 32 KiB.
            level: `info`, `warning` or `error`.

        Raises:
            TypeError: A value has a wrong type, or the payload is not JSON.
            ValueError: A value is too long or unknown.
        """
        note = NoteEmitted(event_type=event_type, message=message, payload=payload, level=level)
        self._soon(note, once=True)

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report the progress of the work.

        Args:
            done: The amount of finished work, in any unit.
            total: The amount of all work, in the same unit; None means unknown.
            message: A sentence for people.

        Raises:
            TypeError: A number is not finite, or the message is not text.
            ValueError: The message has over 4096 characters.
        """
        payload = {"done": done} if total is None else {"done": done, "total": total}
        self._soon(NoteEmitted(event_type=PROGRESS, message=message, payload=payload), once=False)

    async def wait_cancelled(self) -> None:
        """Wait until the call must end: it was cancelled, or its timeout has expired."""
        await self._invocation.wait_stopped()

    @property
    def cancelled(self) -> bool:
        """Whether the call must end: it was cancelled, or its timeout has expired."""
        invocation = self._invocation
        return invocation.has_ended or invocation.ledger.task.cancel_requested

    @property
    def idempotency_key(self) -> str:
        """A key of the call that stays the same over crashes and retries."""
        return self._invocation.idempotency_key

    @property
    def call_id(self) -> str:
        """The call's id: the model's id for it, or its path in the task."""
        return self._invocation.call.call_id or self._invocation.call.path

    @property
    def task_id(self) -> TaskId:
        """The task that the call belongs to."""
        return self._invocation.ledger.task.task_id

    @property
    def agent(self) -> str:
        """The name of the agent whose call it is."""
        return self._invocation.caller.agent

    @property
    def session(self) -> str:
        """The conversation, as `session_id`."""
        return self.session_id

    @property
    def metadata(self) -> Mapping[str, str]:
        """The metadata of the message."""
        return scope_of_call(self._invocation).metadata

    @property
    def flow(self) -> str:
        """The command of the flow in whose run the tool works; empty in a conversation."""
        return self._invocation.ledger.task.flow

    @property
    def session_id(self) -> SessionId:
        """The conversation. A direct call has a log of its own."""
        return SessionId(self._invocation.ledger.held.state.session_id)

    @property
    def profile(self) -> Profile:
        """The profile that the task works for."""
        return self._invocation.caller.profile

    @property
    def depth(self) -> int:
        """How many calls this call is nested in; 0 for a call of a model."""
        return self._invocation.call.depth

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._invocation.attempt

    @property
    def deadline(self) -> float:
        """When the timeout ends the call: seconds on `time.monotonic()`."""
        return self._invocation.deadline

    def _record(self, call: Call, envelope: Envelope) -> None:
        self._invocation.record(call.path, call.tool_id, envelope)

    def _soon(self, note: NoteEmitted, *, once: bool) -> None:
        note = checked_note(note)
        write = partial(self._write, note, once=once)
        if threading.get_ident() == self._thread:
            write()
        else:
            self._loop.call_soon_threadsafe(write)

    def _write(self, note: NoteEmitted, *, once: bool) -> None:
        invocation = self._invocation
        invocation.events_written += 1
        if invocation.events_written > MAX_EVENTS + 1:  # the first too many becomes the warning
            return
        if invocation.events_written > MAX_EVENTS:
            message = f"more than {MAX_EVENTS} events; the others are dropped"
            note, once = NoteEmitted(event_type=TOO_MANY, message=message, level="warning"), True
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
            shown = redacted_note(note, invocation.caller.secrets)
            invocation.ledger.note(invocation.call.path, shown)
            invocation.record(path, EMIT, Envelope.success(None))


def scope_of_call(invocation: Invocation) -> TaskScope:
    """Return the task of a call as functions of a program see it."""
    caller, ledger = invocation.caller, invocation.ledger
    return scope_of(ledger.held, ledger.task, caller.profile, caller.agent)
