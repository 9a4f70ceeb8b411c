"""Reloads a project's tools, skills and agents while its runtime is open.

An edition is everything read from the files at one time. `take` replaces the edition of every part
without awaiting, so no coroutine sees half of it; a tool call in progress keeps the tools that it
started with (`Invoker.renew`). If the new edition is refused, the old one stays complete: the
registry is built before anything is replaced. Broken files are reported and left out.

`watched` compares modification times and sizes every `SECONDS`. It polls, because file system
notifications differ between systems and are missing on network drives. It reads only files of
authors (`READ`), so what a run writes does not trigger a reload. Without memory or file
descriptors (OutOfResources) it keeps the edition and tries again at the next poll.

Tests: tests/app/test_reload.py.
"""

import asyncio
import posixpath
from collections.abc import AsyncIterator, Callable, Container, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct

from penstock.agents.agent import AnyAgent
from penstock.agents.agent_profile import Tier
from penstock.agents.definition.noted import note
from penstock.agents.definition.options import DIGEST, definition_of
from penstock.agents.tool_offer import offered
from penstock.app.global_tools import with_global_tools
from penstock.app.project import Project, load_project
from penstock.app.protected_files import protect
from penstock.app.runtime import Runtime
from penstock.app.runtime_parts import RuntimeParts
from penstock.app.settings import Settings
from penstock.chat.schedules.file_schedules import FileSchedules
from penstock.core.envelope import Json
from penstock.core.errors import OutOfResources, PenstockError
from penstock.core.profile import Profile
from penstock.core.text import count
from penstock.manifest.files import walk
from penstock.manifest.skill import is_resource
from penstock.tools.tool import Registry, Tool

SECONDS = 0.5
"""The time between two polls of the files."""
READ = (".yaml", ".md", ".py", ".mts", ".mjs", ".ts", ".js", ".json")
"""The endings of watched files outside of skill folders: what authors write, and no output."""
HIDDEN = ".pi"
"""The one hidden folder that authors use."""
Report = Callable[[str], None]
FileId = tuple[int, int]
"""The device and inode numbers of a file."""


class ProjectReloader(Struct, frozen=True, kw_only=True):
    """Replaces the edition of a runtime."""

    runtime: Runtime
    settings: Settings
    first: Project
    added: tuple[Tool, ...] = ()
    """Tools that the program passed to `open`; every edition has them."""

    def protect(self, project: Project) -> None:
        """Forbid agents to write the files that this edition loaded."""
        protect(self.runtime, project)

    def read(self) -> Project:
        """Read the files again, without using them yet."""
        first = self.first
        return load_project(
            self.settings,
            self.added,
            first.sandbox,
            plugins=first.plugins,
            agents=first.nameable.agents,
        )

    def take(self, project: Project) -> None:
        """Replace the edition: tools, skills, agents, prompts, permissions, handbooks.

        A broken file of prompts or permissions leaves those unchanged. Raises NameTaken before
        anything is replaced.
        """
        registry = Registry(
            [*project.every_tool, *with_global_tools(self.added, self.settings.global_tools)],
            project.bundle.named_permissions,
            project.broken_tools,
        )
        parts = self.runtime.parts
        parts.tools.invoker.renew(registry)
        parts.chat.participants.skills.renew(project.every_skill)
        parts.chat.agents.replace_files(project.agent_files)
        broken = project.bundle.broken_nouns
        if "prompts" not in broken:
            parts.chat.participants.renew(project.prompt_prefix)
        if "permissions" not in broken and parts.storage.database_parts is not None:
            parts.storage.database_parts.keys.renew(project.bundle.permissions)
        parts.flows.materials.renew(project.handbooks)
        if parts.flows.authoring is not None:
            parts.flows.authoring.agents.renew(project.nameable)
        self.protect(project)

    async def follow(self, project: Project) -> None:
        """Let the rows of schedules follow the files of this edition, and note its agents."""
        parts, bundle = self.runtime.parts, project.bundle
        if (folder := parts.storage.folder) is not None:
            found = definitions_of(parts, self.runtime.local)
            await asyncio.to_thread(note, folder, found, parts.world.clock.now())
        if (kept := parts.storage.database_parts) is not None:
            permissions = self.settings.schedules.permissions
            files = FileSchedules(kept.schedules, parts.world.clock, permissions)
            await files.follow(bundle.schedules, bundle.broken_schedules)
            if (ticker := self.runtime.schedules.ticker) is not None:
                ticker.refresh()

    @asynccontextmanager
    async def watched(self, report: Report) -> AsyncIterator[None]:
        """Reload whenever a file changes, until the block ends."""
        before = await asyncio.to_thread(file_stamps, self.settings.root, READ)
        watching = asyncio.create_task(self._watch(before, report))
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self, before: Mapping[str, tuple[int, int]], report: Report) -> None:
        while True:
            await self.runtime.parts.world.clock.sleep(SECONDS)
            with suppress(OutOfResources):  # `before` is unchanged, so the next poll tries again
                now = await asyncio.to_thread(file_stamps, self.settings.root, READ)
                if now != before:
                    await self._renew(report)
                    before = now

    async def _renew(self, report: Report) -> None:
        """Reload, and report the diagnostics; the old edition stays if the new one is refused."""
        try:
            project = await asyncio.to_thread(self.read)
            self.take(project)
            await self.follow(project)
        except OutOfResources:
            raise
        except PenstockError as error:
            report(f"Error: {error}. The files loaded before stay in use.")
            return
        for diagnostic in project.diagnostics:
            report(str(diagnostic))
        tools, skills = len(project.tools), len(project.bundle.skills)
        report(f"Reloaded: {count(tools, 'tool')}, {count(skills, 'skill')}.")


def file_stamps(
    root: Path, endings: tuple[str, ...] = ("",), excluded: Container[FileId] = ()
) -> Mapping[str, tuple[int, int]]:
    """Return the modification time and the size of each file of a project."""
    stamps: dict[str, tuple[int, int]] = {}
    names = [*walk(root), *(f"{HIDDEN}/{each}" for each in walk(root / HIDDEN))]
    skills = tuple(
        {name.removesuffix(posixpath.basename(name)) for name in names if _is_skill(name)}
    )
    for name in names:
        is_of_skill = name.startswith(skills) and is_resource(posixpath.basename(name))
        if not (is_of_skill or name.endswith(endings)):
            continue
        try:
            status = (root / name).stat()
        except OSError:
            continue
        if (status.st_dev, status.st_ino) not in excluded:
            stamps[name] = (status.st_mtime_ns, status.st_size)
    return stamps


def _is_skill(name: str) -> bool:
    return name.endswith(".skill.yaml")


def definition_now(parts: RuntimeParts, agent: AnyAgent, profile: Profile) -> Json:
    """Return the definition of an agent, with the tools that it offers to a profile."""
    invoker = parts.chat.participants.invoker(agent)
    return definition_of(agent, [each.spec for each in offered(agent, invoker, profile)])


def definitions_of(parts: RuntimeParts, profile: Profile) -> dict[str, Json]:
    """Return the definitions of the project's agents, by digest."""
    found: dict[str, Json] = {}
    for agent in parts.chat.agents.list():
        digest = agent.profile.content_hash[:DIGEST]
        if digest and agent.profile.tier is not Tier.BUILT_IN:
            with suppress(PenstockError):  # an agent whose tools are missing starts no task
                found[digest] = definition_now(parts, agent, profile)
    return found
