"""Warnings of `penstock check`: offered tools, and levels of thinking that a model ignores."""

import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from penstock.agents.agent import Agent
from penstock.agents.agent_profile import AgentProfile, Tier
from penstock.agents.tool_offer import offered
from penstock.app.project import Project
from penstock.app.settings import FILE, Settings
from penstock.core.diagnostics import Diagnostic, Severity
from penstock.core.errors import ConfigError
from penstock.core.ids import ASSISTANT
from penstock.manifest.document import SourceRange
from penstock.manifest.fields import quoted
from penstock.manifest.front_matter import parse_front_matter
from penstock.models.names import ModelNames
from penstock.models.resolve import ModelRegistry
from penstock.tools.policy import RuleSet
from penstock.tools.tool import Registry, Tool

MAX_OFFERED = 20
"""Models choose worse among more tools, and every request pays for all of them."""
MIN_DESCRIPTION = 20
"""A shorter description does not explain when to call a tool."""


class _OfferedTools(Struct, frozen=True, kw_only=True):
    registry: Registry
    rules: RuleSet


def check_offers(settings: Settings, project: Project) -> Iterator[Diagnostic]:
    """Yield a warning for each agent that is offered many tools, and each vague description."""
    shelf = _OfferedTools(
        registry=Registry(project.every_tool),
        rules=RuleSet(entry.rule() for entry in settings.rules),
    )
    agents = {ASSISTANT: Agent(ASSISTANT)} | {each.name: each for each in project.agents}
    described: dict[str, Tool] = {}
    for agent in agents.values():
        tools = offered(agent, shelf, settings.local.profile)
        described |= {each.spec.tool_id: each for each in tools}
        if len(tools) > MAX_OFFERED:
            yield Diagnostic(
                code="many-tools",
                message=f'agent "{agent.name}" is offered {len(tools)} tools, more than '
                f"{MAX_OFFERED}: a model chooses worse among many, and each request pays for all",
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
        description = tool.spec.description.strip()
        if tool.spec.kind == "builtin" or len(description) >= MIN_DESCRIPTION:
            continue
        manifest = manifests.get(tool_id)
        file, line = (manifest.file, manifest.line) if manifest else _place(tool, project.root)
        yield Diagnostic(
            code="short-description",
            message=f'the description of tool "{tool_id}" has {len(description)} characters, '
            f"fewer than {MIN_DESCRIPTION}",
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


_TOP = SourceRange(line=1, column=1)


def check_thinking(settings: Settings, project: Project) -> Iterator[Diagnostic]:
    """Yield a warning for each agent whose model does not support its level of thinking."""
    models = settings.find_models()
    names = ModelNames(roles=settings.models.roles)
    for agent in project.agent_files.agents:
        if agent.profile.tier is not Tier.LOCAL:
            continue
        model = _model_ignoring(agent, models, names)
        if model is not None:
            yield _thinking_finding(settings, agent.profile, model)


def model_ignoring(settings: Settings, name: str, level: str | None) -> str | None:
    """Return the model of a name if it does not support this level, or the level in the name.

    None if it does, or if there is no level.
    """
    names = ModelNames(roles=settings.models.roles)
    if (level or names.thinking(name)) is None:
        return None
    models = settings.find_models()
    return _model_without(name, models, names)


def _model_ignoring(agent: Agent, models: ModelRegistry, names: ModelNames) -> str | None:
    """Return the model that does not support an agent's level of thinking."""
    name = agent.model if isinstance(agent.model, str) else None
    if (agent.profile.thinking or names.thinking(name)) is None:
        return None
    return _model_without(name, models, names)


def _model_without(name: str | None, models: ModelRegistry, names: ModelNames) -> str | None:
    try:
        resolved = name if name and models.has(name) else names.model(name)
        return None if models.has_thinking(resolved) else resolved or models.default
    except ConfigError:
        return None


def _thinking_finding(settings: Settings, agent_profile: AgentProfile, model: str) -> Diagnostic:
    text = (settings.root / agent_profile.file).read_text(encoding="utf-8")
    keys = parse_front_matter(text, agent_profile.file).head.values
    place = keys.get(("thinking",)) or keys.get(("model",)) or _TOP
    return Diagnostic(
        code="thinking-unheeded",
        message=f"the model {quoted(model)} has no levels of thinking: the level is ignored",
        file=agent_profile.file,
        line=place.line,
        column=place.column,
        severity=Severity.WARNING,
        suggestion="remove the level, or name a model with thinking levels",
        end_line=place.line,
        end_column=place.end_column,
    )
