"""What the operator says about a model."""

import pytest

from penstock.models.config import ModelConfig
from penstock.models.model import ModelCard


def test_the_card_says_what_is_public() -> None:
    config = ModelConfig(
        name="fast", provider="openai", model="gpt", api_key="sk", context_tokens=9, input_price=1
    )
    assert config.card == ModelCard(
        model_id="fast", name="gpt", provider="openai", context_tokens=9, input_price=1
    )
    assert "sk" not in repr(config)


@pytest.mark.parametrize(
    ("key", "variable", "advice"),
    [
        ("sk", "MY_KEY", "check the key in the environment variable MY_KEY"),
        (None, "MY_KEY", "set the environment variable MY_KEY"),
        ("sk", None, "check its key"),
        (None, None, "name the environment variable that holds its key as api_key_env in"),
    ],
)
def test_advice_about_a_key_names_its_variable(
    key: str | None, variable: str | None, advice: str
) -> None:
    config = ModelConfig(name="fast", provider="openai", api_key=key, key_env=variable)
    assert config.advice(401).startswith(advice)
    assert config.advice(403) == f"{config.advice(401)}, and its rights"


def test_advice_about_a_model_that_is_not_found_names_what_was_said_of_it() -> None:
    config = ModelConfig(name="fast", provider="openai", base_url="http://127.0.0.1:1/v1")
    assert config.advice(404) == "check base_url and model"
    assert ModelConfig(name="fast", provider="openai").advice(404) == "check model"
    assert config.advice(500) == ""
