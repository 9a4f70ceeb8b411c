"""Parses the steps of a flow. A step with an error is parsed as far as possible."""

import re
from collections.abc import Sequence
from itertools import islice
from typing import Any

from penstock.core.diagnostics import nearest
from penstock.flows.parsed_flow import ParsedStep, StepNode, label, place_of, step_node
from penstock.flows.steps.kind import COMMON, StepField
from penstock.flows.steps.table import FIELDS_OF, KINDS, KNOWN, inferred, owners
from penstock.manifest.authored_kinds import meant, warn
from penstock.manifest.fields import OWN, WRONG, Node, described, quoted

MAX_STEPS = 1000
MAX_UNKNOWN_FIELDS = 100
"""Limit on warnings about unknown fields of one step."""
MAX_ID_LENGTH = 64
STEP_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_BLANK: dict[str, Any] = {"branches": {}, "max_iterations": None}
"""Placeholders for required fields that are missing; for other fields it is an empty text."""


def read_steps(node: Node) -> Sequence[ParsedStep]:
    """Parse a list of steps. Items that are not mappings are reported and left out."""
    expected = "a list of at least one step"
    if not isinstance(node.value, list):
        node.wrong_type(expected)
        return ()
    count = len(node.value)
    if not count:
        node.bad_value(expected)
    if count > MAX_STEPS:
        node.bad_value(f"a list of at most {MAX_STEPS} steps", f"array of {count}")
        return ()
    steps: list[ParsedStep] = []
    lines: dict[str, int] = {}
    for number in range(count):
        item = node.at(number)
        if isinstance(item.value, dict):
            steps.append(_step(item, lines))
        else:
            node.document.problem(
                "step-not-mapping", f"step {number + 1} must be a mapping", item.place
            )
    return steps


def _step(item: Node, lines: dict[str, int]) -> ParsedStep:
    step_id = _step_id(item)
    node = step_node(item, step_id)
    is_double = step_id in lines
    if is_double:
        message = f'duplicate step id "{step_id}"; first at line {lines[step_id]}'
        node.refuse("duplicate-step", message, at=place_of(node), suggestion="rename one of them")
    elif step_id:
        lines[step_id] = place_of(node).line
    kind, key, is_known = _kind(node)
    values = _values(node, kind, key) if is_known else {}
    rows = FIELDS_OF[kind].values()
    blanks = {row.attribute: _BLANK.get(row.attribute, "") for row in rows if row.is_needed}
    KINDS[kind].complete(node, values)
    unique = f"#{node.path[1]}" if is_double or not step_id else step_id
    step = KINDS[kind].step(step_id=unique, **{**blanks, **values})
    return ParsedStep(step=step, node=node, is_whole=is_known and not is_double)


def _step_id(item: Node) -> str:
    """Return the id of a step, or an empty text if it has no valid one."""
    node = item.at("id")
    if node.value is None or node.value == "":
        message = f"step {int(item.path[1]) + 1} has no id"
        node.refuse("missing-id", message, at=place_of(item))
    elif not isinstance(node.value, str):
        message = f'"{node.name}" must be a step id, found {described(node.value)}'
        node.refuse("wrong-type", message, suggestion="put it into quotes")
    elif not STEP_ID.fullmatch(node.value):
        message = f'step id {quoted(node.value)} may use only letters, digits, "_" and "-"'
        is_long = len(node.value) > MAX_ID_LENGTH
        note = f"use at most {MAX_ID_LENGTH} characters" if is_long else None
        node.refuse("bad-step-id", message, at=place_of(item), suggestion=note)
    else:
        return node.value
    return ""


def _kind(node: StepNode) -> tuple[str, str, bool]:
    """Return the kind of a step, the key it was inferred from, and whether it is known."""
    kind, key = inferred(node.value)
    if "type" not in node.value:
        return kind, key, True
    word = node.at("type")
    if not isinstance(word.value, str):
        word.wrong_type("a step type")
        return kind, "", False
    if word.value in KINDS:
        return word.value, "", True
    near = nearest(word.value, KINDS)
    word.refuse(
        "unknown-type",
        f"unknown step type {quoted(word.value)} in {label(node)}",
        at=word.key_place,
        suggestion=meant(near) or f"known: {', '.join(KINDS)}",
    )
    return kind, "", False


def _values(node: StepNode, kind: str, key: str) -> dict[str, Any]:
    """Parse the fields of a step, by attribute. Problems are reported."""
    rows = FIELDS_OF[kind]
    _warn_foreign(node, kind)
    hint = f'the type was inferred from "{key}"; set type: if this is wrong' if key else None
    values: dict[str, Any] = {}
    for name, row in rows.items():
        value_given = node.value.get(name)
        if row.is_needed and (value_given in (None, {}, []) or _is_blank(value_given)):
            message = f'{label(node)} of type {kind} needs "{name}"'
            node.refuse("missing-step-field", message, at=place_of(node), suggestion=hint)
        elif name in node.value:
            value = row.value.read(node.at(name))
            is_old = bool(row.new_name)
            if row.attribute and value is not WRONG and not (is_old and row.new_name in node.value):
                values[row.attribute] = value
            _warn_weak(node.at(name), row)
    return values


def _is_blank(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()


def _warn_weak(node: StepNode, row: StepField) -> None:
    """Warn about a field without effect, or with an old name."""
    if row.new_name:
        warn(node, "old-name", f'"{row.key}" is an old name', f'use "{row.new_name}"')
    elif not row.attribute:
        warn(node, "no-effect", f'"{row.key}" is accepted and has no effect')


def _warn_foreign(node: StepNode, kind: str) -> None:
    """Warn about fields of other kinds, and unknown ones."""
    keys = (key for key in node.value if key not in COMMON and key not in FIELDS_OF[kind])
    for key in islice((key for key in keys if not key.startswith(OWN)), MAX_UNKNOWN_FIELDS):
        if others := owners(key):
            message = f'field "{key}" does nothing in {label(node)} of type {kind}'
            suggestion = f"it belongs to {', '.join(others)}"
            warn(node.at(key), "field-of-other-type", message, suggestion)
            continue
        near = nearest(key, (*COMMON, *FIELDS_OF[kind])) or nearest(key, KNOWN)
        message = f"unknown field {quoted(key)} in {label(node)}"
        warn(node.at(key), "unknown-field", message, meant(near))
