"""What a project's files say at one time; a newer edition takes the place of an older one."""

import asyncio
import posixpath
from collections.abc import AsyncIterator, Callable, Container, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct

from penstock.app.global_tools import with_global_tools
from penstock.app.project import Project, load_project
from penstock.app.protected_files import protect
from penstock.app.runtime import Runtime
from penstock.app.settings import Settings
from penstock.core.errors import OutOfResources, PenstockError
from penstock.manifest.files.discover import walk
from penstock.manifest.resources import is_resource
from penstock.tools.registry import Registry
from penstock.tools.tool import Tool

SECONDS = 0.5
"""Between two looks at the files."""
READ = (".yaml", ".md", ".py", ".mts", ".mjs", ".ts", ".js", ".json")
"""What files that are watched end in, outside of the folders of skills: those of authors, and not
what a run writes beside them."""
HIDDEN = ".pi"
"""The one hidden folder in which authors keep files."""
Tell = Callable[[str], None]
FileId = tuple[int, int]
"""The numbers of a device, and of a file on it."""


class ProjectReloader(Struct, frozen=True, kw_only=True):
    """Where the newest edition stands: a runtime, and what it was opened with."""

    runtime: Runtime
    settings: Settings
    first: Project
    added: tuple[Tool, ...] = ()
    """What a program brought along; it stays."""

    def protect(self, project: Project) -> None:
        """Protect the files that this edition loaded from agents."""
        protect(self.runtime, project)

    def read(self) -> Project:
        """Read the files again; nothing is taken from them yet."""
        first = self.first
        return load_project(self.settings, self.added, first.sandbox, plugins=first.plugins)

    def take(self, project: Project) -> None:
        """Let the next entry find what was read: tools, skills, agents, and so on.

        What runs goes on with the edition it began with. A file of prompts or of permissions that
        is broken changes nothing. Raises NameTaken, and keeps all.
        """
        registry = Registry(
            [*project.every_tool, *with_global_tools(self.added, self.settings.global_tools)],
            project.bundle.named_permissions,
            project.broken_tools,
        )
        parts = self.runtime.parts
        parts.invoker.renew(registry)
        parts.skills.renew(project.every_skill)
        parts.agents.take(project.agent_files)
        broken = project.bundle.broken_nouns
        if "prompts" not in broken:
            parts.participants.renew(project.prompt_prefix)
        if "permissions" not in broken and parts.database_parts is not None:
            parts.database_parts.keys.renew(project.bundle.permissions)
        parts.materials.renew(project.handbooks)
        if parts.authoring is not None:
            parts.authoring.agents.renew(project.nameable)
        self.protect(project)

    @asynccontextmanager
    async def watched(self, tell: Tell) -> AsyncIterator[None]:
        """Take a new edition whenever a file was changed, until the block ends."""
        before = await asyncio.to_thread(file_stamps, self.settings.root, READ)
        watching = asyncio.create_task(self._watch(before, tell))
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self, before: Mapping[str, tuple[int, int]], tell: Tell) -> None:
        while True:
            await self.runtime.parts.clock.sleep(SECONDS)
            with suppress(OutOfResources):  # then what there is goes on, and is read again soon
                now = await asyncio.to_thread(file_stamps, self.settings.root, READ)
                if now != before:
                    await self._renew(tell)
                    before = now

    async def _renew(self, tell: Tell) -> None:
        """Take a new edition, and tell what is wrong with it; the good ones go on."""
        try:
            project = await asyncio.to_thread(self.read)
            self.take(project)
        except OutOfResources:
            raise
        except PenstockError as error:
            tell(f"Error: {error}. What was there goes on.")
            return
        for each in project.diagnostics:
            tell(str(each))
        tell(f"Read again: {len(project.tools)} tools, {len(project.bundle.skills)} skills.")


def file_stamps(
    root: Path, endings: tuple[str, ...] = ("",), besides: Container[FileId] = ()
) -> Mapping[str, tuple[int, int]]:
    """Return when each file of a project was changed, and its size; without some of them."""
    found: dict[str, tuple[int, int]] = {}
    names = [*walk(root), *(f"{HIDDEN}/{each}" for each in walk(root / HIDDEN))]
    skills = tuple(
        {name.removesuffix(posixpath.basename(name)) for name in names if _is_skill(name)}
    )
    for name in names:
        is_of_skill = name.startswith(skills) and is_resource(posixpath.basename(name))
        if not (is_of_skill or name.endswith(endings)):
            continue
        try:
            seen = (root / name).stat()
        except OSError:
            continue
        if (seen.st_dev, seen.st_ino) not in besides:
            found[name] = (seen.st_mtime_ns, seen.st_size)
    return found


def _is_skill(name: str) -> bool:
    return name.endswith(".skill.yaml")
