"""What a tool holds while it runs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.call import Call, CallPath, Effect, Origin
from penstock.core.call_errors import Cancelled, DepthExceeded, ToolNotConfigured
from penstock.core.envelope import Envelope, Json
from penstock.core.events.events import CallSettled, NoteEmitted, QuestionAnswered, StoredFile
from penstock.core.ids import CallId, QuestionId
from penstock.core.json_values.canonical import canonical
from penstock.core.limits import World
from penstock.core.question import Option, Question, QuestionKind
from penstock.core.signals import LeaseLost, Signal
from penstock.core.state.changes import Change
from penstock.engine.ledger import Ledger, Occurrences
from penstock.engine.suspend import ask
from penstock.resources.project.files import ProjectFiles
from penstock.resources.redact import Redactor
from penstock.resources.workspace import Workspace
from penstock.tools.access.policy import Caller
from penstock.tools.resources import NO_PROJECT, ProjectFolder, Resources
from penstock.tools.results.artifacts import Artifacts
from penstock.tools.results.redaction import redacted_note
from penstock.tools.spec import ToolSpec
from penstock.tools.threads import Threads

Door = Callable[[Call, Caller, Ledger, "NestedCalls | None"], Awaitable[Envelope]]


WentWell = Callable[[CallSettled], bool]


def succeeded(settled: CallSettled) -> bool:
    """Whether a call did what it was to do."""
    return settled.envelope.ok


class NestedCalls:
    """The calls made from inside one root call, counted."""

    __slots__ = ("call_id", "calls", "root")

    def __init__(self, root: ToolSpec | None, call_id: CallId | None = None) -> None:
        self.root = root
        """The direct call at the root, None below a model's call."""
        self.call_id = call_id
        """The model's call at the root, if it is one."""
        self.calls = 0


class InvokerContext(Struct, frozen=True, kw_only=True):
    """What every invocation behind one door shares."""

    door: Door
    effect_of: Callable[[str], Effect]
    knows: Callable[[str], bool]
    """Whether there is a tool of this id."""
    permissions: frozenset[str]
    """Every one that the project names."""
    resources: Resources
    threads: Threads
    world: World

    @property
    def artifacts(self) -> Artifacts:
        """Where whole outputs are kept."""
        return self.resources.artifacts


class QuestionForm(Struct, frozen=True, kw_only=True):
    """How a question may be answered."""

    options: tuple[Option, ...] = ()
    schema: Json | None = None
    context: str | None = None
    typed: Json | None = None
    """`type` and what goes with it, of a question that has one."""

    def without(self, secrets: Redactor) -> "QuestionForm":
        """Return the form with no secret in what a person is shown."""
        if not secrets.has_any:
            return self
        options = [
            Option(
                label=secrets.text(each.label),
                value=secrets.text(each.value),
                aliases=tuple(map(secrets.text, each.aliases)),
            )
            for each in self.options
        ]
        return QuestionForm(
            options=tuple(options),
            schema=secrets.json(self.schema),
            context=secrets.json(self.context),
            typed=secrets.json(self.typed),
        )


FREE = QuestionForm()


class Invocation:
    """One entry of a running call: what it may do, and how it reaches the rest of the runtime."""

    __slots__ = (
        "_aside",
        "_caller",
        "_cancelling",
        "_nest",
        "_seen",
        "_stopped",
        "attempt",
        "call",
        "caller",
        "change",
        "computed_ms",
        "deadline",
        "files",
        "has_ended",
        "inside",
        "is_unwanted",
        "ledger",
        "own_cancels",
        "owner",
        "signal",
        "spec",
        "told",
    )

    def __init__(
        self, call: Call, spec: ToolSpec, caller: Caller, *, ledger: Ledger, inside: InvokerContext
    ) -> None:
        self.call = call
        self.spec = spec
        self.caller = caller
        self.ledger = ledger
        self.inside = inside
        self.attempt = 1
        self.deadline = 0.0
        """On the runtime's monotonic clock."""
        self.computed_ms = 0
        """How long its script computed in this entry, which is over."""
        self.owner: asyncio.Task[Any] | None = None
        """The task that runs the tool."""
        self.files: list[StoredFile] = []
        """What the tool kept beside its output."""
        self.change: Change | None = None
        """What is done to the runtime's stores in the transaction that records the outcome."""
        self.signal: Signal | None = None
        """What ended a call inside: it ends this one too, whatever the tool makes of it."""
        self.has_ended = False
        self.told = 0
        """Events that the tool wrote into the timeline, those that were dropped counted."""
        self.own_cancels = 0
        """How often the tool cancelled the task it runs in: nobody who waits for it wanted that."""
        self.is_unwanted = False
        """The runtime cancelled it for a reason outside of it, and not by its own deadline."""
        self._nest = NestedCalls(None)
        self._cancelling = 0
        self._aside: list[asyncio.Task[Envelope]] = []
        self._seen: Occurrences | None = None
        self._caller: Caller | None = None
        self._stopped: asyncio.Event | None = None

    def enter(self, nest: NestedCalls, attempt: int, deadline: float) -> None:
        """Begin at the tool's first line: the calls inside are counted from the start."""
        self._nest = nest
        self.owner = owner = asyncio.current_task()
        self._cancelling = owner.cancelling() if owner else 0
        self.attempt = attempt
        self.deadline = deadline

    @property
    def workspace(self) -> Workspace:
        """The files of the task and its conversation. Raises ToolNotConfigured."""
        log_id, task_id = self.ledger.held.state.log_id, self.ledger.task.task_id
        workspace = self.inside.resources.workspace(log_id, task_id, self.inside.world.limits)
        if workspace is None:
            raise ToolNotConfigured("no files are kept here")
        return workspace

    @property
    def project(self) -> ProjectFiles:
        """The project's own folder, as the caller's agent sees it. Raises ToolNotConfigured.

        What decides what runs is written for a chat only if a person approved this call.
        """
        is_trusted = self.caller.session is not None or self.ledger.is_asked(self.call.path)
        return self.project_folder.files(replace(self.caller.access, is_trusted=is_trusted))

    @property
    def project_folder(self) -> ProjectFolder:
        """Where the project is, and what may run there. Raises ToolNotConfigured."""
        folder = self.inside.resources.project
        if folder is None:
            raise ToolNotConfigured(NO_PROJECT)
        return folder

    async def invoke(self, tool_id: str, input: dict[str, Any]) -> Envelope:
        """Call another tool through the same door; a failure is an Envelope too."""
        try:
            call = self.nested(tool_id, input)
        except DepthExceeded as error:
            return error.envelope()
        return await self.make(call)

    def nested(self, tool_id: str, input: dict[str, Any]) -> Call:
        """Return the next call of this tool with this input. Raises DepthExceeded."""
        depth = self.call.depth + 1
        most = self.inside.world.limits.call_depth
        if depth >= most:
            raise DepthExceeded(f"calls are nested more than {most} deep")
        if not self.inside.knows(tool_id):
            tool_id = self.caller.secrets.text(tool_id)
        path = self.place(tool_id, input, self.inside.effect_of(tool_id))
        return Call(path, tool_id, input, depth)

    async def make(self, call: Call) -> Envelope:
        """Make a call inside this one."""
        return await self.join(self.pass_on(call))

    async def join(self, door: Awaitable[Envelope]) -> Envelope:
        """Wait for a call inside this one, whose Signals end this one too.

        One made beside others goes on when one of them suspends this one.
        """
        if asyncio.current_task() is not self.owner:
            task = asyncio.ensure_future(door)
            self._aside.append(task)
            door = asyncio.shield(task)
        try:
            return await door
        except Signal as signal:
            self.signal = signal
            raise

    def pass_on(self, call: Call) -> Awaitable[Envelope]:
        """Make a call inside this one, for who sees to its end and to its Signals himself."""
        return self.inside.door(call, self._inner(), self.ledger, self._nest)

    @property
    def root_call_id(self) -> CallId | None:
        """The model's call that this one is, or stands in."""
        return self._nest.call_id

    async def ask(self, text: str, *, form: QuestionForm = FREE) -> QuestionAnswered:
        """Ask a person, once per question; does not return until there is an answer.

        Raises NotPermitted where nobody may be asked.
        """
        self.check_running()
        self.caller.check_may_ask()
        shown = form.without(self.caller.secrets)
        shape = {"question": text, "options": [each.value for each in form.options]}
        question = Question(
            question_id=QuestionId(self.inside.world.new_id("q")),
            kind=QuestionKind.ASK_USER,
            text=self.caller.secrets.text(text),
            path=self.occurrences.path("ask", canonical(shape)),
            call_id=self._nest.call_id,
            tool_id=self.spec.tool_id,
            context=shown.context,
            options=shown.options,
            schema=shown.schema,
            form=shown.typed,
            expires_at=self.caller.expiry(self.inside.world.clock.now()),
        )
        try:
            return await ask(self.ledger, question)
        except Signal as signal:
            self.signal = signal
            raise

    def note(self, note: NoteEmitted) -> None:
        """Write an event of the author's into the log; nothing once the call has ended."""
        if not self.has_ended:
            self.ledger.note(self.call.path, redacted_note(note, self.caller.secrets))
            self.ledger.held.submit()

    def place(
        self, name: str, shape: Any, effect: Effect, went_well: WentWell = succeeded
    ) -> CallPath:
        """Return the identity of the next thing of this name and shape that the tool does.

        In a further attempt what went well and is a write is taken over; all else is done again.
        Raises Cancelled when the call is over.
        """
        self.check_running()
        path = self.occurrences.path(name, canonical(shape))
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
        """Settle what the tool did by itself: whoever enters it again finds the same."""
        settled = CallSettled(tool_id=name, envelope=envelope, ran=False, files=files)
        self.ledger.settle(path, settled)
        return settled

    def check_running(self) -> None:
        """Raise Cancelled when the call is over: nothing that it does counts any more."""
        if self.has_ended:
            raise Cancelled(f'this call of "{self.spec.tool_id}" has ended; nothing follows it')

    async def settle_inside(self, *, cancel: bool) -> None:
        """Wait for the calls that the tool left running; raises LeaseLost if one met it."""
        if cancel:
            self.cut_inside()
        try:
            await self._inside_over()
        except asyncio.CancelledError:
            self.cut_inside()
            await self._inside_over()
            raise
        for task in self._aside:
            error = None if task.cancelled() else task.exception()
            if isinstance(error, LeaseLost) or (self.signal is None and isinstance(error, Signal)):
                self.signal = error

    def cut_inside(self) -> None:
        """Cancel the calls that the tool left running; no other follows them."""
        self.end()
        for task in self._aside:
            task.cancel("the call around it has ended")

    @property
    def is_cut(self) -> bool:
        """Whether the task that runs the tool was cancelled since, and nobody took it back.

        A TaskGroup in which something failed may leave it so: it is no proof by itself.
        """
        owner, own = self.owner, self._cancelling + self.own_cancels
        return owner is not None and owner.cancelling() > own

    def end(self) -> None:
        """Refuse what the tool still does from a thread or a task that nobody waits for."""
        self.has_ended = True
        if self._stopped is not None:
            self._stopped.set()

    async def wait_stopped(self) -> None:
        """Wait until nobody wants the call's outcome any more."""
        if self._stopped is None:
            self._stopped = asyncio.Event()
        if not self.has_ended:
            await self._stopped.wait()

    @property
    def occurrences(self) -> Occurrences:
        """The count of equal calls inside, in this entry."""
        if self._seen is None:
            self._seen = self.ledger.occurrences(self.call.path)
        return self._seen

    @property
    def idempotency_key(self) -> str:
        """The same key for the same call, whatever happens."""
        return self.ledger.idempotency_key(self.call.path)

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody wants the call's outcome any more."""
        return self.has_ended or self.ledger.task.cancel_requested

    async def _inside_over(self) -> None:
        """Wait for all calls inside: who goes on with the outcome of one may make another."""
        while running := [each for each in self._aside if not each.done()]:
            await asyncio.wait(running)

    def _inner(self) -> Caller:
        selection = self.caller.newest()
        if self._caller is None or self._caller.selection is not selection:
            self._caller = replace(
                self.caller,
                origin=Origin.SCRIPT,
                selection=selection,
                root=self._nest.root,
                inside=self.spec.tool_id,
                inside_kind=self.spec.kind,
                agent_tools=frozenset(),
                clip_at=None,
            )
        return self._caller
