"""The configuration of one model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from penstock.models.model import ModelCard


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """One model: its provider, address, key and prices."""

    name: str
    """A name in penstock.toml, or `provider:model`."""
    provider: str
    model: str = ""
    """The provider's name for the model."""
    base_url: str | None = None
    """None for the provider's own address."""
    api_key: str | None = field(default=None, repr=False)
    key_env: str | None = None
    """The environment variable of the key, for messages."""
    context_tokens: int | None = None
    input_price: float | None = None
    """USD per million tokens."""
    output_price: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Members added to the body of every request; a member that is null is removed from it."""

    @property
    def key_advice(self) -> str:
        """What to do about a key that is missing or refused."""
        if self.key_env:
            action = "check the key in" if self.api_key else "set"
            return f"{action} the environment variable {self.key_env}"
        if self.api_key:
            return "check its key"
        return "name the environment variable that holds its key as api_key_env in penstock.toml"

    def advice(self, status: int) -> str:
        """Return what to check after an HTTP error of this status, or an empty text."""
        match status:
            case HTTPStatus.UNAUTHORIZED:
                return self.key_advice
            case HTTPStatus.FORBIDDEN:
                return f"{self.key_advice}, and its rights"
            case HTTPStatus.NOT_FOUND:
                return "check base_url and model" if self.base_url else "check model"
            case _:
                return ""

    @property
    def card(self) -> ModelCard:
        """The card of the model."""
        return ModelCard(
            model_id=self.name,
            name=self.model or self.name,
            provider=self.provider,
            context_tokens=self.context_tokens,
            input_price=self.input_price,
            output_price=self.output_price,
        )
