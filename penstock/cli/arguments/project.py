"""The project that a command is about."""

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
    """A project and its settings, read but not opened."""

    settings: Settings
    project: Project


def find(folder: Path | None, **overrides: Any) -> ReadProject:
    """Read the project in this folder, or the nearest from here upwards; findings are not told."""
    settings = read_settings(folder, **overrides)
    return ReadProject(settings=settings, project=load_project(settings))


def read_settings(folder: Path | None, **overrides: Any) -> Settings:
    """Read the settings alone; no file of an author is touched."""
    root = find_root(Path()) if folder is None else check_root(folder)
    return load(root, **overrides)


def run(folder: Path | None, work: Callable[[Runtime], Awaitable[Value]]) -> Value:
    """Visit the project, do the work, close it again."""

    async def whole() -> Value:
        async with opened(folder) as runtime:
            return await work(runtime)

    return asyncio.run(whole())


@asynccontextmanager
async def opened(folder: Path | None, tool_id: str | None = None) -> AsyncIterator[Runtime]:
    """Visit the project in this folder, or the nearest from here upwards.

    What is wrong with the tool is told, but for what its call will say; and how much is besides.
    """
    found = find(folder)
    said = found.project.bundle.broken_tools.get(tool_id or "", ())
    tell_findings(found.project, tool_id, said=said)
    async with visit_project(found.settings, found.project) as runtime:
        yield runtime
