"""The fields of agent files, and the kinds of their values."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from penstock.agents.agent_profile import NAME, AgentInput, ArchitectNotes, DisplayCard
from penstock.agents.agent_settings import AgentSettings, RequestSettings, parse_settings
from penstock.core.json_values.json_text import compact
from penstock.manifest.authored_kinds import (
    IDENTIFIER,
    AuthoredInteger,
    Names,
    Outputs,
    part,
    required,
    warn_unknown,
)
from penstock.manifest.fields import WRONG, Field, Invalid, Kind, Node, quoted
from penstock.manifest.kinds import Boolean, OneOf, Text
from penstock.models.names import THINKING
from penstock.models.settings import NOTHING_SET
from penstock.resources.project.access import OPEN, Access

INPUT_FIELDS = ("name", "description")
_WORDS = {"true": True, "false": False}
_DIGITS = 6
_CONVERTED = ("interactive", "fork_session", "max_turns")
"""Fields that are not text: front matter that was read line by line needs conversion."""


class LenientRecord(Struct, frozen=True, kw_only=True):
    """A mapping with its own table of fields; unknown keys are warnings."""

    fields: Sequence[Field]
    build: Callable[..., Any]
    expected: str = "a mapping"

    def read(self, node: Node) -> Any:
        """Return the result of `build`, called with the fields by key."""
        if not isinstance(node.value, dict):
            return node.wrong_type(self.expected)
        return self.build(**read_table(node, self.fields, node.name))


class Inputs(Struct, frozen=True, kw_only=True):
    """Inputs that a flow step passes to the agent: names, or mappings with a description."""

    expected: str = "a list of names or of {name, description}"

    def read(self, node: Node) -> tuple[AgentInput, ...] | Invalid:
        """Return the inputs that could be read, each once."""
        if not isinstance(node.value, list):
            return node.wrong_type(self.expected)
        inputs = [_input(node.at(number)) for number in range(len(node.value))]
        named = {each.name: each for each in reversed(inputs) if each is not None}
        return tuple(reversed(named.values()))


class AnyValue(Struct, frozen=True, kw_only=True):
    """Any value: displays show it as written."""

    expected: str = "anything"

    def read(self, node: Node) -> str:
        """Return it as a text."""
        return node.value if isinstance(node.value, str) else compact(node.value)


def read_table(node: Node, fields: Sequence[Field], title: str) -> dict[str, Any]:
    """Return every field of a mapping; report invalid values and use their defaults.

    A key without a value counts as missing.
    """
    warn_unknown(node, [each.key for each in fields], title)
    return {each.key: _field(node, each) for each in fields}


def converted(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the texts of typed fields, in front matter that was read line by line."""
    changed = {key: _typed_value(values[key]) for key in _CONVERTED if key in values}
    for key in ("settings", "model_settings"):
        if isinstance(values.get(key), dict):
            changed[key] = parse_settings(values[key])
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
    name = required(node, "name", Text(expected="an identifier"))
    if name is WRONG or not _is_name(node.at("name")):
        return None
    return AgentInput(name=name, description=part(node, "description", Text(expected="text"), ""))


def _is_name(node: Node) -> bool:
    if IDENTIFIER.fullmatch(node.value):
        return True
    node.refuse("bad-input-name", f"input {quoted(node.value)} must be an identifier")
    return False


def _with_flag(output: Any) -> Any:
    if not isinstance(output, dict) or "required" not in output:
        return output
    return {**output, "required": _typed_value(output["required"])}


def _typed_value(value: Any) -> Any:
    """Convert `true`, `false` and integers. Decimals and null are only for `settings`."""
    if not isinstance(value, str):
        return value
    is_number = value.isascii() and value.isdecimal() and len(value) <= _DIGITS
    return int(value) if is_number else _WORDS.get(value, value)


MAX_TURNS = 1000
SELECTED = "selected_skills"
_TEXT = Text(expected="text")
_PATTERNS = Names(expected="a list of patterns", item_expected="a pattern")
_PATHS = Names(expected="a list of paths", item_expected="a path")


def _row(key: str, kind: Kind, meaning: str, default: Any = None) -> Field:
    return Field(key=key, kind=kind, meaning=meaning, default=default)


def _card(**texts: str) -> DisplayCard:
    return DisplayCard(card_type=texts.pop("type"), **texts)


def _access(
    read: tuple[str, ...] | None, write: tuple[str, ...] | None, bash: tuple[str, ...] | None
) -> Access:
    return Access(read=read, write=write, deny=bash or ())


CARD = tuple(
    _row(key, AnyValue(), "For displays.", "") for key in ("type", "label", "metric", "role")
)
PURPOSE = (
    _row("use_when", _TEXT, "When to choose it. Default: the description.", ""),
    _row("produces", _TEXT, "What it produces.", ""),
    _row("depends_on", _TEXT, "What it needs.", ""),
    _row("domain", _TEXT, "What it knows about.", ""),
)
BASH = (_row("deny", _PATTERNS, "Commands that are refused.", ()),)
ACCESS = (
    _row("read", _PATTERNS, "Files it may read. Default: all that are not protected."),
    _row("write", _PATTERNS, "Files it may write. Default: all that are not protected."),
    _row("bash", LenientRecord(fields=BASH, build=lambda deny: deny), "Its access to the shell."),
)
FIELDS = (
    Field(
        key="name",
        kind=Text(expected="an agent name", form=NAME),
        meaning="What steps and chats call it.",
        required=True,
        default="",
    ),
    _row("description", _TEXT, "One line, for lists and for the flow architect.", ""),
    _row(
        "model",
        Text(expected="a model name", least=1),
        "A configured name, `provider/id` or `@role`; a suffix such as `:high` sets the level of "
        "thinking. Default: the model of the project.",
    ),
    _row(
        "thinking",
        OneOf(words=THINKING),
        "Level of thinking; takes precedence over the suffix of the model.",
    ),
    _row(
        "tools",
        Names(expected="a list of tool names", item_expected="a tool name"),
        "The only tools that it may call, and agents. Without it a chat has all, a flow none.",
    ),
    _row(
        "skills",
        Names(expected="a list of handbook names", item_expected="a handbook name"),
        "Handbooks whose index is in its prompt.",
        (),
    ),
    _row("inputs", Inputs(), "What a step passes to it: `${{input.NAME}}`.", ()),
    _row("outputs", Outputs(), "Fields of its result, which it passes to `finish`.", ()),
    _row("interactive", Boolean(), "Whether it may ask a person.", default=True),
    _row("output", _TEXT, "Hint for the agent: the name of the file to write.", ""),
    _row("context_files", _PATHS, "Files whose text is in its prompt.", ()),
    _row("context", _PATHS, "Another name for `context_files`.", ()),
    _row("fork_session", Boolean(), "Has no effect.", default=False),
    _row(
        "access",
        LenientRecord(fields=ACCESS, build=_access),
        "Its access to the project.",
        OPEN,
    ),
    _row("card", LenientRecord(fields=CARD, build=_card), "How displays show it.", DisplayCard()),
    _row(
        "architect",
        LenientRecord(fields=PURPOSE, build=ArchitectNotes),
        "Notes for the flow architect.",
        ArchitectNotes(),
    ),
    _row(
        "max_turns",
        AuthoredInteger(low=1, high=MAX_TURNS),
        "Model calls in one visit of a step; in a chat at most 50.",
    ),
    _row(
        SELECTED,
        Names(expected="a list of skill ids", item_expected="a skill id"),
        "In a chat: the skills selected from the start.",
        (),
    ),
    _row(
        "labels",
        Names(expected="a list of texts"),
        "In a chat: labels for skills with `requires_labels`.",
        (),
    ),
    _row(
        "handoffs",
        Names(expected="a list of agent names", item_expected="an agent name"),
        "In a chat: the agents that its model can hand the conversation off to.",
        (),
    ),
    _row("settings", AgentSettings(), "Its limits, budgets and permissions.", {}),
    _row(
        "model_settings",
        RequestSettings(),
        "Settings of its requests to the model; they take precedence over those of the project.",
        NOTHING_SET,
    ),
)
"""In the order of the page. Skills and labels are read by chats alone, `model` and `tools` by both,
and of the settings budgets and iterations by chats alone."""
