"""Arguments of host calls: a script may have got around the checks of its own world."""

from typing import Any

from penstock.core.json_values.json_text import without_surrogates

MOST_CHARACTERS = 1_000_000


def text(arguments: Any, name: str, *, least: int = 1, most: int = MOST_CHARACTERS) -> str:
    """Return a member that must be a text. Raises TypeError."""
    value = arguments.get(name)
    if not isinstance(value, str) or not least <= len(value) <= most:
        raise TypeError(f"{name} must be a text of {least} to {most} characters")
    return without_surrogates(value)


def optional_text(arguments: Any, name: str, *, most: int = MOST_CHARACTERS) -> str | None:
    """Return a member that may be left out, or empty. Raises TypeError."""
    return None if arguments.get(name) is None else text(arguments, name, least=0, most=most)


def number(arguments: Any, name: str, least: float, most: float) -> float:
    """Return a member that must be a number in its range. Raises TypeError."""
    value = arguments.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise TypeError(f"{name} must be a number from {least:g} to {most:g}")
    return value


def optional_number(arguments: Any, name: str, least: float, most: float) -> float | None:
    """Return a number that may be left out. Raises TypeError."""
    return None if arguments.get(name) is None else number(arguments, name, least, most)


def items(arguments: Any, name: str) -> list[Any]:
    """Return a member that must be a list; an empty one when it is left out. Raises TypeError."""
    value = arguments.get(name, [])
    if not isinstance(value, list | tuple):
        raise TypeError(f"{name} must be a list")
    return list(value)


def mapping(arguments: Any, name: str) -> dict[str, Any]:
    """Return a member that must be an object; an empty one when it is left out."""
    value = arguments.get(name, {})
    if not isinstance(value, dict):
        raise TypeError(f"{name} must be an object")
    return value
