"""Warnings of `penstock check` about offered tools: too many, or described too briefly."""

import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from penstock.agents.agent import Agent
from penstock.agents.offer import offered
from penstock.app.project import Project
from penstock.app.settings import FILE, Settings
from penstock.core.diagnostics import Diagnostic, Severity
from penstock.core.ids import ASSISTANT
from penstock.tools.access.rules import Rules
from penstock.tools.registry import Registry
from penstock.tools.tool import Tool

MOST_OFFERED = 20
"""Models choose worse among more tools, and every request pays for all of them."""
LEAST_DESCRIPTION = 20
"""A shorter description does not explain when to call a tool."""


class _OfferedTools(Struct, frozen=True, kw_only=True):
    registry: Registry
    rules: Rules


def check_offers(settings: Settings, project: Project) -> Iterator[Diagnostic]:
    """Yield a warning for each agent that is offered many tools, and each vague description."""
    shelf = _OfferedTools(
        registry=Registry(project.every_tool),
        rules=Rules(entry.rule() for entry in settings.rules),
    )
    agents = {ASSISTANT: Agent()} | {each.name: each for each in project.agents}
    described: dict[str, Tool] = {}
    for agent in agents.values():
        tools = offered(agent, shelf, settings.local.profile)
        described |= {each.spec.tool_id: each for each in tools}
        if len(tools) > MOST_OFFERED:
            yield Diagnostic(
                code="many-tools",
                message=f'agent "{agent.name}" is offered {len(tools)} tools, more than '
                f"{MOST_OFFERED}: a model chooses worse among many, and each request pays for all",
                file=agent.profile.file or FILE,
                line=1,
                severity=Severity.WARNING,
                suggestion="list the ones it needs under tools: in its file",
            )
    yield from _check_descriptions(described.values(), project)


def _check_descriptions(tools: Iterable[Tool], project: Project) -> Iterator[Diagnostic]:
    manifests = {each.tool_id: each for each in project.bundle.every_tool}
    for tool in tools:
        tool_id = tool.spec.tool_id
        said = tool.spec.description.strip()
        if tool.spec.kind == "builtin" or len(said) >= LEAST_DESCRIPTION:
            continue
        manifest = manifests.get(tool_id)
        file, line = (manifest.file, manifest.line) if manifest else _place(tool, project.root)
        yield Diagnostic(
            code="short-description",
            message=f'the description of tool "{tool_id}" has {len(said)} characters, fewer than '
            f"{LEAST_DESCRIPTION}",
            file=file,
            line=line,
            severity=Severity.WARNING,
            suggestion="say what it does and when to call it",
        )


def _place(tool: Tool, root: Path) -> tuple[str, int]:
    """Return the location of a tool's function; the settings file for a plugin's tool."""
    function = inspect.unwrap(cast("Any", tool))
    code = getattr(function, "__code__", None)
    file = Path(code.co_filename) if code is not None else root
    if code is None or not file.is_relative_to(root):
        return FILE, 1
    return file.relative_to(root).as_posix(), code.co_firstlineno
