"""The kinds `code` and `code-decision`: run a TypeScript module in the sandbox."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, ClassVar

from msgspec import Struct

from penstock.core.call import CallPath
from penstock.core.diagnostics import Diagnostic
from penstock.core.events.flow_events import Outcome, Output
from penstock.core.late import late
from penstock.core.profile import Profile
from penstock.engine.ledger import Ledger
from penstock.flows.checks.context import WRITTEN, FlowView, module_of, stems
from penstock.flows.definition import Step
from penstock.flows.parsed_flow import ParsedStep
from penstock.flows.runs.visits import VisitOutcome, failed
from penstock.flows.steps.kind import (
    AFTERWARDS,
    BRANCHES,
    INPUTS,
    MAX_ITERATIONS,
    ON_ERROR,
    OUTPUTS,
    RETRY,
    TEXT,
    CodeEnvironment,
    InvokerWith,
    Sample,
    StepContext,
    StepKind,
    StepTools,
    VisitResult,
    needed,
    step_field,
)
from penstock.manifest.authored_kinds import AuthoredInteger, Names

CODE_MS = 60_000
NO_SANDBOX = (
    "code steps run in the sandbox of a project folder: open one with penstock.open(directory)"
)


class Code(Step, frozen=True, kw_only=True):
    """Runs a TypeScript module in the sandbox."""

    kind: ClassVar[str] = "code"
    runs_module: ClassVar[bool] = True

    timeout: int = CODE_MS
    """Milliseconds."""
    tools: tuple[str, ...] = ()
    egress: tuple[str, ...] = ()


class CodeDecision(Code, frozen=True, kw_only=True):
    """Runs a TypeScript module in the sandbox that chooses one branch."""

    kind: ClassVar[str] = "code-decision"
    is_router: ClassVar[bool] = True
    has_branches: ClassVar[bool] = True

    branches: Mapping[str, str]


class CodeVisit(Struct, frozen=True, kw_only=True):
    """One visit of a code step."""

    step: Code
    inputs: Mapping[str, Any]
    """Wired inputs, typed."""
    task: str
    """Task of the run."""
    frame: CallPath
    profile: Profile
    is_autonomous: bool = False


Enter = Callable[[CodeVisit, Ledger, CodeEnvironment, InvokerWith], Awaitable[VisitOutcome]]


def type_of(output: Output) -> str | None:
    """Return the JSON type of an output, or None for any."""
    if output.pattern is not None:
        return "string"
    return None if output.value_type is None else output.value_type.value


async def _visit(step: Code, context: StepContext, tools: StepTools) -> VisitResult:
    values = context.run.values()
    inputs = {name: values.value(text) for name, text in step.inputs.items()}
    context.warn_of_missing(values, step.step_id)
    if tools.code_environment is None:
        return VisitResult(ended=failed("code_node", NO_SANDBOX))
    visit = CodeVisit(
        step=step,
        inputs=inputs,
        task=context.run.task,
        frame=context.frame,
        profile=context.profile,
        is_autonomous=context.is_autonomous,
    )
    # Late: the sandbox costs memory that a server whose flows have no code should not pay.
    enter: Enter = late("penstock.flows.code_visit:enter")
    ended = await enter(visit, context.ledger, tools.code_environment, tools.invoker_with)
    if not step.has_branches or ended.outcome is not Outcome.SUCCESS:
        return VisitResult(ended=ended)
    target = step.branches[str(ended.result.branch)]
    return VisitResult(ended=ended, route=context.run.loops.route(step, [target]))


def _simulate(step: Code, context: StepContext, sample: Sample) -> Mapping[str, Any]:
    values = context.run.values()
    for text in step.inputs.values():
        values.value(text)
    context.warn_of_missing(values, step.step_id)
    return sample(step.outputs)


def _check(step: Code, parsed: ParsedStep, view: FlowView) -> Iterator[Diagnostic]:
    """Yield a missing or a broken module."""
    check_context = view.check_context
    if not check_context.file or not parsed.is_named:
        return
    place = parsed.node.at("target").key_place if step.target is not None else None
    path = module_of(step, check_context)
    if path is None:
        inside = stems(step, check_context)
        expected = next(iter(inside), step.target)
        suffix = f".{WRITTEN}" if step.target is None else ""
        message = f"no handler for {parsed.label}: expected {expected}{suffix}"
        advice = (
            f"penstock flow generate {check_context.command}" if check_context.command else None
        )
        advice = advice if inside else "name a file of the project: this path leaves it"
        yield parsed.warning("handler-missing", message, place, advice)
    elif fault := check_context.code_fault(path):
        message = f"{path}:{fault.line}:{fault.column}: {fault.problem}"
        yield parsed.error("handler-broken", message, place)


_MODULE = (
    step_field("timeout", AuthoredInteger(low=1, high=3_600_000)),
    OUTPUTS,
    step_field("target", TEXT),
    step_field("tools", Names(expected="a list of tool names")),
    step_field("egress", Names(expected="a list of hosts", is_split=False)),
    INPUTS,
)
KIND = StepKind(
    step=Code,
    fields=(*_MODULE, *AFTERWARDS),
    visit=_visit,
    simulate=_simulate,
    check=_check,
)
DECISION_KIND = StepKind(
    step=CodeDecision,
    fields=(MAX_ITERATIONS, needed(BRANCHES), *_MODULE, ON_ERROR, RETRY),
    visit=_visit,
    simulate=_simulate,
    check=_check,
)
