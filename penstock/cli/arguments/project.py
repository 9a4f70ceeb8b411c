"""Finds, reads and opens the project of a command."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from penstock.app.opening import visit_project
from penstock.app.project import Project, check_root, find_root, load_project
from penstock.app.runtime import Runtime
from penstock.app.settings import Settings, load
from penstock.cli.terminal.findings import tell_findings

Value = TypeVar("Value")


class ReadProject(Struct, frozen=True, kw_only=True):
    """A project and its settings, read from files. No store is opened."""

    settings: Settings
    project: Project


def find(folder: Path | None, **overrides: Any) -> ReadProject:
    """Read the project in this folder; by default, in the nearest parent. Prints no findings."""
    settings = read_settings(folder, **overrides)
    return ReadProject(settings=settings, project=load_project(settings))


def read_settings(folder: Path | None, **overrides: Any) -> Settings:
    """Read only the settings; manifests, scripts and agents are not read."""
    root = find_root(Path()) if folder is None else check_root(folder)
    return load(root, **overrides)


def run(folder: Path | None, work: Callable[[Runtime], Awaitable[Value]]) -> Value:
    """Open the project, run the work, and close the project."""

    async def whole() -> Value:
        async with opened(folder) as runtime:
            return await work(runtime)

    return asyncio.run(whole())


@asynccontextmanager
async def opened(folder: Path | None, tool_id: str | None = None) -> AsyncIterator[Runtime]:
    """Open the project in this folder; by default, the one in the nearest parent folder.

    Prints the findings of the tool and the number of other findings. Errors of a broken tool are
    left out, because the outcome of its call contains them.
    """
    found = find(folder)
    in_outcome = found.project.bundle.broken_tools.get(tool_id or "", ())
    tell_findings(found.project, tool_id, reported=in_outcome)
    async with visit_project(found.settings, found.project) as runtime:
        yield runtime
