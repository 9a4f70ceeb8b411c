"""Names of models as authors write them: `@role`, `provider/model`, and a level of thinking.

`ThinkingModel` applies such a level to every request.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.core.diagnostics import did_you_mean
from penstock.core.errors import ConfigError
from penstock.models.model import Model, ModelEvent, ModelRequest

ROLES = ("planning", "coding", "research", "fast", "compact", "vision", "architect")
"""Predefined roles. Each is the project's model until the project defines it."""
OFF = "off"
THINKING = (OFF, "minimal", "low", "medium", "high", "xhigh", "max")
ROOM = {
    OFF: 0,
    "minimal": 1024,
    "low": 2048,
    "medium": 10_000,
    "high": 16_384,
    "xhigh": 32_768,
    "max": 32_768,
}
"""Tokens that a level of thinking adds to the longest reply: providers count both together."""
ALWAYS_ROOM = 2048
"""The same for a model whose thinking cannot be turned off, at the level `off`."""
DEFAULT_ROOM = 16_384
"""The same for a model that thinks by default, without a level."""


class ModelNames(Struct, frozen=True, kw_only=True):
    """Resolves the names of models in a project."""

    roles: Mapping[str, str] = field(default_factory=dict)
    """`[models.roles]`: the model of each role."""

    def model(self, text: str | None) -> str | None:
        """Return the name for `Models.get`, or None for the project's default model.

        Accepts `@role`, `id`, `provider/id` and `provider:id`, each with an optional `:thinking`.
        Raises ConfigError for a role that is not defined, or that refers to itself.
        """
        name = without_thinking(self._chain(text or "")[-1])
        role = _role_of(name)
        if not role:
            return _with_colon(name) or None
        if role in self.roles:
            raise ConfigError(f'the model role "@{role}" refers to itself under [models.roles]')
        if role in ROLES:
            return None
        known = sorted({*ROLES, *self.roles})
        raise ConfigError(f'there is no model role "@{role}".{did_you_mean(role, known)}')

    def unset(self, text: str | None) -> str:
        """Return the predefined role that a name refers to and the project does not define.

        Such a role is the project's default model. Returns an empty text for any other name.
        """
        role = _role_of(self._chain(text or "")[-1])
        return role if role in ROLES and role not in self.roles else ""

    def thinking(self, text: str | None) -> str | None:
        """Return the level of thinking of a name, or else of the model of its role."""
        leveled = (each for each in self._chain(text or "") if without_thinking(each) != each)
        return next((each.rpartition(":")[2] for each in leveled), None)

    def _chain(self, text: str) -> list[str]:
        """Return a name, the model of its role, and so on, until a name that is not a role."""
        chain = [text]
        while role := _role_of(chain[-1]):
            model = self.roles.get(role)
            if model is None or model in chain:  # roles may refer to each other in a cycle
                break
            chain.append(model)
        return chain


def without_thinking(text: str) -> str:
    """Return a model's name without its level of thinking."""
    name, _, level = text.rpartition(":")
    return name if name and level in THINKING else text


def _role_of(text: str) -> str:
    return without_thinking(text)[1:] if text.startswith("@") else ""


def _with_colon(name: str) -> str:
    """Return a model's name with a colon after its provider. More colons may follow."""
    provider, slash, model = name.partition("/")
    return f"{provider}:{model}" if slash and ":" not in provider else name


class ThinkingModel:
    """Wraps a model and adds a level of thinking to every request."""

    def __init__(self, model: Model, level: str) -> None:
        self.card = model.card
        self._model = model
        self.level = level

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the reply as they arrive."""
        leveled = replace(request, thinking=request.thinking or self.level)
        async with aclosing(self._model.stream(leveled)) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        """Do nothing: the wrapped model is shared, and `Models` closes it."""
