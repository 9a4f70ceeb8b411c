"""Names of models as authors write them: roles, suffixes, and two spellings of providers."""

from collections.abc import Mapping

from msgspec import Struct, field

from penstock.core.diagnostics import did_you_mean
from penstock.core.errors import ConfigError

ROLES = ("planning", "coding", "research", "fast", "compact", "vision", "architect")
"""Roles that stand for the project's model until a project says otherwise."""
OFF = "off"
THINKING = (OFF, "minimal", "low", "medium", "high", "xhigh")


class ModelNames(Struct, frozen=True, kw_only=True):
    """What names mean in a project."""

    roles: Mapping[str, str] = field(default_factory=dict)
    """`[models.roles]`: the model of each role."""

    def model(self, text: str | None) -> str | None:
        """Return the name that the runtime knows, or None for the project's own model.

        `@role`, `id`, `id:thinking`, `provider/id`, `provider:id`, each with `:thinking` behind it.
        Raises ConfigError for a role that nobody defined, or that stands for itself.
        """
        name = without_thinking(self._meanings(text or "")[-1])
        role = _role_of(name)
        if not role:
            return _spelled(name) or None
        if role in self.roles:
            raise ConfigError(f'the model role "@{role}" stands for itself under [models.roles]')
        if role in ROLES:
            return None
        known = sorted({*ROLES, *self.roles})
        raise ConfigError(f'there is no model role "@{role}".{did_you_mean(role, known)}')

    def unset(self, text: str | None) -> str:
        """Return the role that a name is and nobody defined, so that it means the project's model.

        Nothing if it is no such role.
        """
        role = _role_of(self._meanings(text or "")[-1])
        return role if role in ROLES and role not in self.roles else ""

    def thinking(self, text: str | None) -> str | None:
        """Return the level of thinking that stands behind a name, or behind what its role means."""
        told = (each for each in self._meanings(text or "") if without_thinking(each) != each)
        return next((each.rpartition(":")[2] for each in told), None)

    def _meanings(self, text: str) -> list[str]:
        """Return a name, what it means if it is a role, and so on; nothing stands there twice."""
        meanings = [text]
        while role := _role_of(meanings[-1]):
            meant = self.roles.get(role)
            if meant is None or meant in meanings:
                break
            meanings.append(meant)
        return meanings


def without_thinking(text: str) -> str:
    """Return a model's name without the level of thinking behind it."""
    name, _, level = text.rpartition(":")
    return name if name and level in THINKING else text


def _role_of(text: str) -> str:
    """Return the role that a name is; nothing if it is none."""
    return without_thinking(text)[1:] if text.startswith("@") else ""


def _spelled(name: str) -> str:
    """Return a model's name with a colon behind its provider; more colons may follow."""
    provider, slash, model = name.partition("/")
    return f"{provider}:{model}" if slash and ":" not in provider else name
