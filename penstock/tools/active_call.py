"""One call on its way through the door."""

from penstock.core.call import Call, Origin
from penstock.core.call_errors import CallError
from penstock.core.changes import Change
from penstock.core.clock import Clock
from penstock.core.envelope import Envelope
from penstock.core.events import StoredFile
from penstock.engine.ledger import Ledger
from penstock.tools.artifacts import ANY_FORM, OutputForm
from penstock.tools.faults import without_output
from penstock.tools.invocation import Invocation, NestedCalls
from penstock.tools.policy import Caller
from penstock.tools.spec import ToolSpec
from penstock.tools.tool import Tool


class ActiveCall:
    """One call on its way through the door."""

    __slots__ = (
        "began",
        "call",
        "caller",
        "invocation",
        "is_hidden",
        "ledger",
        "nest",
        "refusal",
        "tool",
        "trace",
    )

    def __init__(self, call: Call, caller: Caller, ledger: Ledger) -> None:
        self.call = call
        self.caller = caller
        self.ledger = ledger
        self.tool: Tool | None = None
        """The tool, once it is known that the caller may know of it."""
        self.refusal: CallError | None = None
        """Why the caller may not call it."""
        self.is_hidden = False
        """A rule keeps the tool from this caller, whatever the input."""
        self.trace: str | None = None
        """Where the tool's own error was raised."""
        self.nest: NestedCalls | None = None
        """Set once the call is reserved."""
        self.began: float | None = None
        self.invocation: Invocation | None = None
        """The newest entry."""

    @property
    def root(self) -> ToolSpec | None:
        """The tool, when it is a direct call at the root."""
        if self.tool is None or self.caller.origin is not Origin.DIRECT:
            return None
        return self.tool.spec

    @property
    def form(self) -> OutputForm:
        """What the tool says of its outputs, once it is known."""
        tool = self.tool
        return ANY_FORM if tool is None else OutputForm(tool.preview, tool.spec.output_schema)

    @property
    def is_cut(self) -> bool:
        """Whether who waits was cancelled while the tool ran, whatever that made of it."""
        invocation = self.invocation
        return invocation is not None and invocation.is_unwanted and invocation.is_cut

    @property
    def files(self) -> list[StoredFile]:
        """Return what the tool kept beside its output."""
        return self.invocation.files if self.invocation else []

    @property
    def change(self) -> Change | None:
        """Return what the outcome changes in the runtime's stores."""
        return self.invocation.change if self.invocation else None

    def failed(self, error: CallError) -> Envelope:
        """Keep why the call failed; returns what its caller reads."""
        self.trace = error.trace
        return (error if self.tool is None else without_output(error, self.tool.spec)).envelope()

    def give_back(self) -> None:
        """Return the reservation: the log has the call now, or it waits."""
        if self.nest is not None:
            self.ledger.budget.settle_call()

    def duration_ms(self, clock: Clock) -> int:
        """Return how long the tool ran, without the time it waited for people."""
        if self.began is None:
            return 0
        ran = round(1000 * (clock.monotonic() - self.began))
        if self.ledger.task.parked and self.invocation is not None:
            ran += self.ledger.active_ms(self.call.path, self.invocation.attempt)
        return ran
