"""Every agent by name."""

import pytest

from penstock.agents.agent import Agent
from penstock.agents.catalog import Catalog
from penstock.core.errors import NotFound


def test_every_project_has_the_assistant() -> None:
    assert [agent.name for agent in Catalog()] == ["assistant"]


TIERS = [
    ({"local": "L", "package": "P", "builtin": "B"}, "L"),
    ({"package": "P", "builtin": "B"}, "P"),
    ({"builtin": "B"}, "B"),
]


@pytest.mark.parametrize(("tiers", "winner"), TIERS)
def test_a_local_agent_hides_a_package_one_and_this_a_builtin_one(
    tiers: dict[str, str], winner: str
) -> None:
    catalog = Catalog(**{tier: [Agent("x", description=text)] for tier, text in tiers.items()})
    assert catalog.get("x").description == winner
    assert len(catalog.list()) == 1


def test_an_unknown_agent_is_answered_with_the_nearest() -> None:
    with pytest.raises(NotFound, match=r"There is no agent 'asistant'. Did you mean 'assistant'?"):
        Catalog().get("asistant")
    with pytest.raises(NotFound, match=r"There is no agent 'x'. There are assistant, writer."):
        Catalog([Agent("writer")]).get("x")


def test_an_agent_may_be_taken_in_in_place_of_one_of_its_name() -> None:
    catalog = Catalog([Agent("writer"), Agent("clerk")])
    agent = catalog.add(Agent("writer", description="newer"))
    assert catalog.get("writer") is agent
    assert [each.name for each in catalog] == ["assistant", "clerk", "writer"]
