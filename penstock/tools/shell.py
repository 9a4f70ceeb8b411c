"""Shell commands in a project: whether they run at all, and what is around them."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.core.call_errors import NotPermitted
from penstock.resources.project.fence import Fence, fence
from penstock.resources.project.files import ProjectFiles
from penstock.resources.project.overlay import Refused, take_changes
from penstock.sandbox.processes.shell import (
    GRACE_SECONDS,
    Enclosure,
    Leftovers,
    ShellCommand,
    ShellEnd,
    run_shell,
)
from penstock.sandbox.processes.slots import ProcessSlots
from penstock.tools.running import Threads

_MOST_REFUSALS = 20
"""That are reported one by one."""


class ShellSettings(Struct, frozen=True, kw_only=True):
    """What the operator chose."""

    is_on: bool = False
    has_network: bool = False
    is_enclosed: bool = True
    slots: ProcessSlots | None = None
    """So many commands at once; None is any number."""
    processes: int = 1024
    """Of one command, with threads."""
    memory_mb: int = 4096
    """Of one command."""
    leftovers: Leftovers = field(default_factory=Leftovers)
    """What killed commands left is removed with the first one."""


OFF = ShellSettings()


class ShellRun(Struct, frozen=True, kw_only=True):
    """One command, its time, and how much of its output is kept."""

    text: str
    seconds: float
    most_bytes: int
    """Of each stream: the first and the last half."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables in addition to PATH, LANG and HOME."""
    task: str = ""
    """Tasks take turns where commands wait."""
    grace_seconds: float = GRACE_SECONDS
    """Between SIGTERM and SIGKILL when the time is over."""


def check_on(settings: ShellSettings) -> None:
    """Raise NotPermitted unless commands run in this project."""
    if not settings.is_on:
        raise NotPermitted("bash is switched off in this project (set shell = true under [flows]).")


async def run_in_project(
    run: ShellRun, files: ProjectFiles, settings: ShellSettings, threads: Threads
) -> ShellEnd:
    """Run a command in the project's folder. Raises NotPermitted where it cannot be enclosed.

    Of what an enclosed command changed, the project takes over what the agent may write; the rest
    is in `refusals`. A call that is cancelled before its command ended takes over nothing; one that
    is cancelled while changes are taken over ends when all of them are.
    """
    refused: list[Refused] = []

    async def take(changes: Path) -> None:
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
                most_bytes=run.most_bytes,
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
    return replace(end, refusals=_told(refused))


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


def _told(refused: list[Refused]) -> tuple[str, ...]:
    shown = [str(each) for each in refused[:_MOST_REFUSALS]]
    more = len(refused) - len(shown)
    return (*shown, f"{more} more changes were refused.") if more else tuple(shown)
