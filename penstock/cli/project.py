"""Finds, reads and opens the project of a command, prints its findings, and selects its skills."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import typer
from msgspec import Struct

from penstock.agents.agent import Agent
from penstock.app.opening import open_project
from penstock.app.project import Project, check_root, find_root, load_project
from penstock.app.runtime import Runtime
from penstock.app.settings import Settings, load
from penstock.chat.task_requests import unknown_skills
from penstock.cli.terminal.output import note
from penstock.core.diagnostics import Diagnostic, errors_of, sort
from penstock.core.profile import Profile
from penstock.core.text import count
from penstock.manifest.skill import SkillManifest

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


def run_with_runtime(folder: Path | None, work: Callable[[Runtime], Awaitable[Value]]) -> Value:
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
    read = find(folder)
    in_outcome = read.project.bundle.broken_tools.get(tool_id or "", ())
    print_findings(read.project, tool_id, reported=in_outcome)
    async with open_project(read.settings, read.project, resumes=False) as runtime:
        yield runtime


def print_findings(
    project: Project, tool_id: str | None = None, *, reported: Collection[Diagnostic] = ()
) -> None:
    """Print the findings of one tool, and the number of all others.

    `reported` are findings that the command itself prints; they are left out here.
    """
    own = findings_of(project, tool_id) if tool_id is not None else []
    for diagnostic in own:
        if diagnostic not in reported:
            note(str(diagnostic))
    others = [each for each in project.diagnostics if each not in own and each not in reported]
    if others:
        errors = len(errors_of(others))
        counts = f"{count(errors, 'error')}, {count(len(others) - errors, 'warning')}"
        where = "in the project" if tool_id is None else "elsewhere in the project"
        note(f"{where}: {counts}; `penstock check` shows them")


def print_all_findings(project: Project) -> None:
    """Print all findings of a project."""
    for diagnostic in sort(project.diagnostics):
        note(str(diagnostic))


def findings_of(project: Project, tool_id: str) -> list[Diagnostic]:
    """Return the findings in a tool's manifest (also inside a skill) and in its modules.

    An unreadable file counts as the file of the tool with that name.
    """
    broken = project.bundle.broken_tools.get(tool_id, ())
    files = {each.file for each in project.bundle.every_tool if each.tool_id == tool_id}
    files |= _modules(project, tool_id)
    return sort(
        diagnostic
        for diagnostic in project.diagnostics
        if diagnostic in broken or diagnostic.file in files or _name(diagnostic.file) == tool_id
    )


def _modules(project: Project, tool_id: str) -> set[str]:
    """Return the files of a script; other tools have none."""
    folders = {each.folder for each in project.bundle.every_tool if each.tool_id == tool_id}
    return {
        (PurePosixPath(folder) / module).as_posix()
        for tool in project.tools
        if tool.spec.tool_id == tool_id
        for module in getattr(tool, "modules", ())
        for folder in folders
    }


def _name(file: str) -> str:
    return PurePosixPath(file).name.removesuffix(".py").removesuffix(".tool.yaml")


def selected(
    runtime: Runtime, agent: str, names: Sequence[str], profile: Profile | None = None
) -> tuple[str, ...]:
    """Return the named skills. Raises BadParameter if one is unknown or cannot be selected."""
    skills, chosen = runtime.parts.chat.participants.skills, runtime.parts.chat.agents.get(agent)
    caller = runtime.local if profile is None else profile
    messages = []
    for problem in unknown_skills(names, skills, chosen, caller):
        name = names[int(problem.path.rpartition("/")[2])]
        skill = skills.find(name)
        messages.append(problem.message if skill is None else _closed(skill, chosen, caller))
    if messages:
        raise typer.BadParameter("; ".join(f"--skill: {each}" for each in messages))
    return tuple(names)


def _closed(skill: SkillManifest, agent: Agent, profile: Profile) -> str:
    """Return why an existing skill cannot be selected. The owner of the project may see why."""
    labels = [each for each in skill.requires_labels if each not in agent.settings.labels]
    permissions = [each for each in skill.requires_permissions if not profile.holds(each)]
    why = [f"the agent {agent.name!r} lacks the label {each!r}" for each in labels]
    why += [f"the profile lacks the permission {each!r}" for each in permissions]
    reasons = ", ".join(why) or f"the agent {agent.name!r} does not have it"
    return f"the skill {skill.skill_id!r} exists but cannot be selected: {reasons}."
