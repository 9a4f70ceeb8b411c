"""Inputs of a run: KEY=VALUE options, and prompts for missing ones."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import typer

from penstock.cli.terminal.keyboard import read_line
from penstock.cli.terminal.plain import hanging
from penstock.core.events.flow_events import ValueType
from penstock.core.json_values.json_text import parse_json
from penstock.core.messages import MissingArguments
from penstock.flows.definition import RunInput


def read_pairs(pairs: Iterable[str]) -> dict[str, str]:
    """Return the texts of KEY=VALUE pairs. Raises BadParameter for a malformed pair."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise typer.BadParameter(f"an input has the form KEY=VALUE, found {pair!r}")
        found[key] = text
    return found


def values_of(texts: Mapping[str, str], declared: Sequence[RunInput]) -> dict[str, Any]:
    """Parse texts as JSON. A text that is not JSON, or whose input is a string, stays a text."""
    texts_wanted = {each.name for each in declared if each.value_type is ValueType.STRING}
    return {name: _value(text, is_text=name in texts_wanted) for name, text in texts.items()}


def asked_for(wanted: Mapping[str, MissingArguments], given: Collection[str]) -> dict[str, Any]:
    """Prompt for each wanted input that was not given. A blank line omits it."""
    typed: dict[str, Any] = {}
    for name in [each for each in wanted if each not in given]:
        try:
            text = read_line(f"{hanging(wanted[name].question)}> ").strip()
        except EOFError:
            break
        if text:
            typed[name] = wanted[name].value_of(text)
    return typed


def _value(text: str, *, is_text: bool) -> Any:
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        return text
    return text if is_text and not isinstance(value, str) else value
