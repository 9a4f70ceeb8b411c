"""`*.tool.yaml`: one tool, its script, and the resources that it may use."""

import re
from typing import Any

from msgspec import Struct

from penstock.core.call import ONCE, Effect, RetryPolicy
from penstock.core.envelope import Json
from penstock.manifest.bindings import STATE, VAULT, StateBinding, VaultKey, refuse_overlaps
from penstock.manifest.execution import EXECUTION, Execution
from penstock.manifest.fields import Field, Invalid, Node, read_fields
from penstock.manifest.kinds import (
    Boolean,
    Id,
    Integer,
    JsonSchema,
    ListOf,
    NonEmptyText,
    Number,
    OneOf,
    RecordKind,
    Text,
    from_fields,
    refuse_doubles,
)

_NAME = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST = rf"(\*|(\*\.)?{_NAME}(\.{_NAME})*|\[[0-9A-Fa-f:.]+\])"
_PORT = "[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"
_PATTERN = re.compile(rf"(https?://)?{_HOST}(:({_PORT}))?")


class ToolLimits(Struct, frozen=True, kw_only=True):
    """Limits of one call of the tool."""

    memory_mb: int | None = None
    nested_calls: int | None = None
    log_bytes: int | None = None


DEFAULT_LIMITS = ToolLimits()
"""No limits of its own: the project's limits apply."""


class ToolManifest(Struct, frozen=True, kw_only=True):
    """One tool as its author wrote it, with every default filled in."""

    tool_id: str
    description: str
    input_schema: Json
    execution: Execution
    timeout_ms: int | None = None
    """None means the project's timeout."""
    retry_policy: RetryPolicy = ONCE
    vault: tuple[VaultKey, ...] = ()
    state: tuple[StateBinding, ...] = ()
    direct_call: bool = False
    script_tools: tuple[str, ...] = ()
    requires_permissions: tuple[str, ...] = ()
    output_schema: Json | None = None
    effect: Effect = Effect.WRITE
    idempotent: bool = False
    requires_approval: bool | Json = False
    """`{"when": schema}` requires approval only if the input matches."""
    egress: tuple[str, ...] | None = None
    """None means the project's setting."""
    labels: tuple[str, ...] = ()
    limits: ToolLimits = DEFAULT_LIMITS
    trust: str | None = None
    trusted_source: bool = False
    revert: str | None = None
    """The tool that takes a call back."""
    file: str
    """Relative to the project."""
    line: int
    """The line of the id."""
    folder: str
    """The folder of scripts and imports, relative to the project; `.` is the project."""
    skill: str | None = None
    """The skill that defines the tool inline."""


def read_tool(node: Node, *, skill: str | None = None) -> ToolManifest | Invalid:
    """Return the tool in a mapping; an invalid field is reported and has its default.

    Returns WRONG only if the node is not a mapping.
    """
    if not isinstance(node.value, dict):
        return node.wrong_type("a mapping")
    values = read_fields(node, FIELDS)
    for noun, key, name in _ONCE:
        refuse_doubles(node.at(key), noun, name)
    refuse_overlaps(node.at("state"))
    for key in _RESERVED:
        if key in node.value and values[key] is not None:
            message = f'"{key}" is reserved and has no effect yet'
            node.warn("reserved-key", message, at=node.at(key).key_place)
    return ToolManifest(
        tool_id=values.pop("name") or "",
        execution=values.pop("execution") or _no_execution(node),
        **values,
        file=node.document.file,
        line=node.line_of("name"),
        folder=node.home.shown,
        skill=skill,
    )


def _no_execution(node: Node) -> Execution:
    return Execution(script_at=node.place)


class _Approval(Struct, frozen=True, kw_only=True):
    """Whether the tool requires approval: always, never, or depending on the input."""

    expected: str = "true, false or {when: schema}"

    def read(self, node: Node) -> Any:
        """Return the boolean, or the mapping with its schema."""
        if isinstance(node.value, bool):
            return node.value
        return RecordKind(fields=_WHEN, build=from_fields(dict), expected=self.expected).read(node)


RETRY_FIELDS = (
    Field(
        key="max_attempts",
        kind=Integer(low=1, high=10),
        default=ONCE.max_attempts,
        meaning="Attempts, the first one included.",
    ),
    Field(
        key="initial_backoff_ms",
        kind=Integer(low=0, high=600_000),
        default=ONCE.initial_backoff_ms,
        meaning="Delay before the second attempt.",
    ),
    Field(
        key="multiplier",
        kind=Number(low=1, high=10),
        default=ONCE.multiplier,
        meaning="Factor by which each further delay grows.",
    ),
    Field(
        key="max_backoff_ms",
        kind=Integer(low=0, high=600_000),
        default=ONCE.max_backoff_ms,
        meaning="Upper limit of a delay.",
    ),
)
LIMIT_FIELDS = (
    Field(
        key="memory_mb",
        kind=Integer(low=16, high=512),
        meaning="Memory of one sandbox. Default: `limits.script_memory_mb` of the project.",
    ),
    Field(
        key="nested_calls",
        kind=Integer(low=0, high=10_000),
        meaning="New calls of other tools per call. Default: `limits.nested_calls`.",
    ),
    Field(
        key="log_bytes",
        kind=Integer(low=0, high=1_048_576),
        meaning="Bytes that the script may write with `console`. Default: `limits.log_bytes`.",
    ),
)
_WHEN = (
    Field(
        key="when",
        kind=JsonSchema(),
        required=True,
        meaning="The schema that the input must match.",
    ),
)
TOOL_IDS = ListOf(
    item=Text(expected="a tool id", least=1, most=200), expected="a list of tool ids", most=200
)
REQUIRES_PERMISSIONS = Field(
    key="requires_permissions",
    kind=ListOf(
        item=NonEmptyText(expected="a permission id"), expected="a list of permission ids", most=200
    ),
    default=(),
    meaning="Permissions that the profile must have, all of them.",
)
LABELS = ListOf(
    item=Text(expected="a string of at most 64 characters", most=64),
    expected="a list of strings",
    most=32,
)
DESCRIPTION = Text(expected="a non-empty string of at most 4096 characters", least=1, most=4096)
FIELDS = (
    Field(
        key="name",
        kind=Id(noun="tool"),
        required=True,
        meaning="The id of the tool, for `tool_id` and `/call`.",
    ),
    Field(
        key="description",
        kind=DESCRIPTION,
        required=True,
        meaning="The description that models and people read.",
    ),
    Field(
        key="input_schema",
        kind=JsonSchema(is_object=True),
        required=True,
        meaning="Schema of every input, with type `object`.",
    ),
    Field(key="execution", kind=EXECUTION, required=True, meaning="The script to run."),
    Field(
        key="timeout_ms",
        kind=Integer(low=1, high=3_600_000),
        meaning="Timeout of one attempt, nested calls included; time spent waiting for people does "
        "not count. Default: `limits.timeout_ms`.",
    ),
    Field(
        key="retry_policy",
        kind=RecordKind(fields=RETRY_FIELDS, build=from_fields(RetryPolicy)),
        default=ONCE,
        meaning="How often and when a failed call is retried. Default: never.",
    ),
    Field(key="vault", kind=VAULT, default=(), meaning="Secrets that the script may request."),
    Field(
        key="state",
        kind=STATE,
        default=(),
        meaning="Durable values that the script may read and write.",
    ),
    Field(
        key="direct_call",
        kind=Boolean(),
        default=False,
        meaning="Callable by `/call`, by programs, and by any script. Does not affect models.",
    ),
    Field(
        key="script_tools",
        kind=TOOL_IDS,
        default=(),
        meaning="Tools that the script may call when this tool is called directly.",
    ),
    REQUIRES_PERMISSIONS,
    Field(
        key="output_schema",
        kind=JsonSchema(),
        meaning="Schema of every output.",
    ),
    Field(
        key="effect",
        kind=OneOf(words=tuple(Effect), make=Effect),
        default=Effect.WRITE,
        meaning="Effect on the outside world. It decides what a crash during a call means.",
    ),
    Field(
        key="idempotent",
        kind=Boolean(),
        default=False,
        meaning="May run again after a crash, with the same idempotency key.",
    ),
    Field(
        key="requires_approval",
        kind=_Approval(),
        default=False,
        meaning="A person must approve each call; with `when`, only calls with a matching input.",
    ),
    Field(
        key="egress",
        kind=ListOf(
            item=Text(
                expected="a host pattern such as api.example.com or *.example.com", form=_PATTERN
            ),
            expected="a list of host patterns such as api.example.com or *.example.com",
            most=64,
        ),
        meaning="Hosts that `fetch` may reach. Default: `egress.default` of the project.",
    ),
    Field(key="labels", kind=LABELS, default=(), meaning="Labels for filters and rules."),
    Field(
        key="limits",
        kind=RecordKind(fields=LIMIT_FIELDS, build=from_fields(ToolLimits)),
        default=DEFAULT_LIMITS,
        meaning="Limits of one call.",
    ),
    Field(
        key="trust",
        kind=OneOf(words=("off", "ask", "deny")),
        meaning="What happens to a call that would send out untrusted text. Has no effect yet.",
    ),
    Field(
        key="trusted_source",
        kind=Boolean(),
        default=False,
        meaning="Whether its output is trusted text. Has no effect yet.",
    ),
    Field(
        key="revert",
        kind=Text(expected="a tool id", least=1, most=64),
        meaning="The tool that takes a call back; it gets `{input, output}` of the call.",
    ),
)
_RESERVED = ("trust", "trusted_source")
_ONCE = (
    ("vault key", "vault", "key"),
    ("state binding", "state", "name"),
    ("permission", "requires_permissions", ""),
)
