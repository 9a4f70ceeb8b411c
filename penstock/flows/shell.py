"""Shell steps: a command of the system, whose values never become shell text (section 7.8)."""

from collections.abc import Mapping
from dataclasses import replace

from penstock.core.call import Call, CallPath
from penstock.core.call_errors import Interrupted, NotPermitted
from penstock.core.limits import MIB
from penstock.core.step import Outcome, StepResult, StepStatus
from penstock.engine.ledger import Ledger
from penstock.flows.definition import Shell
from penstock.flows.session import Ended, failed
from penstock.flows.values import Values
from penstock.manifest.template import Ref, parse, shown
from penstock.resources.project_access import OPEN
from penstock.resources.project_files import ProjectFiles
from penstock.sandbox.processes.shell import ShellEnd
from penstock.tools.resources import ProjectFolder
from penstock.tools.shell import ShellRun, check_on, run_in_project
from penstock.tools.threads import Threads

VALUE_BYTES = 100_000
"""Of one value that goes into a variable of the command."""
STREAM_BYTES = MIB
SHELL = "shell"


class ShellSteps:
    """Runs commands of flows in the project's folder."""

    def __init__(self, folder: ProjectFolder | None, threads: Threads) -> None:
        self._folder = folder
        self._threads = threads

    async def run(self, step: Shell, frame: CallPath, values: Values, *, ledger: Ledger) -> Ended:
        """Return how the command ended; a crash in it is not repaired, unless it may run again."""
        if self._folder is None:
            return failed("shell_off", "there is no project folder here", is_hard=True)
        text, variables = with_variables(step.command, values)
        large = [name for name, each in variables.items() if len(each.encode()) > VALUE_BYTES]
        if large:
            said = f"the value of ${{{large[0]}}} has more than {VALUE_BYTES} bytes"
            return failed("shell_value", said)
        run = ShellRun(
            text=text,
            seconds=step.timeout,
            most_bytes=STREAM_BYTES,
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
        return _ended(step, end)

    def _files(self) -> ProjectFiles:
        assert self._folder is not None  # noqa: S101  looked at before
        return ProjectFiles(self._folder.root, replace(OPEN, private=self._folder.private))


def with_variables(command: str, values: Values) -> tuple[str, Mapping[str, str]]:
    """Return a command with a variable in place of each template, and the variables."""
    variables: dict[str, str] = {}
    parts: list[str] = []
    for piece in parse(command).pieces:
        if isinstance(piece, Ref):
            name = f"PS_{len(variables) + 1}"
            variables[name] = shown(values.read(piece))
            parts.append(f"${{{name}}}")
        else:
            parts.append(piece if isinstance(piece, str) else piece.text)
    return "".join(parts), variables


def _ended(step: Shell, end: ShellEnd) -> Ended:
    summary = _summary(step, end)
    is_good = end.code == 0 and not end.is_late
    result = StepResult(
        status=StepStatus.COMPLETE if is_good else StepStatus.ERROR,
        summary=summary,
        full_output=end.stdout,
        outputs={"exitCode": end.code, "stderr": end.stderr},
    )
    if is_good:
        return Ended(outcome=Outcome.SUCCESS, result=result)
    source = "shell_timeout" if end.is_late else "shell_exit"
    return Ended(outcome=Outcome.SOFT, result=result, source=source, text=summary)


def _summary(step: Shell, end: ShellEnd) -> str:
    if end.is_late:
        return f"timed out after {step.timeout} s"
    return f"exit code {end.code}" if end.code >= 0 else f"killed by signal {-end.code}"
