"""The kinds of values in agent files, in addition to those of flows."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from penstock.agents.agent_profile import AgentInput
from penstock.agents.file_settings import parse_settings
from penstock.core.json_values.json_text import compact
from penstock.manifest.authored_kinds import IDENTIFIER, part, required, warn_unknown
from penstock.manifest.fields import WRONG, Field, Invalid, Node, quoted
from penstock.manifest.kinds import Text

INPUT_FIELDS = ("name", "description")
_CONVERTED = ("interactive", "fork_session", "max_turns")
"""Fields that are no texts: a text that was read line by line becomes what it says."""
_WORDS = {"true": True, "false": False}
_DIGITS = 6


class LenientRecord(Struct, frozen=True, kw_only=True):
    """A mapping with a table of its own; what it does not know is warned of."""

    fields: Sequence[Field]
    build: Callable[..., Any]
    wanted: str = "a mapping"

    def read(self, node: Node) -> Any:
        """Return what `build` makes of the fields, by their keys."""
        if not isinstance(node.value, dict):
            return node.wrong_type(self.wanted)
        return self.build(**read_table(node, self.fields, node.name))


class Inputs(Struct, frozen=True, kw_only=True):
    """What the steps of flows give the agent: names, or mappings that say more."""

    wanted: str = "a list of names or of {name, description}"

    def read(self, node: Node) -> tuple[AgentInput, ...] | Invalid:
        """Return the inputs that could be read, each once."""
        if not isinstance(node.value, list):
            return node.wrong_type(self.wanted)
        found = [_input(node.at(number)) for number in range(len(node.value))]
        named = {each.name: each for each in reversed(found) if each is not None}
        return tuple(reversed(named.values()))


class AnyValue(Struct, frozen=True, kw_only=True):
    """Any value: displays show it as it is written."""

    wanted: str = "anything"

    def read(self, node: Node) -> str:
        """Return it as a text."""
        return node.value if isinstance(node.value, str) else compact(node.value)


def read_table(node: Node, fields: Sequence[Field], title: str) -> dict[str, Any]:
    """Return every field of a mapping; what is wrong is noted, and its default stands for it.

    A key with nothing after it is one that is not there.
    """
    warn_unknown(node, [each.key for each in fields], title)
    return {each.key: _field(node, each) for each in fields}


def converted(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings that were read line by line: texts of some fields become what they say."""
    changed = {key: _meant(values[key]) for key in _CONVERTED if key in values}
    if isinstance(values.get("settings"), dict):
        changed["settings"] = parse_settings(values["settings"])
    outputs = values.get("outputs")
    if isinstance(outputs, list):
        changed["outputs"] = [_with_flag(each) for each in outputs]
    return {**values, **changed}


def _field(node: Node, field: Field) -> Any:
    if node.value.get(field.key) is None:
        return field.default
    value = field.kind.read(node.at(field.key))
    return field.default if value is WRONG else value


def _input(node: Node) -> AgentInput | None:
    if isinstance(node.value, str):
        return AgentInput(name=node.value) if _is_name(node) else None
    if not isinstance(node.value, dict):
        node.wrong_type("a name or {name, description}")
        return None
    warn_unknown(node, INPUT_FIELDS, node.name)
    name = required(node, "name", Text(wanted="an identifier"))
    if name is WRONG or not _is_name(node.at("name")):
        return None
    return AgentInput(name=name, description=part(node, "description", Text(wanted="text"), ""))


def _is_name(node: Node) -> bool:
    if IDENTIFIER.fullmatch(node.value):
        return True
    node.refuse("bad-input-name", f"input {quoted(node.value)} must be an identifier")
    return False


def _with_flag(output: Any) -> Any:
    if not isinstance(output, dict) or "required" not in output:
        return output
    return {**output, "required": _meant(output["required"])}


def _meant(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    is_number = value.isascii() and value.isdecimal() and len(value) <= _DIGITS
    return int(value) if is_number else _WORDS.get(value, value)
