"""Shell steps: run a command in the project's folder.

Guarantees: a value from a run never becomes shell text. Each template in a command is replaced by
a reference to a variable (`${PS_1}`), and the value goes into the environment of the command. A
shell does not expand the content of a variable as code, so an agent's output cannot inject a
command. A command that was interrupted by a crash runs again only if its step is idempotent.

Relies on authors leaving the variables unevaluated: `eval "$PS_1"` in a command would defeat it.
Tests: tests/flows/steps/test_shell.py.
"""

from collections.abc import Mapping

from penstock.core.call import Call, CallPath
from penstock.core.call_errors import Interrupted, NotPermitted
from penstock.core.events.flow_events import Outcome, StepResult, StepStatus
from penstock.core.limits import MIB
from penstock.engine.ledger import Ledger
from penstock.flows.definition import Shell
from penstock.flows.runs.values import TemplateValues
from penstock.flows.runs.visit_outcome import VisitOutcome, failed
from penstock.manifest.template import Placeholder, parse, shown
from penstock.resources.project.access import OPEN
from penstock.resources.project.files import ProjectFiles
from penstock.sandbox.processes.shell import ShellEnd
from penstock.tools.resources import NO_PROJECT, ProjectFolder
from penstock.tools.shell import ShellRun, check_on, run_in_project
from penstock.tools.threads import Threads

VALUE_BYTES = 100_000
"""Limit for one value passed in a variable, and for the command itself. Linux refuses a single
argument or variable of 128 KiB."""
ALL_BYTES = 1_000_000
"""Limit for all values of one command together."""
STREAM_BYTES = MIB
SHELL = "shell"
OFF_HERE = "shell steps are switched off in this project: set shell = true under [flows]"
Filled = tuple[str, Mapping[str, str]]
"""A command, and the variables that replace its templates."""


class ShellSteps:
    """Runs the commands of shell steps in the project's folder."""

    def __init__(self, folder: ProjectFolder | None, threads: Threads) -> None:
        self._folder = folder
        self._threads = threads

    @property
    def why_off(self) -> str:
        """Reason why commands are not available; empty if they are."""
        if self._folder is None:
            return NO_PROJECT
        return "" if self._folder.shell.is_on else OFF_HERE

    async def run(
        self, step: Shell, frame: CallPath, filled: Filled, *, ledger: Ledger
    ) -> VisitOutcome:
        """Run a command and return its outcome.

        The command is recorded as a call before it starts. After a crash, `ledger.start` raises
        Interrupted unless the step is idempotent: no process can know how far the command came.
        """
        if self._folder is None:
            return failed("shell_off", self.why_off, is_hard=True)
        if fault := _fault(filled):
            return failed("shell_value", fault)
        text, variables = filled
        run = ShellRun(
            text=text,
            seconds=step.timeout,
            most_bytes=STREAM_BYTES,
            task=ledger.task.task_id,
            environment={
                **variables,
                "PENSTOCK_RUN_ID": ledger.task.task_id,
                "PENSTOCK_STEP_ID": step.step_id,
            },
        )
        call = Call(CallPath(f"{frame}/{SHELL}"), SHELL, {"command": text})
        try:
            check_on(self._folder.shell)
            await ledger.start(call, again=step.is_idempotent)
            end = await run_in_project(run, self._files(), self._folder.shell, self._threads)
        except Interrupted as error:
            return failed("interrupted", str(error))
        except NotPermitted as error:
            return failed("shell_off", str(error), is_hard=True)
        except (OSError, ValueError) as error:
            return failed("shell_exit", f"the command did not start: {error}")
        return _ended(step, end)

    def _files(self) -> ProjectFiles:
        assert self._folder is not None  # noqa: S101  `run` returned before otherwise
        return self._folder.files(OPEN)


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
            return f"{label} has a character that no command can have"
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
        outputs={"exitCode": end.code, "stderr": end.stderr},
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
