"""Prints errors and warnings of a project's files on stderr, next to a command's own output."""

from collections.abc import Collection
from pathlib import PurePosixPath

from penstock.app.project import Project
from penstock.cli.terminal.output import note
from penstock.core.diagnostics import Diagnostic, errors_of, sort
from penstock.core.text import count


def tell_findings(
    project: Project, tool_id: str | None = None, *, reported: Collection[Diagnostic] = ()
) -> None:
    """Print the findings of one tool, and the number of all others.

    `reported` are findings that the command itself prints; they are left out here.
    """
    own = findings_of(project, tool_id) if tool_id is not None else []
    for each in own:
        if each not in reported:
            note(str(each))
    others = [each for each in project.diagnostics if each not in own and each not in reported]
    if others:
        errors = len(errors_of(others))
        counts = f"{count(errors, 'error')}, {count(len(others) - errors, 'warning')}"
        where = "in the project" if tool_id is None else "elsewhere in the project"
        note(f"{where}: {counts}; `penstock check` shows them")


def tell_all(project: Project) -> None:
    """Print all findings of a project."""
    for each in sort(project.diagnostics):
        note(str(each))


def findings_of(project: Project, tool_id: str) -> list[Diagnostic]:
    """Return the findings in a tool's manifest (also inside a skill) and in its modules.

    An unreadable file counts as the file of the tool with that name.
    """
    broken = project.bundle.broken_tools.get(tool_id, ())
    files = {each.file for each in project.bundle.every_tool if each.tool_id == tool_id}
    files |= _modules(project, tool_id)
    return sort(
        each
        for each in project.diagnostics
        if each in broken or each.file in files or _name(each.file) == tool_id
    )


def _modules(project: Project, tool_id: str) -> set[str]:
    """Return the files of a script; other tools have none."""
    folders = {each.folder for each in project.bundle.every_tool if each.tool_id == tool_id}
    return {
        (PurePosixPath(folder) / module).as_posix()
        for each in project.tools
        if each.spec.tool_id == tool_id
        for module in getattr(each, "modules", ())
        for folder in folders
    }


def _name(file: str) -> str:
    return PurePosixPath(file).name.removesuffix(".py").removesuffix(".tool.yaml")
