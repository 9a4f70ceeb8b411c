"""Stores an agent's settings with its session, and restores the agent from them.

Guarantees: an edit of an agent file does not change a session that has started. Settings that a
later version no longer knows are ignored when read; new ones get their defaults. Tests:
tests/flows/agents/test_agent_snapshot.py.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.agents.agent import Agent
from penstock.agents.agent_profile import AgentProfile
from penstock.agents.settings import DEFAULTS, ChatSettings
from penstock.core.envelope import Json
from penstock.core.events.flow_events import AgentStarted, Output, ValueType
from penstock.resources.project.access import Access

_SETTINGS = ChatSettings.__struct_fields__


def kept_of(agent: Agent, level: str | None) -> Json:
    """Return what the log stores of an agent; `level` is the thinking level of its model."""
    agent_profile, access = agent.profile, agent.profile.access
    return {
        "file": agent_profile.file,
        "settings": _changed(agent.settings),
        "thinking": level,
        "tools": list(agent_profile.tools),
        "outputs": [_output(each) for each in agent_profile.outputs],
        "interactive": agent_profile.is_interactive,
        "read": _listed(access.read),
        "write": _listed(access.write),
        "deny": list(access.deny),
        "max_turns": agent_profile.max_turns,
        "reply_tokens": agent_profile.reply_tokens,
    }


def kept_agent(started: AgentStarted, current: Agent | None) -> Agent | None:
    """Return the agent as its session started. Logs of early versions have no snapshot: `now`."""
    if not started.charter:
        return current
    settings = _settings(started.charter["settings"])
    return replace(current or Agent(started.agent), settings=settings, profile=_profile_of(started))


def _settings(kept: Mapping[str, Any]) -> ChatSettings:
    """Return the stored settings; unknown ones are ignored."""
    known: dict[str, Any] = {
        name: tuple(value) if isinstance(value := kept[name], list) else value
        for name in _SETTINGS
        if name in kept
    }
    return ChatSettings(**known)


def _changed(settings: ChatSettings) -> Json:
    """Return the settings that differ from the defaults, as JSON."""
    changed = {}
    for name in _SETTINGS:
        value = getattr(settings, name)
        if value != getattr(DEFAULTS, name):
            changed[name] = list(value) if isinstance(value, tuple) else value
    return changed


def _output(output: Output) -> Json:
    return {
        "name": output.name,
        "description": output.description,
        "type": output.value_type and output.value_type.value,
        "pattern": output.pattern,
        "required": output.is_required,
    }


def _profile_of(started: AgentStarted) -> AgentProfile:
    kept = started.charter
    return AgentProfile(
        file=kept["file"],
        content_hash=started.agent_hash,
        thinking=kept["thinking"],
        tools=tuple(kept["tools"]),
        outputs=tuple(map(_read_output, kept["outputs"])),
        is_interactive=kept["interactive"],
        access=Access(
            agent=started.agent,
            read=_patterns(kept["read"]),
            write=_patterns(kept["write"]),
            deny=tuple(kept["deny"]),
        ),
        max_turns=kept["max_turns"],
        reply_tokens=kept.get("reply_tokens"),
    )


def _read_output(kept: Mapping[str, Any]) -> Output:
    return Output(
        name=kept["name"],
        description=kept["description"],
        value_type=kept["type"] and ValueType(kept["type"]),
        pattern=kept["pattern"],
        is_required=kept["required"],
    )


def _listed(patterns: tuple[str, ...] | None) -> list[str] | None:
    return None if patterns is None else list(patterns)


def _patterns(kept: list[str] | None) -> tuple[str, ...] | None:
    return None if kept is None else tuple(kept)
