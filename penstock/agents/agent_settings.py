"""The fields under `settings` and `model_settings` in agent files, with their types and ranges."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.errors import ConfigError
from penstock.manifest.authored_kinds import AuthoredInteger, Names
from penstock.manifest.fields import Field, Invalid, Kind, Node, quoted, read_fields
from penstock.manifest.kinds import (
    TIME_ZONE,
    Boolean,
    CheckedText,
    ListOf,
    Number,
    OneOf,
    Text,
)
from penstock.models.names import THINKING
from penstock.models.settings import (
    CACHE_TTLS,
    MAX_STOP_CHARS,
    MAX_STOPS,
    MAX_TOKENS,
    NOTHING_SET,
    RANGES,
    ModelSettings,
)

ELSEWHERE = {
    "enabled_tools": '"tools"',
    "labels": '"labels"',
    "llm_model": '"model"',
    "llm_system_prompt": "the text below the front matter",
    "selected_skills": '"selected_skills"',
}
"""Settings that a file gives outside `settings`, and where."""
ACTIONS = ("allow", "ask", "deny")
_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?")
_WORDS = {"true": True, "false": False, "null": None}


class Nullable(Struct, frozen=True, kw_only=True):
    """A value of another kind, or null."""

    kind: Kind

    @property
    def expected(self) -> str:
        """The requirement, for messages."""
        return f"{self.kind.expected}, or null"

    def read(self, node: Node) -> Any:
        """Return the value, or None."""
        return None if node.value is None else self.kind.read(node)


class Permissions(Struct, frozen=True, kw_only=True):
    """Permissions by tool: allow, ask or deny."""

    expected: str = "a mapping of tool names to allow, ask or deny"

    def read(self, node: Node) -> dict[str, str] | Invalid:
        """Return the valid entries, action by tool; report the others."""
        if not isinstance(node.value, dict):
            return node.wrong_type(self.expected)
        for tool, action in node.value.items():
            if action not in ACTIONS:
                node.at(tool).bad_value(f"one of {', '.join(ACTIONS)}")
        return {tool: action for tool, action in node.value.items() if action in ACTIONS}


class AgentSettings(Struct, frozen=True, kw_only=True):
    """The settings in a file, by name; missing ones have their defaults."""

    expected: str = "a mapping"

    @property
    def fields(self) -> Sequence[Field]:
        """The field's kind."""
        return SETTINGS

    def read(self, node: Node) -> dict[str, Any] | Invalid:
        """Return the given settings; report unknown names."""
        if not isinstance(node.value, dict):
            return node.wrong_type(self.expected)
        for key in ELSEWHERE.keys() & node.value.keys():
            problem = f"{quoted(key)} is not a member of {node.title}"
            message = f"{problem}: it is {ELSEWHERE[key]} in a file"
            node.refuse("unknown-key", message, at=node.at(key).key_place)
        own = {key: value for key, value in node.value.items() if key not in ELSEWHERE}
        read = read_fields(replace(node, value=own), SETTINGS)
        return {key: read[key] for key in own if key in read}


class JsonMapping(Struct, frozen=True, kw_only=True):
    """A mapping of JSON."""

    expected: str = "a mapping"

    def read(self, node: Node) -> dict[str, Any] | Invalid:
        """Return it as written."""
        return node.value if isinstance(node.value, dict) else node.wrong_type(self.expected)


class RequestSettings(Struct, frozen=True, kw_only=True):
    """The settings of an agent's requests to its model; null leaves one to the next level."""

    expected: str = "a mapping"

    @property
    def fields(self) -> Sequence[Field]:
        """The field's kind."""
        return MODEL_SETTINGS

    def read(self, node: Node) -> ModelSettings | Invalid:
        """Return the given settings; report unknown names and values out of range."""
        if not isinstance(node.value, dict):
            return node.wrong_type(self.expected)
        given = {key: value for key, value in node.value.items() if value is not None}
        read = read_fields(replace(node, value=given), MODEL_SETTINGS)
        values = {key: value for key, value in read.items() if value is not None}
        try:
            return ModelSettings(**values) if values else NOTHING_SET
        except ValueError as error:  # what the table cannot say, such as an `extra` with a date
            return node.refuse("bad-value", f'"{node.name}": {error}')


def parse_settings(texts: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the texts of settings that were read line by line."""
    return {key: _typed_value(value) for key, value in texts.items()}


def _typed_value(value: Any) -> Any:
    """Convert a text to a boolean, number or null if it is one; return other values as is."""
    if not isinstance(value, str):
        return value
    if _NUMBER.fullmatch(value):
        return float(value) if "." in value else int(value)
    return _WORDS.get(value, value)


def _row(key: str, kind: Kind, meaning: str) -> Field:
    return Field(key=key, kind=kind, meaning=meaning)


SETTINGS = (
    _row("tools_enabled", Boolean(), "Whether it is offered tools."),
    _row("llm_temperature", Number(low=0, high=2), "Sampling temperature of the model."),
    _row("llm_max_tokens", AuthoredInteger(low=1, high=200_000), "Tokens of one reply."),
    _row(
        "tool_permissions",
        Permissions(),
        "Tools that it may call, and those that a person must approve.",
    ),
    _row(
        "skills",
        Nullable(kind=Names(expected="a list of skill ids", item_expected="a skill id")),
        "Skills that may be selected in a chat.",
    ),
    _row(
        "max_iterations",
        AuthoredInteger(low=1, high=50),
        "Replies with calls; takes precedence over `max_turns`.",
    ),
    _row(
        "max_parallel_tools",
        AuthoredInteger(low=1, high=32),
        "Calls of one reply that run at once.",
    ),
    _row(
        "loop_window",
        AuthoredInteger(low=1, high=100),
        "Number of newest calls in which equal ones are counted.",
    ),
    _row(
        "loop_max_repeats",
        AuthoredInteger(low=0, high=100),
        "Equal calls that run; 0 means no limit.",
    ),
    _row("loop_cycles", Boolean(), "Whether cycles are stopped."),
    _row(
        "loop_no_progress",
        AuthoredInteger(low=0, high=50),
        "Rounds of calls without a new result before one is blocked.",
    ),
    _row(
        "result_max_chars",
        AuthoredInteger(low=500, high=200_000),
        "Characters of a result that the model reads.",
    ),
    _row("tool_images", Boolean(), "Whether the model gets the images in results of tools."),
    _row(
        "context_max_tokens",
        Nullable(kind=AuthoredInteger(low=1_000, high=2_000_000)),
        "Largest request in tokens.",
    ),
    _row(
        "budget_tool_calls", AuthoredInteger(low=1, high=1_000_000), "Calls of tools in one task."
    ),
    _row(
        "budget_model_calls",
        AuthoredInteger(low=1, high=100_000),
        "Calls of the model in one task.",
    ),
    _row(
        "budget_tokens",
        Nullable(kind=AuthoredInteger(low=1_000, high=10**9)),
        "Tokens of one task.",
    ),
    _row(
        "budget_cost_usd",
        Nullable(kind=Number(low=0.001, high=10_000)),
        "Cost limit of one task; its model needs a price.",
    ),
    _row("budget_seconds", Number(low=1, high=86_400), "Working time of one task in seconds."),
    _row(
        "question_ttl_seconds",
        Nullable(kind=Number(low=60, high=31_536_000)),
        "Seconds that a question waits for a person.",
    ),
    _row("calendar_timezone", TIME_ZONE, "The time zone of its schedules that name none."),
)


_NAMES = Names(expected="a list of names")
_ROWS: dict[str, Kind] = {
    **{row.key: row.kind for row in SETTINGS},
    **dict.fromkeys(("enabled_tools", "labels", "selected_skills"), _NAMES),
}


_CHECKED = "is checked"


def check_settings(settings: Any, kind: Any) -> None:
    """Check the settings of an agent in a program: their types, and that each can work.

    Numbers may be smaller than those in files, such as a budget of half a second in a test, and
    whole numbers larger: the program decides how long its own agents work.

    Args:
        settings: What the program gave.
        kind: The class that it has to be of.

    Raises:
        TypeError: It is of another class.
        ConfigError: A value has another type, or is out of range.
    """
    if not isinstance(settings, kind):
        raise TypeError(
            "settings= takes ChatSettings, such as ChatSettings(max_iterations=3), "
            f"found {settings!r}"
        )
    # Programs give one object to many agents; cached properties are in the same dict.
    known = vars(settings)
    if _CHECKED in known:
        return
    defaults = kind()
    for key in settings.__struct_fields__:
        value = getattr(settings, key)
        if value != getattr(defaults, key) and (wanted := _wanted(_ROWS.get(key), value)):
            raise ConfigError(f"{key} of ChatSettings must be {wanted}; found {value!r}")
    known[_CHECKED] = True


def _wanted(kind: Kind | None, value: Any) -> str:
    """Return what a value must be; empty if it is that."""
    if isinstance(kind, Nullable):
        kind = kind.kind
    match kind:
        case AuthoredInteger(low=low):
            is_fine = type(value) is int and value >= min(low, 1)
            wanted = f"a whole number, {min(low, 1)} or more"
        case Number(low=low, high=high):
            is_fine = type(value) in {int, float} and (0 < value <= high or value == low)
            wanted = f"a number {'above' if low else 'from'} 0 to {high:,}"
        case Boolean():
            is_fine, wanted = isinstance(value, bool), "True or False"
        case Permissions():
            is_map = isinstance(value, Mapping)
            is_fine = is_map and all(each in ACTIONS for each in value.values())
            wanted = "a mapping of tools to 'allow', 'ask' or 'deny'"
        case Names():
            is_fine = isinstance(value, list | tuple) and all(isinstance(x, str) for x in value)
            wanted = "a list of names"
        case CheckedText():
            is_fine, wanted = isinstance(value, str) and not kind.check(value), kind.expected
        case _:
            is_fine, wanted = isinstance(value, str), "a text"
    return "" if is_fine else wanted


def _number(name: str) -> Number:
    low, high = RANGES[name]
    return Number(low=low, high=high)


MODEL_SETTINGS = (
    _row("temperature", _number("temperature"), "Sampling temperature."),
    _row("top_p", _number("top_p"), "Share of the probability mass for sampling."),
    _row(
        "max_tokens",
        AuthoredInteger(low=1, high=MAX_TOKENS),
        "Longest reply in tokens, without the room that a level of thinking adds.",
    ),
    _row(
        "stop",
        ListOf(
            item=Text(expected="a text", least=1, most=MAX_STOP_CHARS),
            expected=f"a list of at most {MAX_STOPS} texts",
            most=MAX_STOPS,
        ),
        "Texts that end the reply.",
    ),
    _row("seed", AuthoredInteger(low=-(2**63), high=2**63 - 1), "Seed for sampling."),
    _row("thinking", OneOf(words=THINKING), "Level of thinking; takes precedence over `thinking`."),
    _row("parallel_calls", Boolean(), "Whether one reply may ask for several calls."),
    _row(
        "tool_choice",
        Text(expected="auto, none, required or the id of a tool", least=1),
        "Whether it must call a tool, and which.",
    ),
    _row("timeout", _number("timeout"), "Seconds that one reply may take."),
    _row("cache_ttl", OneOf(words=CACHE_TTLS), "How long the provider keeps its prompt."),
    _row("extra", JsonMapping(), "Members to add to the body of its requests; null removes one."),
)
"""One row for each setting of `ModelSettings`."""
