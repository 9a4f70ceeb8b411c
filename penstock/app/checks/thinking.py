"""Warnings about levels of thinking that the model of an agent or a step does not support."""

from collections.abc import Iterator

from penstock.agents.agent import Agent
from penstock.agents.agent_profile import AgentProfile, Tier
from penstock.app.project import Project
from penstock.app.settings import Settings
from penstock.core.diagnostics import Diagnostic, Severity
from penstock.core.errors import ConfigError
from penstock.manifest.fields import quoted
from penstock.manifest.front_matter import parse_front_matter
from penstock.manifest.yaml_document import SourceRange
from penstock.models.names import ModelNames
from penstock.models.resolve import Models

_TOP = SourceRange(line=1, column=1)


def thinking_faults(settings: Settings, project: Project) -> Iterator[Diagnostic]:
    """Yield a warning for each agent whose model does not support its level of thinking."""
    models = settings.find_models()
    names = ModelNames(roles=settings.models.roles)
    for agent in project.agent_files.agents:
        if agent.profile.tier is not Tier.LOCAL:
            continue
        unheeding = _unheeding(agent, models, names)
        if unheeding is not None:
            yield _finding(settings, agent.profile, unheeding)


def find_unheeding(settings: Settings, name: str, level: str | None) -> str | None:
    """Return the model of a name if it does not support this level, or the level in the name.

    None if it does, or if there is no level.
    """
    names = ModelNames(roles=settings.models.roles)
    if (level or names.thinking(name)) is None:
        return None
    models = settings.find_models()
    return _deaf(name, models, names)


def _unheeding(agent: Agent, models: Models, names: ModelNames) -> str | None:
    """Return the model that does not support an agent's level of thinking."""
    wanted = agent.model if isinstance(agent.model, str) else None
    if (agent.profile.thinking or names.thinking(wanted)) is None:
        return None
    return _deaf(wanted, models, names)


def _deaf(wanted: str | None, models: Models, names: ModelNames) -> str | None:
    try:
        name = wanted if wanted and models.has(wanted) else names.model(wanted)
        return None if models.has_thinking(name) else name or models.default
    except ConfigError:
        return None


def _finding(settings: Settings, agent_profile: AgentProfile, model: str) -> Diagnostic:
    text = (settings.root / agent_profile.file).read_text(encoding="utf-8")
    keys = parse_front_matter(text, agent_profile.file).head.values
    place = keys.get(("thinking",)) or keys.get(("model",)) or _TOP
    return Diagnostic(
        code="thinking-unheeded",
        message=f"the model {quoted(model)} cannot be told how much to think; it is not",
        file=agent_profile.file,
        line=place.line,
        column=place.column,
        severity=Severity.WARNING,
        suggestion="take the level out, or name a model that thinks",
        end_line=place.line,
        end_column=place.end_column,
    )
