"""The kind `shell`: runs a command in the project's folder.

Guarantees: a value from a run never becomes shell text. Each template in a command is replaced by
a reference to a variable (`${PS_1}`), and the value goes into the environment of the command. A
shell does not expand the content of a variable as code, so an agent's output cannot inject a
command. A command that was interrupted by a crash runs again only if its step is idempotent.

Relies on authors leaving the variables unevaluated: `eval "$PS_1"` in a command would defeat it.
Tests: tests/flows/steps/test_shell.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from msgspec import field

from penstock.core.call import Call, CallPath
from penstock.core.call_errors import Interrupted, NotPermitted
from penstock.core.diagnostics import Diagnostic
from penstock.core.events.flow_events import (
    STANDARD_FIELDS,
    Outcome,
    Output,
    StepResult,
    StepStatus,
)
from penstock.core.limits import MIB
from penstock.flows.checks.context import FlowView
from penstock.flows.definition import Step
from penstock.flows.parsed_flow import ParsedStep
from penstock.flows.runs.values import TemplateValues
from penstock.flows.runs.visits import VisitOutcome, failed
from penstock.flows.steps.kind import (
    AFTERWARDS,
    CONFIG,
    FLAG,
    TEXT,
    Sample,
    StepContext,
    StepKind,
    StepTools,
    VisitResult,
    needed,
    step_field,
)
from penstock.manifest.authored_kinds import AuthoredInteger
from penstock.manifest.template import Placeholder, parse, shown
from penstock.resources.project.access import OPEN
from penstock.sandbox.processes.shell import ShellEnd
from penstock.tools.resources import NO_PROJECT, ProjectFolder
from penstock.tools.shell import ShellRun, check_on, run_in_project

SHELL_SECONDS = 1800
VALUE_BYTES = 100_000
"""Limit for one value passed in a variable, and for the command itself. Linux refuses a single
argument or variable of 128 KiB."""
ALL_BYTES = 1_000_000
"""Limit for all values of one command together."""
STREAM_BYTES = MIB
SHELL = "shell"
COMMAND = "command"
EXIT_CODE, STDERR = "exitCode", "stderr"
"""Fields of the result, in addition to the standard ones."""
OFF_HERE = "shell steps are switched off in this project: set shell = true under [flows]"
Filled = tuple[str, Mapping[str, str]]
"""A command, and the variables that replace its templates."""


class Shell(Step, frozen=True, kw_only=True):
    """Runs a command of the operating system."""

    kind: ClassVar[str] = "shell"
    expands: ClassVar[tuple[str, ...]] = (COMMAND,)
    is_shell_text: ClassVar[bool] = True

    command: str
    timeout: int = SHELL_SECONDS
    """Seconds."""
    config: Mapping[str, Any] = field(default_factory=dict)
    is_idempotent: bool = False

    def result_fields(self, of_agent: Sequence[str] | None) -> Sequence[str] | None:
        """Return the standard fields and those of the ended command."""
        del of_agent
        return (*STANDARD_FIELDS, EXIT_CODE, STDERR)


async def _visit(step: Shell, context: StepContext, tools: StepTools) -> VisitResult:
    values = context.run.values(step.config)
    filled = with_variables(step.command, values)
    context.warn_of_missing(values, step.step_id)
    return VisitResult(ended=await run_command(step, filled, context, tools))


def why_off(folder: ProjectFolder | None) -> str:
    """Return why commands are not available; empty if they are."""
    if folder is None:
        return NO_PROJECT
    return "" if folder.shell.is_on else OFF_HERE


async def run_command(
    step: Shell, filled: Filled, context: StepContext, tools: StepTools
) -> VisitOutcome:
    """Run a command and return its outcome.

    The command is recorded as a call before it starts. After a crash, `ledger.start` raises
    Interrupted unless the step is idempotent: no process can know how far the command came.
    """
    if (folder := tools.project) is None:
        return failed("shell_off", why_off(None), is_hard=True)
    if fault := _fault(filled):
        return failed("shell_value", fault)
    (text, variables), ledger = filled, context.ledger
    run = ShellRun(
        text=text,
        seconds=step.timeout,
        max_bytes=STREAM_BYTES,
        task=ledger.task.task_id,
        environment={
            **variables,
            "PENSTOCK_RUN_ID": ledger.task.task_id,
            "PENSTOCK_STEP_ID": step.step_id,
        },
    )
    call = Call(CallPath(f"{context.frame}/{SHELL}"), SHELL, {COMMAND: text})
    try:
        check_on(folder.shell)
        await ledger.start(call, again=step.is_idempotent)
        end = await run_in_project(run, folder.files(OPEN), folder.shell, tools.invoker.threads)
    except Interrupted as error:
        return failed("interrupted", str(error))
    except NotPermitted as error:
        return failed("shell_off", str(error), is_hard=True)
    except (OSError, ValueError) as error:
        return failed("shell_exit", f"the command did not start: {error}")
    return _ended(step, end)


def with_variables(command: str, values: TemplateValues) -> Filled:
    """Replace each template of a command by a variable. Return the command and the variables."""
    variables: dict[str, str] = {}
    parts: list[str] = []
    for piece in parse(command).pieces:
        if isinstance(piece, Placeholder):
            name = f"PS_{len(variables) + 1}"
            variables[name] = shown(values.read(piece))
            parts.append(f"${{{name}}}")
        else:
            parts.append(piece if isinstance(piece, str) else piece.text)
    return "".join(parts), variables


def _fault(filled: Filled) -> str:
    """Return why the operating system would refuse these values, or an empty text."""
    text, variables = filled
    named = {f"the value of ${{{name}}}": value for name, value in variables.items()}
    for label, value in {**named, "the command": text}.items():
        if "\0" in value or _has_lone_surrogate(value):
            return f"{label} has a character that is not allowed in a command"
        if len(value.encode()) > VALUE_BYTES:
            return f"{label} has more than {VALUE_BYTES:,} bytes"
    if sum(len(value.encode()) for value in variables.values()) > ALL_BYTES:
        return f"the values of the command have more than {ALL_BYTES:,} bytes in all"
    return ""


def _has_lone_surrogate(text: str) -> bool:
    """Whether a text has half of a surrogate pair: valid in JSON, not encodable as UTF-8."""
    return any("\ud800" <= character <= "\udfff" for character in text)


def _ended(step: Shell, end: ShellEnd) -> VisitOutcome:
    summary = _summary(step, end)
    is_good = end.code == 0 and not end.is_late and not end.refusals
    result = StepResult(
        status=StepStatus.COMPLETE if is_good else StepStatus.ERROR,
        summary=summary,
        full_output=end.stdout,
        outputs={EXIT_CODE: end.code, STDERR: end.stderr},
    )
    if is_good:
        return VisitOutcome(outcome=Outcome.SUCCESS, result=result)
    source = "shell_timeout" if end.is_late else "shell_exit"
    return VisitOutcome(outcome=Outcome.SOFT, result=result, source=source, text=summary)


def _summary(step: Shell, end: ShellEnd) -> str:
    if end.is_late:
        return f"timed out after {step.timeout} s"
    if end.refusals:
        return f"changes were refused: {' '.join(end.refusals)}"
    return f"exit code {end.code}" if end.code >= 0 else f"killed by signal {-end.code}"


def _simulate(step: Shell, context: StepContext, sample: Sample) -> Mapping[str, Any]:
    values = context.run.values(step.config)
    values.text(step.command)
    context.warn_of_missing(values, step.step_id)
    return sample([Output(name=STDERR)]) | {EXIT_CODE: 0}


def _check(step: Shell, parsed: ParsedStep, view: FlowView) -> Iterator[Diagnostic]:
    """Yield a switched-off shell once for each flow, and commands whose failure ends the flow."""
    first = next(each for each in view.steps if each.step.kind == step.kind)
    if first is parsed and not view.check_context.has_shell:
        message = "shell steps are switched off in this project"
        advice = "set shell = true under [flows] in penstock.toml"
        yield parsed.warning("shell-off", message, suggestion=advice)
    if step.on_error is None:
        message = f"shell {parsed.label} has no on_error: a failing command ends the flow"
        yield parsed.warning("shell-without-on-error", message)


KIND = StepKind(
    step=Shell,
    fields=(
        needed(step_field(COMMAND, TEXT)),
        step_field("timeout", AuthoredInteger(low=1, high=86_400)),
        step_field("config", CONFIG),
        step_field("idempotent", FLAG, "is_idempotent"),
        *AFTERWARDS,
    ),
    visit=_visit,
    simulate=_simulate,
    check=_check,
    implied_by=COMMAND,
)
