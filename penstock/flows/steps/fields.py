"""Fields of steps in flow files: how each is parsed. Kinds of steps list the fields they have."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.flows.definition import StepRetry
from penstock.manifest.authored_kinds import AuthoredInteger, Names, Outputs, part, warn_unknown
from penstock.manifest.fields import Invalid, Kind, Node
from penstock.manifest.kinds import Boolean, Text

TRIES, SECONDS = (1, 10), (0, 3600)


class MappingOf(Struct, frozen=True, kw_only=True):
    """A mapping of names to values. Names are text as written."""

    wanted: str
    fits: Callable[[Any], bool]
    item_wanted: str

    def read(self, node: Node) -> dict[str, Any] | Invalid:
        """Return the valid values. A missing value is an empty mapping."""
        if node.value is None:
            return {}
        if not isinstance(node.value, dict):
            return node.wrong_type(self.wanted)
        for name, value in node.value.items():
            if not self.fits(value):
                node.at(name).wrong_type(self.item_wanted)
        return {name: value for name, value in node.value.items() if self.fits(value)}


class LenientBoolean(Struct, frozen=True, kw_only=True):
    """A boolean, also as text."""

    wanted: str = "true or false"

    def read(self, node: Node) -> bool | Invalid:
        """Return the value."""
        if isinstance(node.value, str) and node.value.lower() in {"true", "false"}:
            return node.value.lower() == "true"
        return Boolean().read(node)


class RetryKind(Struct, frozen=True, kw_only=True):
    """Retries: `true`, or the number of attempts and the delay."""

    wanted: str = "true or {attempts, delay}"

    def read(self, node: Node) -> StepRetry | Invalid:
        """Return the retry policy."""
        if node.value is True:
            return StepRetry()
        if not isinstance(node.value, dict):
            return node.bad_value(self.wanted) if node.value is False else self._other(node)
        warn_unknown(node, ("attempts", "delay"), "retry")
        tries = StepRetry()
        attempts = part(
            node, "attempts", AuthoredInteger(low=TRIES[0], high=TRIES[1]), tries.attempts
        )
        delay = part(node, "delay", AuthoredInteger(low=SECONDS[0], high=SECONDS[1]), tries.delay)
        return StepRetry(attempts, delay)

    def _other(self, node: Node) -> Invalid:
        return node.wrong_type(self.wanted)


class IgnoredValue(Struct, frozen=True, kw_only=True):
    """A value without effect."""

    wanted: str = "anything"

    def read(self, node: Node) -> Any:
        """Return the value."""
        return node.value


def is_text(value: Any) -> bool:
    """Whether a value is a text."""
    return isinstance(value, str)


def is_plain(value: Any) -> bool:
    """Whether a value is a text, a number or a boolean."""
    return isinstance(value, str | int | float)


TEXTS = MappingOf(wanted="a mapping of texts", fits=is_text, item_wanted="text")
TARGETS = MappingOf(wanted="a mapping of step ids", fits=is_text, item_wanted="a step id")
CONFIG = MappingOf(
    wanted="a mapping of texts, numbers and booleans",
    fits=is_plain,
    item_wanted="text, a number or a boolean",
)
MOST_ITERATIONS = 1000
TEXT = Text(wanted="text")
STEP_ID = Text(wanted="a step id")
AGENT_NAME = Text(wanted="an agent name")
FLAG = Boolean()
COMMON = ("id", "type")
"""Fields of every step; they are read first."""


class StepField(Struct, frozen=True, kw_only=True):
    """A field that steps of a kind may have."""

    key: str
    attribute: str
    """Attribute of the step; empty for a field without effect."""
    value: Kind
    is_needed: bool = False
    new_name: str = ""
    """The current name, if this key is an old one."""


def step_field(key: str, value: Kind, attribute: str | None = None) -> StepField:
    """Return a field. The attribute has the name of the key unless it is given."""
    return StepField(key=key, value=value, attribute=key if attribute is None else attribute)


def needed(field: StepField) -> StepField:
    """Return the field as one that steps must have."""
    return replace(field, is_needed=True)


BLOCKED_BY = step_field(
    "blockedBy", Names(wanted="a list of step ids", item_wanted="a step id"), "blocked_by"
)
AGENT = step_field("agent", AGENT_NAME)
TASK = step_field("task", TEXT)
MODEL = step_field("model", Text(wanted="a model name"))
MAX_ITERATIONS = step_field("max_iterations", AuthoredInteger(low=1, high=MOST_ITERATIONS))
BRANCHES = step_field("branches", TARGETS)
OUTPUTS = step_field("outputs", Outputs())
INPUTS = step_field("inputs", TEXTS)
ON_COMPLETE = step_field("on_complete", STEP_ID)
ON_ERROR = step_field("on_error", STEP_ID)
END = step_field("end", FLAG, "is_last")
RETRY = step_field("retry", RetryKind())
AFTERWARDS = (ON_COMPLETE, ON_ERROR, END, RETRY)
"""Fields of steps that work and do not decide: where control goes, and how often to try."""
