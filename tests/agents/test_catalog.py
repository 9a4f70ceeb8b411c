"""Every agent by name."""

from pathlib import Path
from typing import Any

import pytest

from penstock.agents.agent import Agent, ChatSettings
from penstock.agents.agent_folders import load_agents
from penstock.agents.agent_profile import AgentProfile
from penstock.agents.catalog import Catalog, ModelSelector, catalog_entries, model_name
from penstock.core.errors import ConfigError, NotFound
from penstock.models.model import Model
from penstock.models.names import ModelNames, ThinkingModel
from penstock.models.resolve import ModelRegistry
from penstock.models.scripted import SCRIPTED, ScriptedModel


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
    agents: Any = {tier: [Agent("x", description=text)] for tier, text in tiers.items()}
    catalog = Catalog(**agents)
    assert catalog.get("x").description == winner
    assert len(catalog.list()) == 1


def test_an_unknown_agent_is_answered_with_the_nearest() -> None:
    with pytest.raises(NotFound, match=r"There is no agent 'asistant'. Did you mean 'assistant'?"):
        Catalog().get("asistant")
    with pytest.raises(NotFound, match=r"There is no agent 'x'. There are assistant, writer."):
        Catalog([Agent("writer")]).get("x")


def test_an_agent_can_replace_one_of_the_same_name() -> None:
    catalog = Catalog([Agent("writer"), Agent("clerk")])
    agent = catalog.add(Agent("writer", description="newer"))
    assert catalog.get("writer") is agent
    assert [each.name for each in catalog] == ["assistant", "clerk", "writer"]


def test_an_agent_added_by_a_program_hides_no_agent_file_from_flows(tmp_path: Path) -> None:
    """D7: "Agents made over the API are not in this catalog"."""
    catalog = catalog_of(tmp_path, agents__a=FULL)
    catalog.add(Agent("scout", description="of a program"))
    catalog.add(Agent("other"))
    assert catalog.get("scout").description == "of a program"
    assert catalog.get_from_files("scout").description == "Finds topics."
    assert [each["name"] for each in catalog_entries(catalog)][:1] == ["scout"]
    for name in ("other", "assistant"):
        with pytest.raises(NotFound):
            catalog.get_from_files(name)


FULL = """---
name: scout
description: Finds topics.
tools: [read]
inputs: [{ name: place, description: where }]
outputs: [topics, { name: count, type: number, description: how many }]
card: { type: search, label: Scout, metric: topics, role: finder }
architect: { use_when: always, produces: topics, depends_on: nothing, domain: web }
---
"""


def catalog_of(root: Path, **files: str) -> Catalog:
    """Return the catalog of a project of some agents, and of a package `package`."""
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    catalog = Catalog()
    catalog.replace_files(load_agents(root, packages=[root / "package"]))
    return catalog


def test_a_complete_agent_has_all_members_in_the_catalog(tmp_path: Path) -> None:
    """T30: one agent with every field."""
    entry = catalog_entries(catalog_of(tmp_path, agents__a=FULL))[0]
    assert entry == {
        "name": "scout",
        "description": "Finds topics.",
        "tools": ["read"],
        "inputs": ["place"],
        "outputs": [{"name": "topics"}, {"name": "count", "description": "how many"}],
        "card": {"type": "search", "label": "Scout", "metric": "topics"},
        "source_type": "local",
        "source_path": "agents/a.md",
        "architect": {
            "use_when": "always",
            "produces": "topics",
            "depends_on": "nothing",
            "domain": "web",
        },
    }


def test_an_agent_with_only_a_name_has_the_required_members_in_the_catalog(tmp_path: Path) -> None:
    """T30: and one with the required ones only."""
    entry = catalog_entries(catalog_of(tmp_path, agents__a="---\nname: a\n---\n"))[0]
    assert entry == {
        "name": "a",
        "description": "",
        "tools": [],
        "source_type": "local",
        "source_path": "agents/a.md",
        "architect": {},
    }


def test_use_when_falls_back_to_the_description(tmp_path: Path) -> None:
    text = "---\nname: a\ndescription: Finds topics.\n---\n"
    assert catalog_entries(catalog_of(tmp_path, agents__a=text))[0]["architect"] == {
        "use_when": "Finds topics."
    }


def test_agents_are_listed_by_tier_and_name_and_local_ones_with_their_path(tmp_path: Path) -> None:
    """T31: `source_type`; `source_path` "only for local"."""
    names = {"agents__z": "z", "agents__b": "b", "package__a": "a", "package__z": "z"}
    texts = {file: f"---\nname: {name}\n---\n" for file, name in names.items()}
    catalog = catalog_of(tmp_path, **texts, agents__broken="---\nname: x\nmax_turns: 0\n---\n")
    catalog.add(Agent("made-by-a-program"))
    said = [(e["name"], e["source_type"], e.get("source_path")) for e in catalog_entries(catalog)]
    assert said == [
        ("b", "local", "agents/b.md"),
        ("z", "local", "agents/z.md"),
        ("a", "package", None),
        ("flow-architect", "built-in", None),
        ("flow-decision", "built-in", None),
    ]


def test_a_reload_replaces_the_earlier_agents(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path, agents__a="---\nname: a\n---\n", package__b=FULL)
    catalog.add(Agent("kept"))
    assert catalog.find_in_files("a") is not None
    (tmp_path / "agents/a.md").write_text("---\nname: a\nmax_turns: 0\n---\n")
    (tmp_path / "package/b.md").unlink()
    catalog.replace_files(load_agents(tmp_path, packages=[tmp_path / "package"]))
    assert (catalog.find_in_files("a"), catalog.find_in_files("scout")) == (None, None)
    assert catalog.broken == {"a": "agents/a.md"}
    assert catalog.get("kept").name == "kept"


def test_a_flow_may_name_only_agents_of_files(tmp_path: Path) -> None:
    """D7: agents made over the API are not in this catalog."""
    catalog = catalog_of(tmp_path, agents__a="---\nname: a\n---\n")
    catalog.add(Agent("made-by-a-program"))
    names = ("a", "flow-decision", "assistant", "made-by-a-program", "none")
    assert [name for name in names if catalog.find_in_files(name)] == ["a", "flow-decision"]


OWN = ScriptedModel([])


def selector(**roles: str) -> ModelSelector:
    models = ModelRegistry()
    models.add(OWN)
    return ModelSelector(models, ModelNames(roles=roles))


CHOICES: list[tuple[dict[str, Any], str | None, str]] = [
    ({}, None, "offline"),
    ({"model": OWN}, None, "scripted"),
    ({"model": OWN}, "scripted", "scripted"),
    ({"model": OWN}, "offline", "offline"),
    ({"model": "scripted"}, None, "scripted"),
    ({"model": "offline", "settings": ChatSettings(llm_model="scripted")}, None, "scripted"),
    ({"model": "@small"}, None, "scripted"),
]


@pytest.mark.parametrize(("options", "requested", "chosen"), CHOICES)
def test_a_request_goes_before_the_settings_and_these_before_the_agent(
    options: dict[str, Any], requested: str | None, chosen: str
) -> None:
    model: Model = selector(small="scripted").choose(Agent("a", **options), requested)
    assert model.card.model_id == chosen


def test_the_level_of_thinking_in_a_file_goes_with_the_model() -> None:
    profile = AgentProfile(thinking="high")
    made = selector().choose(Agent("a", model="scripted", profile=profile), None)
    assert isinstance(made, ThinkingModel)
    assert made.card.model_id == SCRIPTED.model_id


def test_an_unknown_model_and_a_role_without_one_are_named() -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        selector().choose(Agent("a", model="nowhere"), None)
    assert selector().role_warning(Agent("a"), None) == ""
    assert "the model role @fast" in selector().role_warning(Agent("a", model="@fast"), None)


@pytest.mark.parametrize(
    ("agent", "wanted", "name"),
    [
        (Agent("a"), None, None),
        (Agent("a", model="m"), None, "m"),
        (Agent("a", model="m", settings=ChatSettings(llm_model="s")), None, "s"),
        (Agent("a", model="m"), "w", "w"),
        (Agent("a", model=OWN), None, None),
    ],
)
def test_the_name_of_a_model_is_that_of_the_message_the_settings_or_the_agent(
    agent: Agent, wanted: str | None, name: str | None
) -> None:
    assert model_name(agent, wanted) == name
