"""What the operator says about one model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.models.model import ModelCard


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """One model, under a name."""

    name: str
    """A name of penstock.toml, or `provider:model`."""
    provider: str
    model: str = ""
    """The provider's name for it."""
    base_url: str | None = None
    """None: the provider's own address."""
    api_key: str | None = field(default=None, repr=False)
    context_tokens: int | None = None
    input_price: float | None = None
    """USD per million tokens."""
    output_price: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Members added to the body of every request; one that is null is left out of it."""

    @property
    def card(self) -> ModelCard:
        """What is known about the model before it is asked."""
        return ModelCard(
            model_id=self.name,
            name=self.model or self.name,
            provider=self.provider,
            context_tokens=self.context_tokens,
            input_price=self.input_price,
            output_price=self.output_price,
        )
