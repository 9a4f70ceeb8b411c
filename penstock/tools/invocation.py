"""One entry of a running call: its identity, its nested calls, its questions, its end.

It guarantees that a tool which runs again from its top (after a crash, a wait or a retry) gets the
recorded results of its nested calls, and that nothing follows once the call has ended. A nested
call, question or event gets its path from its name, its input and the number of equal ones before
it (decision 001), not from the order of arrival. A nested call's Signal is kept in `signal`: the
tool must end even if it swallows the exception. Proof: `tests/tools/test_invocation.py`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.call import CALL_DEPTH, Call, CallPath, Effect, Origin
from penstock.core.call_errors import Cancelled, DepthExceeded, ToolNotConfigured
from penstock.core.envelope import Envelope
from penstock.core.errors import LeaseLost, Signal
from penstock.core.events.events import CallSettled, NoteEmitted, QuestionAnswered
from penstock.core.ids import CallId, QuestionId
from penstock.core.limits import World
from penstock.core.messages import StoredFile
from penstock.core.stored.changes import Change
from penstock.core.task import FREE, Question, QuestionForm, QuestionKind
from penstock.engine.ledger import Ledger, Occurrences
from penstock.engine.suspend import ask
from penstock.resources.project.files import ProjectFiles
from penstock.resources.threads import Threads
from penstock.resources.workspace import Workspace
from penstock.tools.policy import Caller
from penstock.tools.redaction import redacted_form, redacted_note
from penstock.tools.resources import NO_PROJECT, ProjectFolder, Resources
from penstock.tools.spec import ToolSpec

WentWell = Callable[[CallSettled], bool]


def succeeded(settled: CallSettled) -> bool:
    """Whether a call ended without an error."""
    return settled.envelope.ok


class NestedCalls(Struct):
    """Counts the nested calls below one root call."""

    root: ToolSpec | None
    """The tool of the direct call at the root; None below a model's call."""
    call_id: CallId | None = None
    """The id of the model's call at the root, if a model made it."""
    calls: int = 0


class Attempt(NamedTuple):
    """One attempt to run a call."""

    nest: NestedCalls
    number: int = 1
    deadline: float = 0.0
    """When the timeout ends the call: seconds on the runtime's monotonic clock."""


class ToolEdition(Protocol):
    """The parts of an edition of the tools that a running call uses. It never changes.

    `tools/invoker.Edition` is its one implementation. It makes Invocations and thus imports this
    file, so an Invocation can name it only by this protocol: otherwise imports would be circular.
    """

    @property
    def resources(self) -> Resources:
        """Files, values, secrets and other servers."""

    @property
    def threads(self) -> Threads:
        """Threads for synchronous tools."""

    @property
    def world(self) -> World:
        """The clock, the limits and the source of ids."""

    @property
    def permissions(self) -> frozenset[str]:
        """All permissions that the project's tools name."""

    def knows(self, tool_id: str) -> bool:
        """Whether a tool with this id exists."""

    def effect_of(self, tool_id: str) -> Effect:
        """Return the effect of a tool; `none` if it does not exist."""

    async def call(
        self, call: Call, caller: Caller, ledger: Ledger, nest: NestedCalls | None
    ) -> Envelope:
        """Make a call, and return its outcome."""


class Runner:
    """The asyncio task that runs a call, and which of its cancellations come from outside."""

    __slots__ = ("_before", "is_unwanted", "own_cancels", "task")

    def __init__(self) -> None:
        self.task = asyncio.current_task()
        # A failed TaskGroup may leave its task with a pending count, so a count proves nothing.
        self._before = self.task.cancelling() if self.task else 0
        self.own_cancels = 0
        """How often the tool cancelled its own asyncio task."""
        self.is_unwanted = False
        """Whether it was cancelled from outside, and not by the call's own deadline."""

    @property
    def is_cut(self) -> bool:
        """Whether a cancellation is pending that the tool did not request itself."""
        task = self.task
        return task is not None and task.cancelling() > self._before + self.own_cancels


class Invocation:
    """One entry of a running call, and its access to the rest of the runtime."""

    __slots__ = (
        "_background",
        "_caller",
        "_nest",
        "_seen",
        "_stopped",
        "attempt",
        "call",
        "caller",
        "change",
        "computed_ms",
        "deadline",
        "edition",
        "edition",
        "events_written",
        "files",
        "has_ended",
        "ledger",
        "runner",
        "signal",
        "spec",
    )

    def __init__(
        self,
        call: Call,
        spec: ToolSpec,
        caller: Caller,
        *,
        ledger: Ledger,
        edition: ToolEdition,
        attempt: Attempt,
    ) -> None:
        self.call = call
        self.spec = spec
        self.caller = caller
        self.ledger = ledger
        self.edition = edition
        self.attempt = attempt.number
        self.deadline = attempt.deadline
        self.runner = Runner()
        self.computed_ms = 0
        """Milliseconds of CPU that the script used in this entry, once it has ended."""
        self.files: list[StoredFile] = []
        """Files that the tool stored in addition to its output."""
        self.change: Change | None = None
        """A change of the runtime's stores, made in the transaction that records the outcome."""
        self.signal: Signal | None = None
        """The Signal of a nested call. It ends this call too, even if the tool swallows it."""
        self.has_ended = False
        self.events_written = 0
        """Events that the tool wrote into the timeline, including dropped ones."""
        self._nest = attempt.nest
        self._background: list[asyncio.Task[Envelope]] = []
        self._seen: Occurrences | None = None
        self._caller: Caller | None = None
        self._stopped: asyncio.Event | None = None

    @property
    def workspace(self) -> Workspace:
        """The files of the task and its conversation. Raises ToolNotConfigured."""
        log_id, task_id = self.ledger.held.state.session_id, self.ledger.task.task_id
        workspace = self.edition.resources.workspace(log_id, task_id, self.edition.world.limits)
        if workspace is None:
            raise ToolNotConfigured("no files are kept here")
        return workspace

    @property
    def project(self) -> ProjectFiles:
        """The project's folder with the access of the caller's agent. Raises ToolNotConfigured.

        A chat may write files that decide what runs (tools, flows) only in an approved call.
        """
        is_trusted = self.caller.session is not None or self.ledger.is_asked(self.call.path)
        return self.project_folder.files(replace(self.caller.access, is_trusted=is_trusted))

    @property
    def project_folder(self) -> ProjectFolder:
        """The project's folder and its shell. Raises ToolNotConfigured."""
        folder = self.edition.resources.project
        if folder is None:
            raise ToolNotConfigured(NO_PROJECT)
        return folder

    async def invoke(self, tool_id: str, input: dict[str, Any]) -> Envelope:
        """Call another tool through the invoker. A failure is an Envelope, too."""
        try:
            call = self.nested(tool_id, input)
        except DepthExceeded as error:
            return error.envelope()
        return await self.make(call)

    def nested(self, tool_id: str, input: dict[str, Any]) -> Call:
        """Return the next call of this tool with this input. Raises DepthExceeded."""
        depth = self.call.depth + 1
        if depth >= CALL_DEPTH:
            raise DepthExceeded(f"calls are nested more than {CALL_DEPTH} deep")
        # An unknown id may contain a secret, and is written into the log as part of the path.
        if not self.edition.knows(tool_id):
            tool_id = self.caller.secrets.text(tool_id)
        path = self.place(tool_id, input, self.edition.effect_of(tool_id))
        return Call(path, tool_id, input, depth)

    async def make(self, call: Call) -> Envelope:
        """Make a nested call, and wait for it."""
        return await self.join(self.pass_on(call))

    async def join(self, nested: Awaitable[Envelope]) -> Envelope:
        """Wait for a nested call. Its Signals end this call, too."""
        if asyncio.current_task() is not self.runner.task:
            # A call that suspends cancels its siblings in a TaskGroup. The shield lets them settle.
            task = asyncio.ensure_future(nested)
            self._background.append(task)
            nested = asyncio.shield(task)
        try:
            return await nested
        except Signal as signal:
            self.signal = signal
            raise

    def pass_on(self, call: Call) -> Awaitable[Envelope]:
        """Start a nested call. The caller must await it and handle its Signals."""
        return self.edition.call(call, self._nested_caller(), self.ledger, self._nest)

    @property
    def root_call_id(self) -> CallId | None:
        """The id of the model's call that this call is, or is nested in."""
        return self._nest.call_id

    async def ask(self, text: str, *, form: QuestionForm = FREE) -> QuestionAnswered:
        """Ask a person, and return the answer. A question that was asked before is not repeated.

        Raises NotPermitted where questions are not allowed.
        """
        self.check_running()
        self.caller.check_may_ask()
        shown = redacted_form(form, self.caller.secrets)
        shape = {"question": text, "options": [option.value for option in form.options]}
        question = Question(
            question_id=QuestionId(self.edition.world.new_id("q")),
            kind=QuestionKind.ASK_USER,
            text=self.caller.secrets.text(text),
            path=self.occurrences.path("ask", shape),
            call_id=self._nest.call_id,
            tool_id=self.spec.tool_id,
            context=shown.context,
            options=shown.options,
            schema=shown.schema,
            form=shown.typed,
            expires_at=self.caller.expiry(self.edition.world.clock.now()),
        )
        try:
            return await ask(self.ledger, question)
        except Signal as signal:
            self.signal = signal
            raise

    def note(self, note: NoteEmitted) -> None:
        """Write an event of the tool's author into the log. Ignored once the call has ended."""
        if not self.has_ended:
            self.ledger.note(self.call.path, redacted_note(note, self.caller.secrets))
            self.ledger.held.submit()

    def place(
        self, name: str, shape: Any, effect: Effect, went_well: WentWell = succeeded
    ) -> CallPath:
        """Return the path of the tool's next operation with this name and input (`shape`).

        A retry reuses the successful writes of earlier attempts, and repeats everything else.
        Raises Cancelled if the call has ended.
        """
        self.check_running()
        path = self.occurrences.path(name, shape)
        for attempt in range(1, self.attempt):
            before = path if attempt == 1 else CallPath(f"{path}~{attempt}")
            settled = self.ledger.find(before)
            if settled is None or (effect is Effect.WRITE and went_well(settled)):
                return before
        return path if self.attempt == 1 else CallPath(f"{path}~{self.attempt}")

    def record(
        self,
        path: CallPath,
        name: str,
        envelope: Envelope,
        *,
        files: tuple[StoredFile, ...] = (),
    ) -> CallSettled:
        """Record the outcome of an operation of the tool itself, for later entries."""
        settled = CallSettled(tool_id=name, envelope=envelope, ran=False, files=files)
        self.ledger.settle(path, settled)
        return settled

    def check_running(self) -> None:
        """Raise Cancelled if the call has ended."""
        if self.has_ended:
            raise Cancelled(f'this call of "{self.spec.tool_id}" has ended; it can do nothing more')

    async def settle_nested(self, *, cancel: bool) -> None:
        """Wait for the nested calls that the tool left running, and keep their Signals."""
        if cancel:
            self.cancel_nested()
        try:
            await self._wait_nested()
        except asyncio.CancelledError:
            self.cancel_nested()
            await self._wait_nested()
            raise
        for task in self._background:
            error = None if task.cancelled() else task.exception()
            # LeaseLost replaces any other Signal: without the lease, no suspend can be recorded.
            if isinstance(error, LeaseLost) or (self.signal is None and isinstance(error, Signal)):
                self.signal = error

    def cancel_nested(self) -> None:
        """Cancel the nested calls that the tool left running, and refuse new ones."""
        self.end()
        for task in self._background:
            task.cancel("the call around it has ended")

    def end(self) -> None:
        """Refuse later operations of the tool, from a thread or a task that it left behind."""
        self.has_ended = True
        if self._stopped is not None:
            self._stopped.set()

    async def wait_stopped(self) -> None:
        """Wait until the call has ended, or must end."""
        if self._stopped is None:
            self._stopped = asyncio.Event()
        if not self.has_ended:
            await self._stopped.wait()

    @property
    def occurrences(self) -> Occurrences:
        """Counts equal nested calls in this entry."""
        if self._seen is None:
            self._seen = self.ledger.occurrences(self.call.path)
        return self._seen

    @property
    def idempotency_key(self) -> str:
        """A key that stays the same over retries and crashes of this call."""
        return self.ledger.idempotency_key(self.call.path)

    async def _wait_nested(self) -> None:
        """Wait until no nested call runs. A function that gets an outcome may make another call."""
        while running := [task for task in self._background if not task.done()]:
            await asyncio.wait(running)

    def _nested_caller(self) -> Caller:
        selection = self.caller.newest()
        if self._caller is None or self._caller.selection is not selection:
            self._caller = replace(
                self.caller,
                origin=Origin.SCRIPT,
                selection=selection,
                root=self._nest.root,
                calling_tool=self.spec.tool_id,
                calling_kind=self.spec.kind,
                agent_tools=frozenset(),
                clip_at=None,
            )
        return self._caller
