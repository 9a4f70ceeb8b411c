"""What the fields of flows may be, besides what those of manifests may be."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.core.diagnostics import Severity, nearest
from penstock.flows.definition import Tries
from penstock.manifest.fields import OWN, WRONG, Kind, Node, Wrong, quoted
from penstock.manifest.kinds import Flag
from penstock.manifest.source import Place

TRIES, SECONDS = (1, 10), (0, 3600)
Item = tuple[str, Place]
"""A text of a list, and where it stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A whole number between two others."""

    low: int
    high: int

    @property
    def wanted(self) -> str:
        """What it must be."""
        return f"a whole number from {self.low} to {self.high}"

    def read(self, node: Node) -> int | Wrong:
        """Return the number."""
        if type(node.value) is not int:
            return node.wrong_type(self.wanted)
        return node.value if self.low <= node.value <= self.high else node.bad_value(self.wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Some texts: a list of them, or one text that is split at commas."""

    wanted: str
    item_wanted: str = "text"
    is_split: bool = True

    def read(self, node: Node) -> tuple[str, ...] | Wrong:
        """Return the texts that could be read; nothing at all is none."""
        if node.value is None or (self.is_split and isinstance(node.value, str)):
            return tuple(text for text, _ in named_items(node))
        if not isinstance(node.value, list):
            return node.wrong_type(self.wanted)
        for number, item in enumerate(node.value):
            if not isinstance(item, str):
                node.at(number).wrong_type(self.item_wanted)
        return tuple(text for text, _ in named_items(node))


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingOf:
    """Values by names; the names are text as it is written."""

    wanted: str
    fits: Callable[[Any], bool]
    item_wanted: str

    def read(self, node: Node) -> dict[str, Any] | Wrong:
        """Return the values that could be read; nothing at all is none."""
        if node.value is None:
            return {}
        if not isinstance(node.value, dict):
            return node.wrong_type(self.wanted)
        for name, value in node.value.items():
            if not self.fits(value):
                node.at(name).wrong_type(self.item_wanted)
        return {name: value for name, value in node.value.items() if self.fits(value)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """True or false, or these words as a text."""

    wanted: str = "true or false"

    def read(self, node: Node) -> bool | Wrong:
        """Return the value."""
        if isinstance(node.value, str) and node.value.lower() in {"true", "false"}:
            return node.value.lower() == "true"
        return Flag().read(node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a step is tried again: `true`, or how many times and how far apart."""

    wanted: str = "true or {attempts, delay}"

    def read(self, node: Node) -> Tries | Wrong:
        """Return the tries."""
        if node.value is True:
            return Tries()
        if not isinstance(node.value, dict):
            return node.bad_value(self.wanted) if node.value is False else self._other(node)
        warn_unknown(node, ("attempts", "delay"), "retry")
        tries = Tries()
        attempts = part(node, "attempts", Whole(low=TRIES[0], high=TRIES[1]), tries.attempts)
        delay = part(node, "delay", Whole(low=SECONDS[0], high=SECONDS[1]), tries.delay)
        return Tries(attempts, delay)

    def _other(self, node: Node) -> Wrong:
        return node.wrong_type(self.wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Anything:
    """A value that has no effect."""

    wanted: str = "anything"

    def read(self, node: Node) -> Any:
        """Return the value."""
        return node.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One of some words; the words are told as a sentence has them."""

    words: Sequence[str]
    wanted: str = field(default="text")

    def read(self, node: Node) -> str | Wrong:
        """Return the word."""
        if not isinstance(node.value, str):
            return node.wrong_type(self.wanted)
        return node.value if node.value in self.words else node.bad_value(self.wanted)


def named_items(node: Node) -> list[Item]:
    """Return the texts of a list, or of one text split at commas, each with its place."""
    if isinstance(node.value, str):
        texts = (each.strip() for each in node.value.split(","))
        return [(text, node.key_place) for text in texts if text]
    items = node.value if isinstance(node.value, list) else []
    return [(each, node.at(n).place) for n, each in enumerate(items) if isinstance(each, str)]


def part(node: Node, key: str, kind: Kind, default: Any) -> Any:
    """Return what stands under a key of a mapping; its default where it is missing, or wrong."""
    if key not in node.value:
        return default
    value = kind.read(node.at(key))
    return default if value is WRONG else value


def warn_unknown(node: Node, known: Sequence[str], title: str) -> None:
    """Note every key of a mapping that means nothing there, with the nearest that does."""
    for key in node.value:
        if key not in known and not key.startswith(OWN):
            warn(
                node.at(key),
                "unknown-field",
                f"unknown field {quoted(key)} in {title}",
                meant(nearest(key, known)),
            )


def warn(node: Node, code: str, message: str, suggestion: str | None = None) -> None:
    """Note a warning at the key of a value."""
    severity = Severity.WARNING
    node.document.problem(code, message, node.key_place, suggestion, severity=severity)


def meant(near: str | None) -> str | None:
    """Return the question whether the nearest name was meant."""
    return None if near is None else f'did you mean "{near}"?'


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
Values = Mapping[str, Any]
