"""Names of models as authors write them: roles, suffixes, and two spellings of providers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.core.diagnostics import did_you_mean
from penstock.core.errors import ConfigError

ROLES = ("planning", "coding", "research", "fast", "compact", "vision", "architect")
"""Roles that stand for the project's model until a project says otherwise."""
OFF = "off"
THINKING = (OFF, "minimal", "low", "medium", "high", "xhigh")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelNames:
    """What names mean in a project."""

    roles: Mapping[str, str] = field(default_factory=dict)
    """`[models.roles]`: the model of each role."""

    def model(self, text: str | None) -> str | None:
        """Return the name that the runtime knows, or None for the project's own model.

        `@role`, `id`, `id:thinking`, `provider/id`, `provider:id`, each with `:thinking` behind it.
        Raises ConfigError for a role that nobody defined.
        """
        if not text:
            return None
        name = without_thinking(text)
        if not name.startswith("@"):
            return name if ":" in name else name.replace("/", ":", 1)
        role = name[1:]
        if role in self.roles:
            return self.model(self.roles[role])
        if role in ROLES:
            return None
        known = sorted({*ROLES, *self.roles})
        raise ConfigError(f'there is no model role "@{role}".{did_you_mean(role, known)}')

    def unset(self, text: str | None) -> str:
        """Return the role that a name is and nobody defined, so that it means the project's model.

        Nothing if it is no such role.
        """
        role = without_thinking(text or "").removeprefix("@")
        is_role = (text or "").startswith("@") and role in ROLES
        if is_role and role in self.roles:
            return self.unset(self.roles[role])
        return role if is_role else ""

    def thinking(self, text: str | None) -> str | None:
        """Return the level of thinking that stands behind a name, or behind what its role means."""
        if not text:
            return None
        name = without_thinking(text)
        if name != text:
            return text.rpartition(":")[2]
        return self.thinking(self.roles.get(name[1:])) if name.startswith("@") else None


def without_thinking(text: str) -> str:
    """Return a model's name without the level of thinking behind it."""
    name, _, level = text.rpartition(":")
    return name if name and level in THINKING else text
