"""Shell commands in a project: whether they run at all, and what is around them."""

from collections.abc import Mapping
from functools import partial

from msgspec import Struct, field

from penstock.core.call_errors import NotPermitted
from penstock.resources.project.fence import Fence, fence
from penstock.resources.project.files import ProjectFiles
from penstock.sandbox.processes.shell import (
    GRACE_SECONDS,
    Enclosure,
    ShellCommand,
    ShellEnd,
    run_shell,
)
from penstock.tools.threads import Threads


class ShellSettings(Struct, frozen=True, kw_only=True):
    """What the operator chose."""

    is_on: bool = False
    has_network: bool = False
    is_enclosed: bool = True


OFF = ShellSettings()


class ShellRun(Struct, frozen=True, kw_only=True):
    """One command, its time, and how much of its output is kept."""

    text: str
    seconds: float
    most_bytes: int
    """Of each stream: the first and the last half."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Besides PATH, LANG and HOME."""
    grace_seconds: float = GRACE_SECONDS
    """Between SIGTERM and SIGKILL when the time is over."""


def check_on(settings: ShellSettings) -> None:
    """Raise NotPermitted unless commands run in this project."""
    if not settings.is_on:
        raise NotPermitted("bash is switched off in this project (set shell = true under [flows]).")


async def run_in_project(
    run: ShellRun, files: ProjectFiles, settings: ShellSettings, threads: Threads
) -> ShellEnd:
    """Run a command in the project's folder. Raises NotPermitted where it cannot be enclosed."""
    enclosure = None
    if settings.is_enclosed:
        around: Fence = await threads.run(partial(fence, files))
        enclosure = Enclosure(
            hidden=around.hidden,
            kept=around.kept,
            writable=around.writable,
            network=settings.has_network,
        )
    end = await run_shell(
        ShellCommand(
            text=run.text,
            folder=files.root,
            enclosure=enclosure,
            seconds=run.seconds,
            most_bytes=run.most_bytes,
            environment=run.environment,
            grace_seconds=run.grace_seconds,
        )
    )
    if end.refused:
        raise NotPermitted(
            f"the system does not confine commands here ({end.refused}), so none runs; "
            'shell_sandbox = "off" under [flows] runs them without'
        )
    return end
