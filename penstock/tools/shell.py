"""Shell commands in a project: whether they run, and how they are confined.

Unless the operator switched it off, a command runs in an enclosure that hides what the agent may
not read. Its changes are collected apart and applied after its end, so a refused change never
reaches the project. A command that cannot be confined does not run.
Proof: `tests/tools/test_shell.py`.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.core.call_errors import NotPermitted
from penstock.resources.project.fence import Fence, fence
from penstock.resources.project.files import ProjectFiles
from penstock.resources.project.overlay import Refused, take_changes
from penstock.resources.threads import Threads
from penstock.sandbox.processes.process_slots import ProcessSlots
from penstock.sandbox.processes.shell import (
    GRACE_SECONDS,
    Enclosure,
    Leftovers,
    ShellCommand,
    ShellEnd,
    run_shell,
)

_MAX_REFUSALS = 20
"""Maximum number of refused changes that are reported one by one."""


class ShellSettings(Struct, frozen=True, kw_only=True):
    """The operator's settings for commands."""

    is_on: bool = False
    has_network: bool = False
    is_enclosed: bool = True
    slots: ProcessSlots | None = None
    """Bounds the commands that run at once; None means no bound."""
    processes: int = 1024
    """Most processes of one command, threads included."""
    memory_mb: int = 4096
    """Most memory of one command, in megabytes."""
    leftovers: Leftovers = field(default_factory=Leftovers)
    """Removes what killed commands left, before the first command."""


OFF = ShellSettings()


class ShellRun(Struct, frozen=True, kw_only=True):
    """One command, its time limit, and how much of its output is kept."""

    text: str
    seconds: float
    max_bytes: int
    """Most bytes that are kept of each stream: the first and the last half of them."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables in addition to PATH, LANG and HOME."""
    task: str = ""
    """The task. Waiting commands of different tasks take turns."""
    grace_seconds: float = GRACE_SECONDS
    """Seconds between SIGTERM and SIGKILL when the time is up."""


def check_on(settings: ShellSettings) -> None:
    """Raise NotPermitted unless commands run in this project."""
    if not settings.is_on:
        raise NotPermitted("bash is switched off in this project (set shell = true under [flows]).")


async def run_in_project(
    run: ShellRun, files: ProjectFiles, settings: ShellSettings, threads: Threads
) -> ShellEnd:
    """Run a command in the project's folder. Raises NotPermitted if it cannot be enclosed.

    The project takes over the changes that the agent may make; the others are in `refusals`. A call
    that is cancelled before its command ended takes over nothing.
    """
    refused: list[Refused] = []

    async def take(changes: Path) -> None:
        # `finish`, because a half of the changes would be worse than all or none: a call that is
        # cancelled now ends when all of them are applied.
        refused.extend(await threads.finish(partial(take_changes, files, changes)))

    slot = await settings.slots.acquire(run.task) if settings.slots is not None else None
    try:
        enclosure = await threads.run(partial(_enclosure, files, settings))
        end = await run_shell(
            ShellCommand(
                text=run.text,
                folder=files.root,
                enclosure=enclosure,
                seconds=run.seconds,
                max_bytes=run.max_bytes,
                environment=run.environment,
                grace_seconds=run.grace_seconds,
                leftovers=settings.leftovers,
            ),
            take,
        )
    finally:
        if slot is not None:
            slot.release()
    if end.refused:
        raise NotPermitted(
            f"the system does not confine commands here ({end.refused}), so none runs; "
            'shell_sandbox = "off" under [flows] runs them without'
        )
    return replace(end, refusals=_reports(refused))


def _enclosure(files: ProjectFiles, settings: ShellSettings) -> Enclosure | None:
    if not settings.is_enclosed:
        return None
    around: Fence = fence(files)
    return Enclosure(
        hidden=around.hidden,
        kept=around.kept,
        writable=around.writable,
        network=settings.has_network,
        processes=settings.processes,
        memory_mb=settings.memory_mb,
    )


def _reports(refused: list[Refused]) -> tuple[str, ...]:
    shown = [str(each) for each in refused[:_MAX_REFUSALS]]
    more = len(refused) - len(shown)
    return (*shown, f"{more} more changes were refused.") if more else tuple(shown)
