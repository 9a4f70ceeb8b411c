"""Parses the typed inputs of a flow."""

from msgspec import Struct

from penstock.core.events.flow_events import ValueType
from penstock.flows.definition import RunInput
from penstock.flows.steps.fields import IgnoredValue
from penstock.manifest.authored_kinds import (
    IDENTIFIER,
    VALUE_TYPE,
    fits,
    part,
    required,
    warn,
    warn_unknown,
)
from penstock.manifest.fields import WRONG, Invalid, Node, quoted
from penstock.manifest.kinds import Boolean, Text

INPUT_FIELDS = ("type", "required", "default", "description")
TASK = "task"
"""Key of the task where task and inputs are given as one mapping."""


class RunInputs(Struct, frozen=True, kw_only=True):
    """The kind of the field `inputs`."""

    wanted: str = "a mapping of names to {type, required, default, description}"

    def read(self, node: Node) -> tuple[RunInput, ...] | Invalid:
        """Return the valid inputs."""
        if node.value is None:
            return ()
        if not isinstance(node.value, dict):
            return node.wrong_type(self.wanted)
        inputs = [_run_input(node.at(name), name) for name in node.value]
        return tuple(each for each in inputs if each is not None)


def _run_input(node: Node, name: str) -> RunInput | None:
    if not IDENTIFIER.fullmatch(name):
        node.refuse(
            "bad-input-name", f"input {quoted(name)} must be an identifier", at=node.key_place
        )
        return None
    if not isinstance(node.value, dict):
        node.wrong_type("{type, required, default, description}")
        return None
    if name == TASK:
        message = (
            f"input {quoted(name)} cannot be given in a chat: the task of the run is meant there"
        )
        warn(node, "task-input", message, 'give it another name, or read "${{task}}"')
    warn_unknown(node, INPUT_FIELDS, node.name)
    word = required(node, "type", VALUE_TYPE)
    if word is WRONG:
        return None
    value_type = ValueType(word)
    default = part(node, "default", IgnoredValue(), None)
    if default is not None and not fits(default, value_type):
        node.at("default").wrong_type(_called(value_type))
    return RunInput(
        name=name,
        value_type=value_type,
        is_required=part(node, "required", Boolean(), default=False),
        default=default,
        description=part(node, "description", Text(wanted="text"), ""),
    )


def _called(value_type: ValueType) -> str:
    article = "an" if value_type in {ValueType.OBJECT, ValueType.ARRAY} else "a"
    return f"{article} {value_type}"
