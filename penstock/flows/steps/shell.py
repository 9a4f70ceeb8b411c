"""Shell steps: a command of the system, whose values never become shell text."""

from collections.abc import Mapping

from penstock.core.call import Call, CallPath
from penstock.core.call_errors import Interrupted, NotPermitted
from penstock.core.events.step import Outcome, StepResult, StepStatus
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
"""Of one value that goes into a variable of the command, and of the command itself."""
ALL_BYTES = 1_000_000
"""Of all values of one command."""
STREAM_BYTES = MIB
SHELL = "shell"
OFF_HERE = "shell steps are switched off in this project: set shell = true under [flows]"
Filled = tuple[str, Mapping[str, str]]
"""A command, and the variables in place of its templates."""


class ShellSteps:
    """Runs commands of flows in the project's folder."""

    def __init__(self, folder: ProjectFolder | None, threads: Threads) -> None:
        self._folder = folder
        self._threads = threads

    @property
    def why_off(self) -> str:
        """Why no command runs here; nothing if commands do."""
        if self._folder is None:
            return NO_PROJECT
        return "" if self._folder.shell.is_on else OFF_HERE

    async def run(
        self, step: Shell, frame: CallPath, filled: Filled, *, ledger: Ledger
    ) -> VisitOutcome:
        """Return how the command ended; a crash in it is not repaired, unless it may run again."""
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
        assert self._folder is not None  # noqa: S101  looked at before
        return self._folder.files(OPEN)


def with_variables(command: str, values: TemplateValues) -> Filled:
    """Return a command with a variable in place of each template, and the variables."""
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
    """Return why a command cannot have these values; nothing if it can."""
    text, variables = filled
    named = {f"the value of ${{{name}}}": each for name, each in variables.items()}
    for what, each in {**named, "the command": text}.items():
        if "\0" in each or _is_no_text(each):
            return f"{what} has a character that no command can have"
        if len(each.encode()) > VALUE_BYTES:
            return f"{what} has more than {VALUE_BYTES:,} bytes"
    if sum(len(each.encode()) for each in variables.values()) > ALL_BYTES:
        return f"the values of the command have more than {ALL_BYTES:,} bytes in all"
    return ""


def _is_no_text(text: str) -> bool:
    """Whether a text has halves of characters, which JSON may say and UTF-8 may not."""
    return any("\ud800" <= each <= "\udfff" for each in text)


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
