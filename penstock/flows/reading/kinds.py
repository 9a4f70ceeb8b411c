"""Kinds of fields that only flows have."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from penstock.flows.definition import StepRetry
from penstock.manifest.authored_kinds import AuthoredInteger, part, warn_unknown
from penstock.manifest.fields import Invalid, Node
from penstock.manifest.kinds import Boolean

TRIES, SECONDS = (1, 10), (0, 3600)


class MappingOf(Struct, frozen=True, kw_only=True):
    """A mapping of names to values. Names are text as written."""

    wanted: str
    fits: Callable[[Any], bool]
    item_wanted: str

    def read(self, node: Node) -> dict[str, Any] | Invalid:
        """Return the valid values. A missing value is an empty mapping."""
        if node.value is None:
            return {}
        if not isinstance(node.value, dict):
            return node.wrong_type(self.wanted)
        for name, value in node.value.items():
            if not self.fits(value):
                node.at(name).wrong_type(self.item_wanted)
        return {name: value for name, value in node.value.items() if self.fits(value)}


class LenientBoolean(Struct, frozen=True, kw_only=True):
    """A boolean, also as text."""

    wanted: str = "true or false"

    def read(self, node: Node) -> bool | Invalid:
        """Return the value."""
        if isinstance(node.value, str) and node.value.lower() in {"true", "false"}:
            return node.value.lower() == "true"
        return Boolean().read(node)


class RetryKind(Struct, frozen=True, kw_only=True):
    """Retries: `true`, or the number of attempts and the delay."""

    wanted: str = "true or {attempts, delay}"

    def read(self, node: Node) -> StepRetry | Invalid:
        """Return the retry policy."""
        if node.value is True:
            return StepRetry()
        if not isinstance(node.value, dict):
            return node.bad_value(self.wanted) if node.value is False else self._other(node)
        warn_unknown(node, ("attempts", "delay"), "retry")
        tries = StepRetry()
        attempts = part(
            node, "attempts", AuthoredInteger(low=TRIES[0], high=TRIES[1]), tries.attempts
        )
        delay = part(node, "delay", AuthoredInteger(low=SECONDS[0], high=SECONDS[1]), tries.delay)
        return StepRetry(attempts, delay)

    def _other(self, node: Node) -> Invalid:
        return node.wrong_type(self.wanted)


class IgnoredValue(Struct, frozen=True, kw_only=True):
    """A value without effect."""

    wanted: str = "anything"

    def read(self, node: Node) -> Any:
        """Return the value."""
        return node.value


def is_text(value: Any) -> bool:
    """Whether a value is a text."""
    return isinstance(value, str)


def is_plain(value: Any) -> bool:
    """Whether a value is a text, a number or a boolean."""
    return isinstance(value, str | int | float)


TEXTS = MappingOf(wanted="a mapping of texts", fits=is_text, item_wanted="text")
TARGETS = MappingOf(wanted="a mapping of step ids", fits=is_text, item_wanted="a step id")
CONFIG = MappingOf(
    wanted="a mapping of texts, numbers and booleans",
    fits=is_plain,
    item_wanted="text, a number or a boolean",
)
