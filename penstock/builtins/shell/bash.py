"""`bash`: a shell command in the project's folder. It is off unless the operator allows it."""

from typing import Any

from msgspec.structs import replace

from penstock.builtins.shell.deny import check_denied
from penstock.builtins.shell.parts import parts
from penstock.core.call import Effect
from penstock.core.call_errors import ToolTimeout
from penstock.core.envelope import Json
from penstock.core.json_values.schema import Problem
from penstock.resources.project.files import ProjectFiles
from penstock.tools.builtin import builtin, whole
from penstock.tools.faults import invalid
from penstock.tools.invocation import Invocation
from penstock.tools.shell import ShellRun, ShellSettings, check_on, run_in_project

SECONDS, MOST_SECONDS = 120, 600
MOST_BYTES = 50 * 1024
_MARGIN_MS = 30_000
"""Part of the tool's timeout: to end the command and remove its sandbox."""
_SIGNALLED = 128
_LAST_WORDS = 600
_COMMAND: Json = {"type": "string", "minLength": 1, "maxLength": 100_000}


@builtin(
    "Run a shell command (sh -c) in the project's folder. Each stream of its output is kept up to "
    "50 KB, the first and the last half. An exit code that is not 0 is no failure of the call. "
    "Files are changed when the command has ended; `refused` lists changes that were dropped.",
    {"command": _COMMAND, "timeout?": whole(1, MOST_SECONDS, "Seconds; 120 if it is left out")},
    effect=Effect.WRITE,
    stays_inside=False,
)
async def bash(input: Json, invocation: Invocation) -> Any:
    """Return the exit code and output of a command."""
    settings, files = invocation.project_folder.shell, invocation.project
    _look(input, files, settings)
    command = input["command"]
    seconds = input.get("timeout", SECONDS)
    task = invocation.ledger.task.task_id
    run = ShellRun(text=command, seconds=seconds, most_bytes=MOST_BYTES, task=task)
    end = await run_in_project(run, files, settings, invocation.inside.threads)
    if end.is_late:
        raise ToolTimeout(
            f"the command was stopped after {seconds} s",
            suggestion="give a longer timeout, or do less at once",
            details={
                "stdout": end.stdout[-_LAST_WORDS:],
                "stderr": end.stderr[-_LAST_WORDS:],
                **({"refused": [*end.refusals]} if end.refusals else {}),
            },
        )
    return {
        "exitCode": end.code if end.code >= 0 else _SIGNALLED - end.code,
        "stdout": end.stdout,
        "stderr": end.stderr,
        "truncated": end.is_truncated,
        **({"refused": [*end.refusals]} if end.refusals else {}),
    }


def _look(input: Json, files: ProjectFiles, settings: ShellSettings) -> None:
    check_on(settings)
    command, access = input["command"], files.access
    _check_text(command)
    commands = parts(command)
    check_denied(access.deny, command, commands)
    if access.write is not None:
        for target in (target for part in commands for target in part.targets):
            files.seems_writable(target)


def _check_text(command: str) -> None:
    if "\0" in command or any("\ud800" <= char <= "\udfff" for char in command):
        problem = Problem("/command", "is text that a shell can read, without zero bytes")
        raise invalid("bash", [problem])


TOOLS = (
    replace(
        bash,
        spec=replace(
            bash.spec,
            is_offered=True,
            exclusive="bash",
            look=_look,
            asks_in_chats=True,
            requires_permissions=frozenset({"project.bash"}),
            timeout_ms=MOST_SECONDS * 1000 + _MARGIN_MS,
        ),
    ),
)
