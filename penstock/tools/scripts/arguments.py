"""Checks the arguments of host calls, which a script controls.

The guest sources check arguments, too, but a script may have replaced those checks, so each host
call reads its arguments through these functions. They raise TypeError, which rejects the call in
the script.

Schemas that scripts pass are bounded, because the host checks values against them and nothing can
interrupt it: references that double at each of thirty levels, or a pattern that tries every
combination, would block the event loop. So a schema is measured with its references written out,
its patterns run in linear time (`is_trusted=False`), and its size times the size of the value is
bounded. Proof: tests/tools/scripts/test_arguments.py.
"""

from collections.abc import Mapping
from typing import Any

from penstock.core.json_values.json_text import compact, without_surrogates
from penstock.core.json_values.schema import Problem, Schema

MOST_CHARACTERS = 1_000_000
MOST_SCHEMA_CHARACTERS = 65_536
"""Of a schema as JSON, with what it refers to in the place of each reference."""
MOST_WORK = 2_000_000_000
"""Characters of the schema times those of the value: about a second."""
_REFERENCES = ("$ref", "$dynamicRef")


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


class GivenSchema:
    """A schema of a script, compiled. Raises TypeError for what is none, or too large."""

    def __init__(self, schema: Any) -> None:
        if not isinstance(schema, dict):
            raise TypeError("a schema must be an object")
        self._characters = _unfolded(schema)
        try:
            self._schema = Schema(schema, is_trusted=False)
        except ValueError as error:
            raise TypeError(f"not a JSON Schema (2020-12): {error}") from None

    def problems(self, value: Any) -> list[Problem]:
        """Return the problems of a value. Raises TypeError if the check would take too long."""
        if self._characters * len(compact(value)) > MOST_WORK:
            raise TypeError(
                f"a schema of {self._characters} characters is too large for so large a value: "
                "check it in the script, or give less"
            )
        return self._schema.problems(value)


def _unfolded(schema: Mapping[str, Any]) -> int:
    """Return about how many characters a schema has without references."""
    count, waiting = 0, [schema]
    while waiting:
        each: Any = waiting.pop()
        match each:
            case dict():
                count += sum(len(name) + 4 for name in each)
                waiting += each.values()
                refs = (each.get(name) for name in _REFERENCES)
                waiting += [_target(schema, ref) for ref in refs if isinstance(ref, str)]
            case list():
                count += len(each) + 2
                waiting += each
            case _:
                count += len(str(each)) + 2
        if count > MOST_SCHEMA_CHARACTERS:
            raise TypeError(
                f"a schema that a script gives has at most {MOST_SCHEMA_CHARACTERS} characters, "
                "each reference written out, and does not refer to itself"
            )
    return count


def _target(schema: Any, ref: str) -> Any:
    """Return what a reference leads to; the compiler says so if that is nothing."""
    if not ref.startswith("#") or ref[1:2] not in {"", "/"}:
        raise TypeError(f"a schema that a script gives refers by #/… alone, found {ref!r:.80}")
    found = schema
    for part in ref.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found
