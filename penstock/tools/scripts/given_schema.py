"""JSON Schemas that scripts hand in: what it costs to check something against one is bounded.

The host checks, and nothing can stop it: references that double at each of thirty levels, or a
pattern that tries everything, would hold up all that it does.
"""

from collections.abc import Mapping
from typing import Any

from penstock.core.json_values.json_text import compact
from penstock.core.json_values.schema import Problem, Schema

MOST_CHARACTERS = 65_536
"""Of a schema as JSON, with what it refers to in the place of each reference."""
MOST_WORK = 2_000_000_000
"""Characters of the schema times those of the value: about a second."""
_REFERENCES = ("$ref", "$dynamicRef")


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
        if count > MOST_CHARACTERS:
            raise TypeError(
                f"a schema that a script gives has at most {MOST_CHARACTERS} characters, each "
                "reference written out, and does not refer to itself"
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
