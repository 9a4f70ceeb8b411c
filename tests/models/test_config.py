"""What the operator says about a model."""

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
