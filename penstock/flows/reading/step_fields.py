"""Table of step fields: the kinds that have and need each one, and how it is parsed."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from penstock.flows.definition import (
    AgentDecision,
    AgentStep,
    Code,
    CodeDecision,
    Conditional,
    FlowRef,
    Fork,
    LoopDecision,
    Shell,
    StepKind,
)
from penstock.flows.reading.kinds import CONFIG, TARGETS, TEXTS, IgnoredValue, RetryKind
from penstock.manifest.authored_kinds import AuthoredInteger, Names, Outputs
from penstock.manifest.fields import Kind
from penstock.manifest.kinds import Boolean, Text

MOST_ITERATIONS = 1000
_AGENT, _FORK, _CONDITIONAL = StepKind.AGENT, StepKind.FORK, StepKind.CONDITIONAL
_DECISION, _LOOP = StepKind.AGENT_DECISION, StepKind.LOOP_DECISION
_REF, _SHELL = StepKind.FLOW_REF, StepKind.SHELL
_CODE, _CODE_DECISION = StepKind.CODE, StepKind.CODE_DECISION
_CODES = (_CODE, _CODE_DECISION)
_WORKERS = (_AGENT, _REF, _SHELL, _CODE)
"""Kinds that may declare where control goes after success."""
_EVERY = tuple(StepKind)
_TEXT = Text(wanted="text")
_AGENT_NAME = Text(wanted="an agent name")
_STEP_ID = Text(wanted="a step id")
_FLAG = Boolean()
_COUNT = AuthoredInteger(low=1, high=MOST_ITERATIONS)


class StepField(Struct, frozen=True, kw_only=True):
    """One row of the table."""

    key: str
    attribute: str
    """Attribute of the step; empty for a field without effect."""
    value: Kind
    kinds: tuple[StepKind, ...]
    needed_by: tuple[StepKind, ...] = ()
    new_name: str = ""
    """The current name, if this key is an old one."""


def _row(
    key: str,
    value: Kind,
    kinds: Iterable[StepKind],
    *needed_by: StepKind,
    attribute: str | None = None,
) -> StepField:
    name = key if attribute is None else attribute
    order = [each for each in _EVERY if each in {*kinds, *needed_by}]
    return StepField(key=key, attribute=name, value=value, kinds=tuple(order), needed_by=needed_by)


FIELDS = (
    _row(
        "blockedBy",
        Names(wanted="a list of step ids", item_wanted="a step id"),
        _EVERY,
        attribute="blocked_by",
    ),
    _row("agent", _AGENT_NAME, {_FORK}, _AGENT, _DECISION, _LOOP),
    StepField(
        key="decisionAgent", attribute="agent", value=_AGENT_NAME, kinds=(_FORK,), new_name="agent"
    ),
    _row("task", _TEXT, {_AGENT, _FORK}, _DECISION, _LOOP),
    _row("model", Text(wanted="a model name"), {_AGENT, _DECISION, _LOOP}),
    _row("question", _TEXT, (), _FORK),
    _row("check", _TEXT, (), _CONDITIONAL),
    _row("present", _STEP_ID, (), _CONDITIONAL),
    _row("absent", _STEP_ID, (), _CONDITIONAL),
    _row("loop_target", _STEP_ID, (), _LOOP),
    _row("exit_target", _STEP_ID, (), _LOOP),
    _row("max_iterations", _COUNT, {_FORK, _DECISION, _CODE_DECISION}, _LOOP),
    _row("branches", TARGETS, (), _FORK, _DECISION, _CODE_DECISION),
    _row("options", Names(wanted="a list of texts", is_split=True), {_FORK}),
    _row("multiSelect", _FLAG, {_FORK}, attribute="is_multiple"),
    _row("allowCustom", _FLAG, {_FORK}, attribute="allows_custom"),
    _row("allowNotes", _FLAG, {_FORK}, attribute="allows_notes"),
    _row("path", _TEXT, (), _REF),
    _row("command", _TEXT, (), _SHELL),
    _row("timeout", AuthoredInteger(low=1, high=86_400), {_SHELL}),
    _row("timeout", AuthoredInteger(low=1, high=3_600_000), _CODES),
    _row("config", CONFIG, {_SHELL}),
    _row("idempotent", _FLAG, {_SHELL}, attribute="is_idempotent"),
    _row("outputs", Outputs(), {_AGENT, *_CODES}),
    _row("output", _TEXT, {_AGENT}),
    _row("target", _TEXT, _CODES),
    _row("tools", Names(wanted="a list of tool names"), _CODES),
    _row("egress", Names(wanted="a list of hosts", is_split=False), _CODES),
    _row("inputs", TEXTS, {_AGENT, _DECISION, _LOOP, _REF, *_CODES}),
    _row("on_complete", _STEP_ID, _WORKERS),
    _row("on_error", _STEP_ID, set(_EVERY) - {_CONDITIONAL}),
    _row("end", _FLAG, _WORKERS, attribute="is_last"),
    _row("retry", RetryKind(), {*_WORKERS, _CODE_DECISION}),
    _row("reads", IgnoredValue(), {_AGENT}, attribute=""),
)
"""In the order in which missing fields are reported."""

ALWAYS = ("id", "type")
"""Fields of every step; they are read first."""

CLASSES: Mapping[StepKind, type[Any]] = {
    _AGENT: AgentStep,
    _FORK: Fork,
    _CONDITIONAL: Conditional,
    _DECISION: AgentDecision,
    _LOOP: LoopDecision,
    _REF: FlowRef,
    _SHELL: Shell,
    _CODE: Code,
    _CODE_DECISION: CodeDecision,
}
FIELDS_OF: Mapping[StepKind, Mapping[str, StepField]] = {
    kind: {row.key: row for row in FIELDS if kind in row.kinds} for kind in StepKind
}
KNOWN = frozenset({*ALWAYS, *(row.key for row in FIELDS)})
"""Every key that a step of some kind may have."""


def owners(key: str) -> list[StepKind]:
    """Return the kinds that have a field."""
    return [kind for kind in StepKind if key in FIELDS_OF[kind]]


def inferred(keys: Mapping[str, Any]) -> tuple[StepKind, str]:
    """Infer the kind of a step without `type`. Return it with the deciding key, or an empty one."""
    for key, kind in (
        ("loop_target", _LOOP),
        ("question", _FORK),
        ("check", _CONDITIONAL),
        ("command", _SHELL),
    ):
        if key in keys:
            return kind, key
    if "path" in keys and "agent" not in keys:
        return _REF, "path"
    return (_DECISION, "branches") if "branches" in keys else (_AGENT, "")
