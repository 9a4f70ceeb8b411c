"""What a tool holds while it runs."""

from collections.abc import Awaitable, Callable
from typing import Any

from penstock.core.call import Call, Origin
from penstock.core.canonical import canonical
from penstock.core.envelope import Envelope
from penstock.core.errors import DepthExceeded
from penstock.core.events import NoteEmitted, QuestionAnswered
from penstock.core.ids import NewId, QuestionId
from penstock.core.limits import Limits
from penstock.core.question import Option, Question, QuestionKind
from penstock.engine.ledger import Ledger, Occurrences
from penstock.engine.suspend import ask
from penstock.tools.policy import Caller
from penstock.tools.spec import ToolSpec

Door = Callable[[Call, Caller, Ledger, "Nest"], Awaitable[Envelope]]


class Nest:
    """The calls made from inside one root call, counted."""

    __slots__ = ("calls", "root")

    def __init__(self, root: ToolSpec | None) -> None:
        self.root = root
        """The direct call at the root, None below a model's call."""
        self.calls = 0


class Invocation:
    """One running call: who asked, what it may do, and how it reaches the rest of the runtime."""

    __slots__ = (
        "_caller",
        "_door",
        "_limits",
        "_nest",
        "_new_id",
        "_seen",
        "attempt",
        "call",
        "caller",
        "deadline",
        "ledger",
        "spec",
    )

    def __init__(
        self, call: Call, spec: ToolSpec, caller: Caller, *, ledger: Ledger, inside: "Inside"
    ) -> None:
        self.call = call
        self.spec = spec
        self.caller = caller
        self.ledger = ledger
        self.attempt = 1
        self.deadline = 0.0
        """On the runtime's monotonic clock."""
        self._door = inside.door
        self._nest = inside.nest
        self._limits = inside.limits
        self._new_id = inside.new_id
        self._seen: Occurrences | None = None
        self._caller: Caller | None = None

    def begin(self, attempt: int, deadline: float) -> None:
        """Count the calls inside from the start: the tool is entered from its top."""
        self.attempt = attempt
        self.deadline = deadline
        self._seen = None

    async def invoke(self, tool_id: str, input: dict[str, Any]) -> Envelope:
        """Call another tool through the same door; a failure is an Envelope too."""
        depth = self.call.depth + 1
        if depth > self._limits.call_depth:
            at_most = self._limits.call_depth
            return DepthExceeded(f"calls are nested more than {at_most} deep").envelope()
        path = self._occurrences().path(tool_id, canonical(input))
        inner = Call(path, tool_id, input, depth)
        return await self._door(inner, self._inner_caller(), self.ledger, self._nest)

    async def ask(self, text: str, *, form: "Form") -> QuestionAnswered:
        """Ask a person, once per question; does not return until there is an answer."""
        shape = {"question": text, "options": [each.value for each in form.options]}
        question = Question(
            question_id=QuestionId(self._new_id("q")),
            kind=QuestionKind.ASK_USER,
            text=text,
            path=self._occurrences().path("ask", canonical(shape)),
            call_id=self.call.call_id,
            tool_id=self.spec.tool_id,
            context=form.context,
            options=form.options,
            schema=form.schema,
        )
        return await ask(self.ledger, question)

    def note(self, note: NoteEmitted) -> None:
        """Write an event of the author's into the log."""
        self.ledger.note(self.call.path, note)
        self.ledger.held.submit()

    @property
    def idempotency_key(self) -> str:
        """The same key for the same call, whatever happens."""
        return self.ledger.idempotency_key(self.call.path)

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody wants the task to end."""
        return self.ledger.task.cancel_requested

    def _occurrences(self) -> Occurrences:
        if self._seen is None:
            self._seen = self.ledger.occurrences(self.call.path)
        return self._seen

    def _inner_caller(self) -> Caller:
        if self._caller is None:
            outer = self.caller
            self._caller = Caller(
                origin=Origin.SCRIPT,
                profile=outer.profile,
                agent=outer.agent,
                selection=outer.selection,
                root=self._nest.root,
                inside=self.spec.tool_id,
                permissions=outer.permissions,
                question_ttl_seconds=outer.question_ttl_seconds,
            )
        return self._caller


class Form:
    """How a question may be answered."""

    __slots__ = ("context", "options", "schema")

    def __init__(
        self,
        *,
        options: tuple[Option, ...] = (),
        schema: dict[str, Any] | None = None,
        context: str | None = None,
    ) -> None:
        self.options = options
        self.schema = schema
        self.context = context


class Inside:
    """What every invocation of one root call shares."""

    __slots__ = ("door", "limits", "nest", "new_id")

    def __init__(self, door: Door, nest: Nest, limits: Limits, new_id: NewId) -> None:
        self.door = door
        self.nest = nest
        self.limits = limits
        self.new_id = new_id
