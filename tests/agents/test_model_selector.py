"""The model that answers for an agent."""

from typing import Any

import pytest

from penstock.agents.agent import Agent, ChatSettings
from penstock.agents.agent_profile import AgentProfile
from penstock.agents.model_selector import ModelSelector
from penstock.core.errors import ConfigError
from penstock.models.model import Model
from penstock.models.names import ModelNames, ThinkingModel
from penstock.models.resolve import ModelRegistry
from penstock.models.scripted import SCRIPTED, ScriptedModel

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
    assert selector().remark(Agent("a"), None) == ""
    assert "the model role @fast" in selector().remark(Agent("a", model="@fast"), None)
