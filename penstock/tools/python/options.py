"""The options of `@tool`, and the checks of their values."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypedDict

from msgspec import Struct

from penstock.core.call import ONCE, Effect, RetryPolicy
from penstock.core.envelope import Json
from penstock.core.json_values.schema import Schema
from penstock.tools.spec import Exclusive

TOOL_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
MAX_SECONDS = 3600
MAX_ATTEMPTS = 10
MAX_BACKOFF = 600
RESERVED = ("egress", "trust", "trusted_source")
"""Options that are checked and have no effect yet."""
TRUST = ("off", "ask", "deny")


class Retry(Struct, frozen=True):
    """How often a call is retried after a retryable error, and how long it waits before.

    Timeouts and `ToolFailed(..., retryable=True)` are retryable, also those of a tool that writes.

    Example:
        >>> from penstock import Retry, tool
        >>> @tool(effect="read", retry=Retry(attempts=5, initial=1))
        ... def weather(city: str) -> str:
        ...     '''Return the weather of a city.'''
        ...     return "rain"
        >>> weather.spec.retry.max_attempts
        5
    """

    attempts: int = 3
    """Attempts in total, 1 to 10."""
    initial: float = 0.2
    """Seconds before the second attempt, at most 600."""
    multiplier: float = 2
    """Factor of each further wait, 1 to 600."""
    maximum: float = 10
    """The longest wait in seconds, at most 600."""

    def policy(self) -> RetryPolicy:
        """Return the policy that the invoker follows."""
        return RetryPolicy(
            max_attempts=self.attempts,
            initial_backoff_ms=round(1000 * self.initial),
            multiplier=self.multiplier,
            max_backoff_ms=round(1000 * self.maximum),
        )


class RevertTool(Protocol):
    """A function with `@tool`, in the option `revert` of another one."""

    @property
    def tool_id(self) -> str:
        """Its id."""


class Options(TypedDict, total=False):
    """The arguments of `@tool`. The defaults assume the most dangerous tool."""

    id: str
    """The tool's id for callers; default: the function's name."""
    description: str
    """Default: the docstring without its parameters, which go into the schema."""
    effect: Literal["none", "read", "write"]
    """Its effect, which decides what happens after a crash; default `write`."""
    idempotent: bool
    """A write that may run again with the same `idempotency_key`."""
    requires_approval: bool | Json
    """A person must approve the call; `{"when": schema}`: only if the input matches."""
    direct_call: bool
    """Callable by people and programs, and by any script."""
    requires_permissions: Sequence[str]
    """Permissions that the profile must hold, all of them."""
    labels: Sequence[str]
    """For filters and rules."""
    timeout: float
    """Seconds of one attempt; default 60."""
    retry: Retry | None
    """How often a temporary failure is retried, such as `Retry(attempts=3)`."""
    exclusive: Exclusive
    """True: runs alone in its reply. A key, or a function from input to key: runs in turn."""
    input_schema: Json
    """A JSON Schema from elsewhere instead of hints; the function gets one dict, or the properties
    as keyword arguments."""
    output_schema: Json | None
    """Default: the schema of the return hint (JSON, a dataclass, a pydantic model, a struct)."""
    state: str
    """A family of tools that share `ctx.state.session` and `.profile`; default: the tool alone."""
    revert: "str | RevertTool"
    """The tool, or its id, that takes a call of this tool back. It gets `{input, output}`."""
    egress: bool
    """It sends data out. Has no effect yet."""
    trust: Literal["off", "ask", "deny"] | None
    """The decision about a call that would send out untrusted text. Has no effect yet."""
    trusted_source: bool
    """Whether its output is trusted text. Has no effect yet."""


def retry_policy(retry: Retry | None) -> RetryPolicy:
    """Return the retry policy of a tool; None means one attempt."""
    return ONCE if retry is None else retry.policy()


def revert_id(revert: Any) -> Any:
    """Return the id in a value of the option `revert`."""
    return getattr(revert, "tool_id", revert)


def wrong_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the invalid options, each with what would be valid."""
    checks = ((check, options[check[0]]) for check in _CHECKS if check[0] in options)
    return {name: valid for (name, valid, fits), value in checks if not fits(value)}


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_effect(value: Any) -> bool:
    return isinstance(value, str) and value in [*Effect]


def _is_trust(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value in TRUST)


def _is_number(value: Any, least: float, most: float) -> bool:
    return isinstance(value, int | float) and not _is_bool(value) and least <= value <= most


def _is_whole(value: Any) -> bool:
    return isinstance(value, int)


def _is_timeout(value: Any) -> bool:
    return _is_number(value, 0, MAX_SECONDS) and value > 0


def _is_retry(value: Any) -> bool:
    if not isinstance(value, Retry):
        return value is None
    return (
        _is_whole(value.attempts)
        and _is_number(value.attempts, 1, MAX_ATTEMPTS)
        and _is_number(value.initial, 0, MAX_BACKOFF)
        and _is_number(value.maximum, 0, MAX_BACKOFF)
        and _is_number(value.multiplier, 1, MAX_BACKOFF)
    )


def _is_approval(value: Any) -> bool:
    if _is_bool(value):
        return True
    return isinstance(value, Mapping) and set(value) == {"when"} and _is_schema(value["when"])


def _is_schema(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    try:
        Schema(value)
    except (TypeError, ValueError):
        return False
    return True


def is_input_schema(value: Any) -> bool:
    """Whether a value of the option `input_schema` is valid."""
    return isinstance(value, Mapping) and value.get("type") == "object" and _is_schema(value)


def _is_family(value: Any) -> bool:
    return isinstance(value, str) and TOOL_ID.fullmatch(value) is not None


def _is_revert(value: Any) -> bool:
    return _is_family(revert_id(value))


def _is_output(value: Any) -> bool:
    return value is None or _is_schema(value)


def _is_list(value: Any) -> bool:
    if isinstance(value, str) or not isinstance(value, Sequence | frozenset | set):
        return False
    return all(isinstance(each, str) and each for each in value)


def _is_exclusive(value: Any) -> bool:
    return callable(value) or (isinstance(value, bool | str) and value != "")


_CHECKS: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    ("id", "a text", _is_text),
    ("description", "a text", _is_text),
    ("effect", "one of none, read, write", _is_effect),
    ("idempotent", "True or False", _is_bool),
    ("requires_approval", "True, False or {'when': schema}", _is_approval),
    ("direct_call", "True or False", _is_bool),
    ("requires_permissions", "a list of permissions", _is_list),
    ("labels", "a list of texts", _is_list),
    ("timeout", f"a number up to {MAX_SECONDS} seconds", _is_timeout),
    ("retry", f"a Retry of 1 to {MAX_ATTEMPTS} attempts, or None", _is_retry),
    ("exclusive", "True, False, a key or a function", _is_exclusive),
    ("input_schema", "a JSON Schema with type: object, without remote references", is_input_schema),
    ("output_schema", "a JSON Schema, or None", _is_output),
    ("state", f"a name that matches {TOOL_ID.pattern}", _is_family),
    ("revert", "a tool with @tool, or the id of a tool", _is_revert),
    ("egress", "True or False", _is_bool),
    ("trust", "one of off, ask, deny, or None", _is_trust),
    ("trusted_source", "True or False", _is_bool),
)
