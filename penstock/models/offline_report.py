"""Describes results of tools in words for people, within bounded lengths."""

import json
from collections.abc import Sequence
from typing import Any

from penstock.core.json_values.json_text import parse_json
from penstock.core.messages import ToolMessage
from penstock.core.text import cut, one_line

MAX_CHARS = 3000
MAX_LINES = 10
CELL_CHARS = 300


def report(results: Sequence[ToolMessage]) -> str:
    """Describe each result, in the order of the calls."""
    return "\n\n".join(_success(result) if result.ok else _failure(result) for result in results)


def values_in(results: Sequence[ToolMessage]) -> str:
    """Return the values of the successful calls in one line, or the failures if none succeeded.

    Names of tools are left out: the text becomes the result of a step, and a model that reads it
    would take a name for an order.
    """
    values = [_value(result) for result in results if result.ok]
    failures = [f"It failed: {_reason(result)}" for result in results if not result.ok]
    return cut("; ".join(values or failures), MAX_CHARS)


def found_values(results: Sequence[ToolMessage]) -> dict[str, Any]:
    """Return the members of all successful results. Of one name the first value counts."""
    members: dict[str, Any] = {}
    for result in results:
        value = _parsed(result.content) if result.ok else None
        if isinstance(value, dict):
            members = {**value, **members}
    return members


def _value(result: ToolMessage) -> str:
    value = _parsed(result.content)
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_cell(each)}" for key, each in value.items()) or "nothing"
    if isinstance(value, list):
        return ", ".join(map(_item, value[:MAX_LINES])) or "nothing"
    return _cell(value).rstrip(".") if value is not None else "nothing"


def _success(result: ToolMessage) -> str:
    shown = _shown(_parsed(result.content))
    gap = "\n" if "\n" in shown or shown.startswith("- ") else " "
    return f"`{result.name}` returned:{gap}{cut(shown, MAX_CHARS)}"


def _failure(result: ToolMessage) -> str:
    return f"`{result.name}` failed: {cut(_reason(result), MAX_CHARS)}"


def _reason(result: ToolMessage) -> str:
    match _parsed(result.content):
        case {"error": str(message), **rest}:
            code = f" ({rest['code']})" if rest.get("code") else ""
            advice = f" {rest['suggestion']}" if rest.get("suggestion") else ""
            return f"{message.rstrip('.')}{code}.{advice}"
        case other:
            return _shown(other)


def _parsed(content: str) -> Any:
    try:
        return parse_json(content)
    except (ValueError, RecursionError):
        return content


def _shown(value: Any) -> str:
    match value:
        case str():
            return value
        case {"message": str(text), **rest} if rest:
            return f"{text}\n{_shown(rest)}"
        case {"results": list(items)} if len(value) == 1:
            return _shown(items)
        case dict() | list() if value:
            return _lines([f"- {entry}" for entry in _entries(value)])
        case dict() | list() | None:
            return "nothing."
        case _:
            return f"{json.dumps(value)}."


def _entries(value: dict[str, Any] | list[Any]) -> list[str]:
    if isinstance(value, list):
        return [_item(each) for each in value]
    return [f"{key}: {_cell(each)}" for key, each in value.items()]


def _item(value: Any) -> str:
    if isinstance(value, dict) and value:
        return "; ".join(_entries(value))
    return _cell(value)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return cut(one_line(value[: CELL_CHARS * 4]), CELL_CHARS)
    return cut(json.dumps(value, ensure_ascii=False), CELL_CHARS)


def _lines(lines: list[str]) -> str:
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], f"- … and {len(lines) - MAX_LINES} more"]
    return "\n".join(lines)
