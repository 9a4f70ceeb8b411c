"""Where an agent comes from."""

import pytest

from penstock.agents.agent import Agent
from penstock.agents.agent_profile import AgentProfile, Tier

SOURCES = [
    (Agent("a"), "api", False),
    (Agent("a", profile=AgentProfile(tools=("read",))), "api", False),
    (Agent("a", profile=AgentProfile(file="agents/a.md")), "file", True),
    (Agent("a", profile=AgentProfile(file="/srv/p/a.md", tier=Tier.PACKAGE)), "file", True),
    (Agent("a", profile=AgentProfile(file="a.md", tier=Tier.BUILT_IN)), "builtin", True),
    (Agent("a", profile=AgentProfile(tier=Tier.BUILT_IN)), "builtin", False),
]


@pytest.mark.parametrize(("agent", "source", "has_file"), SOURCES)
def test_the_source_of_an_agent_follows_from_its_tier_and_file(
    agent: Agent, source: str, *, has_file: bool
) -> None:
    assert (agent.profile.source, agent.has_file) == (source, has_file)
