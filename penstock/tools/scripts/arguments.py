"""Checks the arguments of host calls, which a script controls.

The guest sources check arguments, too, but a script may have replaced those checks, so each host
call reads its arguments through these functions. They raise TypeError, which rejects the call in
the script.

Schemas that scripts pass are bounded, because the host checks values against them and nothing can
interrupt it: references that double at each of thirty levels, or a pattern that tries every
combination, would block the event loop. So a schema is measured with its references replaced,
its patterns run in linear time (`is_trusted=False`), and its size times the size of the value is
bounded. Proof: tests/tools/scripts/test_arguments.py.
"""

from collections.abc import Mapping
from typing import Any

from penstock.core.json_values.json_text import compact, without_surrogates
from penstock.core.json_values.schema import Problem, Schema

MAX_CHARACTERS = 1_000_000
MAX_SCHEMA_CHARACTERS = 65_536
"""Most characters of a schema as JSON, with each reference replaced by its target."""
MAX_WORK = 2_000_000_000
"""Characters of the schema times characters of the value. Checking that much takes about 1 s."""
_REFERENCES = ("$ref", "$dynamicRef")


def text(arguments: Any, name: str, *, least: int = 1, most: int = MAX_CHARACTERS) -> str:
    """Return a required text. Lone surrogates are replaced: they cannot be stored as UTF-8."""
    value = arguments.get(name)
    if not isinstance(value, str) or not least <= len(value) <= most:
        raise TypeError(f"{name} must be a text of {least} to {most} characters")
    return without_surrogates(value)


def optional_text(arguments: Any, name: str, *, most: int = MAX_CHARACTERS) -> str | None:
    """Return a text that may be absent or empty."""
    return None if arguments.get(name) is None else text(arguments, name, least=0, most=most)


def number(arguments: Any, name: str, least: float, most: float) -> float:
    """Return a required number within its range, both ends included."""
    value = arguments.get(name)
    # In Python `True` is an int, and NaN fails every comparison.
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise TypeError(f"{name} must be a number from {least:g} to {most:g}")
    return value


def optional_number(arguments: Any, name: str, least: float, most: float) -> float | None:
    """Return a number that may be absent."""
    return None if arguments.get(name) is None else number(arguments, name, least, most)


def items(arguments: Any, name: str) -> list[Any]:
    """Return a list; an empty one if it is absent."""
    value = arguments.get(name, [])
    if not isinstance(value, list | tuple):
        raise TypeError(f"{name} must be a list")
    return list(value)


def mapping(arguments: Any, name: str) -> dict[str, Any]:
    """Return an object; an empty one if it is absent."""
    value = arguments.get(name, {})
    if not isinstance(value, dict):
        raise TypeError(f"{name} must be an object")
    return value


class ScriptSchema:
    """A compiled schema of a script. Raises TypeError if it is invalid or too large."""

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
        if self._characters * len(compact(value)) > MAX_WORK:
            raise TypeError(
                f"a schema of {self._characters} characters is too large for so large a value: "
                "check it in the script, or pass a smaller value"
            )
        return self._schema.problems(value)


def _unfolded(schema: Mapping[str, Any]) -> int:
    """Return roughly how many characters a schema has with its references replaced."""
    # Stopping at the limit also ends a schema that refers to itself.
    count, waiting = 0, [schema]
    while waiting:
        part: Any = waiting.pop()
        match part:
            case dict():
                count += sum(len(name) + 4 for name in part)
                waiting += part.values()
                refs = (part.get(name) for name in _REFERENCES)
                waiting += [_target(schema, ref) for ref in refs if isinstance(ref, str)]
            case list():
                count += len(part) + 2
                waiting += part
            case _:
                count += len(str(part)) + 2
        if count > MAX_SCHEMA_CHARACTERS:
            raise TypeError(
                f"a schema of a script has at most {MAX_SCHEMA_CHARACTERS} characters, "
                "with each reference replaced, and does not refer to itself"
            )
    return count


def _target(schema: Any, ref: str) -> Any:
    """Return the target of a reference; None if there is none, which the compiler reports."""
    if not ref.startswith("#") or ref[1:2] not in {"", "/"}:
        raise TypeError(f"a schema of a script may refer to #/… only, found {ref!r:.80}")
    target = schema
    for part in ref.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        target = target.get(name) if isinstance(target, dict) else None
    return target
