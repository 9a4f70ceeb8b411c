"""What a run at a terminal begins with: what was written, and what its person is asked for."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import typer

from penstock.cli.terminal.keyboard import read_line
from penstock.cli.terminal.plain import hanging
from penstock.core.events.step import ValueType
from penstock.core.json_values.json_text import parse_json
from penstock.core.messages import MissingArguments
from penstock.flows.definition import RunInput


def read_pairs(pairs: Iterable[str]) -> dict[str, str]:
    """Return the texts of `key=value`s. Raises BadParameter for what is none."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise typer.BadParameter(f"an input is key=value, found {pair!r}")
        found[key] = text
    return found


def values_of(texts: Mapping[str, str], declared: Sequence[RunInput]) -> dict[str, Any]:
    """Return what texts mean: one that is JSON is that, unless its flow wants a text."""
    texts_wanted = {each.name for each in declared if each.value_type is ValueType.STRING}
    return {name: _value(text, is_text=name in texts_wanted) for name, text in texts.items()}


def asked_for(wanted: Mapping[str, MissingArguments], there: Collection[str]) -> dict[str, Any]:
    """Ask the person for what is wanted and not there; what they leave blank stays away."""
    said: dict[str, Any] = {}
    for name in [each for each in wanted if each not in there]:
        try:
            text = read_line(f"{hanging(wanted[name].question)}> ").strip()
        except EOFError:
            break
        if text:
            said[name] = wanted[name].value_of(text)
    return said


def _value(text: str, *, is_text: bool) -> Any:
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        return text
    return text if is_text and not isinstance(value, str) else value
