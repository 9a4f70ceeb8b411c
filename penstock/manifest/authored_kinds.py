"""Kinds of fields in flows and agents: lists as people write them, and warnings."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from penstock.core.diagnostics import Severity, nearest
from penstock.manifest import kinds
from penstock.manifest.fields import OWN, WRONG, Invalid, Kind, Node, quoted
from penstock.manifest.yaml.source import SourceRange

MOST_UNKNOWN = 100
"""Unknown keys of one mapping that are named; the others are counted."""
Item = tuple[str, SourceRange]
"""A string of a list, with its position."""


class AuthoredInteger(kinds.Integer, frozen=True, kw_only=True):
    """An integer in a range, with the wording of flows and agents."""

    noun: str = "a whole number"


class Names(Struct, frozen=True, kw_only=True):
    """A list of strings, or one string that is split at commas."""

    wanted: str
    item_wanted: str = "text"
    is_split: bool = True

    def read(self, node: Node) -> tuple[str, ...] | Invalid:
        """Return the valid strings; null means none."""
        if node.value is None or (self.is_split and isinstance(node.value, str)):
            return tuple(text for text, _ in named_items(node))
        if not isinstance(node.value, list):
            return node.wrong_type(self.wanted)
        for number, item in enumerate(node.value):
            if not isinstance(item, str):
                node.at(number).wrong_type(self.item_wanted)
        return tuple(text for text, _ in named_items(node))


class AuthoredChoice(Struct, frozen=True, kw_only=True):
    """One of several words; messages list them as a sentence."""

    words: Sequence[str]
    wanted: str = field(default="text")

    def read(self, node: Node) -> str | Invalid:
        """Return the word."""
        if not isinstance(node.value, str):
            return node.wrong_type(self.wanted)
        return node.value if node.value in self.words else node.bad_value(self.wanted)


def named_items(node: Node) -> list[Item]:
    """Return the strings of a list, or of one string split at commas, with their positions."""
    if isinstance(node.value, str):
        texts = (each.strip() for each in node.value.split(","))
        return [(text, node.key_place) for text in texts if text]
    items = node.value if isinstance(node.value, list) else []
    return [(each, node.at(n).place) for n, each in enumerate(items) if isinstance(each, str)]


def part(node: Node, key: str, kind: Kind, default: Any) -> Any:
    """Return the value of a key; its default if it is missing or invalid."""
    if key not in node.value:
        return default
    value = kind.read(node.at(key))
    return default if value is WRONG else value


def warn_unknown(node: Node, known: Sequence[str], title: str) -> None:
    """Warn of unknown keys of a mapping, each with the nearest known one."""
    unknown = [key for key in node.value if key not in known and not key.startswith(OWN)]
    for key in unknown[:MOST_UNKNOWN]:
        said = f"unknown field {quoted(key)} in {title}"
        warn(node.at(key), "unknown-field", said, meant(nearest(key, known)))
    if more := unknown[MOST_UNKNOWN:]:
        said = f"there are {len(more)} more unknown fields in {title}"
        warn(node.at(more[0]), "unknown-field", said)


def warn(node: Node, code: str, message: str, suggestion: str | None = None) -> None:
    """Add a warning at the key of a value."""
    severity = Severity.WARNING
    node.document.problem(code, message, node.key_place, suggestion, severity=severity)


def meant(near: str | None) -> str | None:
    """Return the suggestion of the nearest name."""
    return None if near is None else f'did you mean "{near}"?'
