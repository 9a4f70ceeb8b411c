"""A project: the folder of what authors write, with the sessions kept for it."""

from dataclasses import dataclass
from pathlib import Path

from penstock.agents.agent import Agent
from penstock.agents.file import load_agents
from penstock.app.settings import FILE, Settings
from penstock.builtins import TOOLS
from penstock.core.diagnostics import Diagnostic
from penstock.core.errors import ConfigError
from penstock.tools.load import load_tools
from penstock.tools.tool import Tool

MARKS = (FILE, ".penstock")
"""What makes a folder a project, for who looks for one from below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """What was found in a folder; what is broken stands in `diagnostics` and takes no part."""

    root: Path
    agents: tuple[Agent, ...] = ()
    tools: tuple[Tool, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def find_root(start: Path) -> Path:
    """Return the nearest folder, from here upwards, that is a project."""
    here = start.resolve()
    for folder in (here, *here.parents):
        if any((folder / mark).exists() for mark in MARKS):
            return folder
    raise ConfigError(
        f"There is no project in {here} or above it: no {FILE} was found. "
        "Make one with `penstock init`, or name its folder with --project."
    )


def check_root(folder: Path) -> Path:
    """Return the folder, if it is one; any folder may be a project when it is named."""
    if folder.is_dir():
        return folder.resolve()
    wanted = "is a file" if folder.exists() else "does not exist"
    raise ConfigError(f"The project's folder {str(folder)!r} {wanted}: name a folder.")


def load_project(settings: Settings) -> Project:
    """Read everything that authors wrote in the project's folder; its Python tools are imported."""
    root = settings.root
    agents = load_agents(root)
    reserved = {tool.spec.tool_id for tool in TOOLS}
    tools = load_tools(root, reserved=reserved, is_on=settings.tools.python)
    return Project(
        root=root,
        agents=tuple(agents.agents),
        tools=tools.tools,
        diagnostics=(*agents.diagnostics, *tools.diagnostics),
    )
