"""The parts of a kind of step. Each kind is one file of this package, and a row in `table.py`.

The class of a kind (a subclass of `Step`) says how it plans, draws and describes itself. The row
(a StepKind) adds what needs more than the step: how its fields are parsed, how it is checked, and
how a visit is carried out, for real or in a dry run. A visit receives a StepContext and StepTools,
and returns a VisitResult.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.call import CallPath
from penstock.core.diagnostics import Diagnostic
from penstock.core.events.flow_events import Output, StepSettled
from penstock.core.limits import World
from penstock.core.profile import Profile
from penstock.engine.ledger import Ledger
from penstock.flows.agents.agent_runner import AgentRunner
from penstock.flows.checks.context import FlowView
from penstock.flows.definition import Step, StepRetry
from penstock.flows.parsed_flow import ParsedStep, StepNode
from penstock.flows.runs.run import Run
from penstock.flows.runs.values import RouteTaken, TemplateValues
from penstock.flows.runs.visits import VisitOutcome, warn
from penstock.manifest.authored_kinds import AuthoredInteger, Names, Outputs, part, warn_unknown
from penstock.manifest.fields import Invalid, Kind, Node
from penstock.manifest.kinds import Boolean, Text
from penstock.sandbox.compiler.script_files import Files
from penstock.sandbox.script import LoadResult, Sandbox
from penstock.tools.invoker import Invoker
from penstock.tools.resources import ProjectFolder
from penstock.tools.scripts.bindings import Bindings
from penstock.tools.tool import Tool

TRIES, SECONDS = (1, 10), (0, 3600)
NO_ROUTE = RouteTaken(())
NO_BINDINGS = Bindings()
InvokerWith = Callable[[Tool], Invoker]
"""Returns an invoker for all tools of the project and the passed one."""
LoadModule = Callable[[str, Files], LoadResult]
"""Compiles a module to a script, or returns its problems. `Files` are the files beside it."""


class MappingOf(Struct, frozen=True, kw_only=True):
    """A mapping of names to values. Names are text as written."""

    expected: str
    fits: Callable[[Any], bool]
    item_expected: str

    def read(self, node: Node) -> dict[str, Any] | Invalid:
        """Return the valid values. A missing value is an empty mapping."""
        if node.value is None:
            return {}
        if not isinstance(node.value, dict):
            return node.wrong_type(self.expected)
        for name, value in node.value.items():
            if not self.fits(value):
                node.at(name).wrong_type(self.item_expected)
        return {name: value for name, value in node.value.items() if self.fits(value)}


class LenientBoolean(Struct, frozen=True, kw_only=True):
    """A boolean, also as text."""

    expected: str = "true or false"

    def read(self, node: Node) -> bool | Invalid:
        """Return the value."""
        if isinstance(node.value, str) and node.value.lower() in {"true", "false"}:
            return node.value.lower() == "true"
        return Boolean().read(node)


class RetryKind(Struct, frozen=True, kw_only=True):
    """Retries: `true`, or the number of attempts and the delay."""

    expected: str = "true or {attempts, delay}"

    def read(self, node: Node) -> StepRetry | Invalid:
        """Return the retry policy."""
        if node.value is True:
            return StepRetry()
        if not isinstance(node.value, dict):
            return node.bad_value(self.expected) if node.value is False else self._other(node)
        warn_unknown(node, ("attempts", "delay"), "retry")
        tries = StepRetry()
        attempts = part(
            node, "attempts", AuthoredInteger(low=TRIES[0], high=TRIES[1]), tries.attempts
        )
        delay = part(node, "delay", AuthoredInteger(low=SECONDS[0], high=SECONDS[1]), tries.delay)
        return StepRetry(attempts, delay)

    def _other(self, node: Node) -> Invalid:
        return node.wrong_type(self.expected)


class IgnoredValue(Struct, frozen=True, kw_only=True):
    """A value without effect."""

    expected: str = "anything"

    def read(self, node: Node) -> Any:
        """Return the value."""
        return node.value


def is_text(value: Any) -> bool:
    """Whether a value is a text."""
    return isinstance(value, str)


def is_plain(value: Any) -> bool:
    """Whether a value is a text, a number or a boolean."""
    return isinstance(value, str | int | float)


TEXTS = MappingOf(expected="a mapping of texts", fits=is_text, item_expected="text")
TARGETS = MappingOf(expected="a mapping of step ids", fits=is_text, item_expected="a step id")
CONFIG = MappingOf(
    expected="a mapping of texts, numbers and booleans",
    fits=is_plain,
    item_expected="text, a number or a boolean",
)
MAX_LOOP_ITERATIONS = 1000
TEXT = Text(expected="text")
STEP_ID = Text(expected="a step id")
AGENT_NAME = Text(expected="an agent name")
FLAG = Boolean()
COMMON = ("id", "type")
"""Fields of every step; they are read first."""


class StepField(Struct, frozen=True, kw_only=True):
    """A field that steps of a kind may have."""

    key: str
    attribute: str
    """Attribute of the step; empty for a field without effect."""
    value: Kind
    is_needed: bool = False
    new_name: str = ""
    """The current name, if this key is an old one."""


def step_field(key: str, value: Kind, attribute: str | None = None) -> StepField:
    """Return a field. The attribute has the name of the key unless it is given."""
    return StepField(key=key, value=value, attribute=key if attribute is None else attribute)


def needed(field: StepField) -> StepField:
    """Return the field as one that steps must have."""
    return replace(field, is_needed=True)


BLOCKED_BY = step_field(
    "blockedBy", Names(expected="a list of step ids", item_expected="a step id"), "blocked_by"
)
AGENT = step_field("agent", AGENT_NAME)
TASK = step_field("task", TEXT)
MODEL = step_field("model", Text(expected="a model name"))
MAX_ITERATIONS = step_field("max_iterations", AuthoredInteger(low=1, high=MAX_LOOP_ITERATIONS))
BRANCHES = step_field("branches", TARGETS)
OUTPUTS = step_field("outputs", Outputs())
INPUTS = step_field("inputs", TEXTS)
ON_COMPLETE = step_field("on_complete", STEP_ID)
ON_ERROR = step_field("on_error", STEP_ID)
END = step_field("end", FLAG, "is_last")
RETRY = step_field("retry", RetryKind())
AFTERWARDS = (ON_COMPLETE, ON_ERROR, END, RETRY)
"""Fields of steps that work and do not decide: where control goes, and how often to try."""


class CodeEnvironment(Struct, frozen=True, kw_only=True):
    """The environment of code steps."""

    sandbox: Sandbox
    load: LoadModule
    usual: Bindings = NO_BINDINGS
    """Bindings of every script of the project."""


class StepTools(Struct, frozen=True, kw_only=True):
    """The parts of a runtime that visits of steps use."""

    agent_runner: AgentRunner
    invoker: Invoker
    world: World
    invoker_with: InvokerWith
    code_environment: CodeEnvironment | None = None
    """None: no project folder, so modules cannot run."""
    project: ProjectFolder | None = None
    """None: no project folder, so commands cannot run."""


class VisitResult(Struct, frozen=True, kw_only=True):
    """Outcome of a visit, with the route and the details of a fork."""

    ended: VisitOutcome
    route: RouteTaken = NO_ROUTE
    answer: str | None = None
    """The answer at a fork."""
    notes: str = ""
    decided_by: str = ""
    """The agent that decided a fork; empty if a person did."""
    question: str = ""
    """The expanded question of a fork."""
    is_left_to_agent: bool = False
    """The fork's agent decided alone: the run is autonomous, or a person chose to leave it."""

    def event(self, step_id: str, visit: int) -> StepSettled:
        """Return the event that records this visit."""
        ended = self.ended
        return StepSettled(
            step_id=step_id,
            visit=visit,
            outcome=ended.outcome,
            result=ended.result,
            source=ended.source,
            text=ended.text,
            targets=self.route.targets,
            answer=self.answer,
            notes=self.notes,
            decided_by=self.decided_by,
            question=self.question,
        )


class StepContext(Struct, frozen=True, kw_only=True):
    """The frame of a visit, its run, and the profile that it acts for."""

    run: Run
    frame: CallPath
    visit: int
    ledger: Ledger
    profile: Profile
    is_autonomous: bool

    def warn(self, message: str, **body: Any) -> None:
        """Add a warning to the log and to the result of the run. The run continues."""
        warn(self.ledger, self.frame, message, **body)

    def warn_of_missing(self, values: TemplateValues, step_id: str) -> None:
        """Warn of each placeholder that named nothing."""
        for reference in values.take_missing():
            self.warn(f"{reference} names nothing", stepId=step_id, reference=reference)


Visit = Callable[[Any, StepContext, StepTools], Awaitable[VisitResult]]
"""Carries out a visit of a step to its end. Raises Suspend if it waits for a person, Cancel if the
cancellation of the run was requested."""
Check = Callable[[Any, ParsedStep, FlowView], Iterator[Diagnostic]]
"""Yields the findings that only this kind has."""
Sample = Callable[[Iterable[Output]], dict[str, Any]]
"""Returns a sample value for each output."""
Simulate = Callable[[Any, StepContext, Sample], Mapping[str, Any]]
"""Expands the templates of a step as a visit would, and returns sample outputs."""
Complete = Callable[[StepNode, dict[str, Any]], None]
"""Adds to the attributes of a step those that follow from others."""


def no_findings(step: Step, parsed: ParsedStep, view: FlowView) -> Iterator[Diagnostic]:
    """Yield nothing."""
    del step, parsed, view
    yield from ()


def nothing_to_add(node: StepNode, values: dict[str, Any]) -> None:
    """Leave the attributes as they are."""
    del node, values


class StepKind(Struct, frozen=True, kw_only=True):
    """A kind of step."""

    step: type[Step]
    fields: Sequence[StepField]
    """In the order in which missing fields are reported, after those of every step."""
    visit: Visit
    simulate: Simulate | None = None
    """None: in a dry run, agents with a script carry out the visit."""
    check: Check = no_findings
    complete: Complete = nothing_to_add
    implied_by: str = ""
    """The field that implies this kind where `type` is missing."""
    unless: str = ""
    """A field that prevents that."""
