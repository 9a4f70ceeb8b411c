"""Agent files as texts, the findings in them, and a model that answers for their agents."""

from typing import Any

from penstock.agents.agent import Agent
from penstock.agents.agent_file import NOTHING_KNOWN, KnownNames, parse_agent
from penstock.agents.agent_profile import AgentProfile
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply


def agent_of(text: str, known: KnownNames = NOTHING_KNOWN) -> Agent:
    """Return the agent of a text without errors."""
    read = parse_agent(text, "agents/a.md", known)
    assert read.agent is not None, read.findings
    return read.agent


def profile_of(head: str) -> AgentProfile:
    agent_profile = agent_of(f"---\nname: a\n{head}\n---\n").profile
    assert agent_profile is not None
    return agent_profile


def said_of(text: str, known: KnownNames = NOTHING_KNOWN) -> list[str]:
    """Return findings as lines of text, without those that every short example has."""
    findings = parse_agent(text, "a.md", known).findings
    return [
        f"{each.line} {each.severity} {each.code}: {each.text}"
        for each in findings
        if each.code not in {"missing-tools", "missing-description"}
    ]


def said_of_head(head: str, known: KnownNames = NOTHING_KNOWN) -> list[str]:
    return said_of(f"---\nname: a\n{head}\n---\n", known)


def replies_of(**agents: Any) -> ScriptedModel:
    """Return a model that answers as the agent whose instructions it reads, in turn."""
    left = {name: iter(each) for name, each in agents.items()}

    def reply(request: ModelRequest) -> ScriptedReply:
        name = next(each for each in left if f"You are {each}." in request.system)
        given: ScriptedReply = next(left[name])
        return given

    return ScriptedModel(reply)
