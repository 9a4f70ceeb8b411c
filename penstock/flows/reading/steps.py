"""Parses the steps of a flow. A step with an error is parsed as far as possible."""

import re
from collections.abc import Sequence
from itertools import islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.diagnostics import Diagnostic, Severity, nearest
from penstock.flows.definition import AnyStep, StepKind
from penstock.flows.reading.step_fields import (
    ALWAYS,
    CLASSES,
    FIELDS_OF,
    KNOWN,
    StepField,
    inferred,
    owners,
)
from penstock.manifest.authored_kinds import Item, meant, named_items, warn
from penstock.manifest.fields import OWN, WRONG, Node, found, quoted
from penstock.manifest.yaml_document import SourceRange

MOST_STEPS = 1000
MOST_FOREIGN = 100
"""Limit on warnings about unknown fields of one step."""
LONGEST_ID = 64
STEP_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_BLANK: dict[str, Any] = {"branches": {}, "max_iterations": None}
"""Placeholders for required fields that are missing; for other fields it is an empty text."""


class StepNode(Node, kw_only=True):
    """A value inside a step. Messages name it by the step's id."""

    step_id: str = ""

    @property
    def name(self) -> str:
        """Return the path as authors read it: `steps.look.outputs[0].type`."""
        first = f".{self.step_id}" if self.step_id else f"[{self.path[1]}]"
        rest = (f"[{each}]" if isinstance(each, int) else f".{each}" for each in self.path[2:])
        return f"steps{first}{''.join(rest)}"

    def at(self, *keys: str | int) -> "StepNode":
        """Return a value inside this one, or None as its value."""
        return step_node(Node.at(self, *keys), self.step_id)


class ParsedStep(Struct, frozen=True, kw_only=True):
    """A parsed step, and the places of its parts."""

    step: AnyStep
    """A step without a valid id has `#` and its number as its id."""
    node: StepNode
    is_whole: bool = True
    """Its kind is known, and its id is unique."""

    @property
    def step_id(self) -> str:
        """The id, unique among all parsed steps."""
        return self.step.step_id

    @property
    def is_named(self) -> bool:
        """Whether other steps can refer to it."""
        return not self.step_id.startswith("#")

    @property
    def label(self) -> str:
        """Name of the step in messages."""
        return label(self.node)

    @property
    def place(self) -> SourceRange:
        """Place of its id."""
        return place_of(self.node)

    def error(
        self, code: str, message: str, at: SourceRange | None = None, suggestion: str | None = None
    ) -> Diagnostic:
        """Return an error at a place, by default at the id."""
        warning = self.warning(code, message, at, suggestion)
        return replace(warning, severity=Severity.ERROR)

    def warning(
        self, code: str, message: str, at: SourceRange | None = None, suggestion: str | None = None
    ) -> Diagnostic:
        """Return a warning at a place, by default at the id."""
        place = at or self.place
        return Diagnostic(
            code=code,
            message=message,
            file=self.node.document.file,
            line=place.line,
            column=place.column,
            severity=Severity.WARNING,
            suggestion=suggestion,
            end_line=place.line,
            end_column=place.end_column,
        )


def read_steps(node: Node) -> Sequence[ParsedStep]:
    """Parse a list of steps. Items that are not mappings are reported and left out."""
    expected = "a list of at least one step"
    if not isinstance(node.value, list):
        node.wrong_type(expected)
        return ()
    count = len(node.value)
    if not count:
        node.bad_value(expected)
    if count > MOST_STEPS:
        node.bad_value(f"a list of at most {MOST_STEPS} steps", f"array of {count}")
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


def step_node(node: Node, step_id: str) -> StepNode:
    """Return the node as a StepNode."""
    return StepNode(
        document=node.document,
        home=node.home,
        what=node.what,
        value=node.value,
        path=node.path,
        step_id=step_id,
    )


def label(node: Node) -> str:
    """Return the name of a step in messages."""
    step_id = node.value.get("id")
    if isinstance(step_id, str) and step_id:
        return f"step {quoted(step_id)}"
    return f"step {int(node.path[1]) + 1}"


def place_of(node: Node) -> SourceRange:
    """Return the place of a step's id, or of the step if it has none."""
    return node.at("id").key_place if "id" in node.value else node.place


def option_items(node: StepNode) -> list[Item]:
    """Return the options of a fork with their places. A text that is a branch name is not split."""
    options, branches = node.at("options"), node.value.get("branches")
    if isinstance(options.value, str) and isinstance(branches, dict) and options.value in branches:
        return [(options.value, options.key_place)]
    return named_items(options)


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
    needed = {each.attribute: _blank(each) for each in rows if kind in each.needed_by}
    if kind is StepKind.FORK:
        values["options"] = tuple(text for text, _ in option_items(node)) or tuple(
            values.get("branches", ())
        )
    unique = f"#{node.path[1]}" if is_double or not step_id else step_id
    step = CLASSES[kind](step_id=unique, **{**needed, **values})
    return ParsedStep(step=step, node=node, is_whole=is_known and not is_double)


def _blank(row: StepField) -> Any:
    return _BLANK.get(row.attribute, "")


def _step_id(item: Node) -> str:
    """Return the id of a step, or an empty text if it has no valid one."""
    node = item.at("id")
    if node.value is None or node.value == "":
        message = f"step {int(item.path[1]) + 1} has no id"
        node.refuse("missing-id", message, at=place_of(item))
    elif not isinstance(node.value, str):
        message = f'"{node.name}" must be a step id, found {found(node.value)}'
        node.refuse("wrong-type", message, suggestion="put it into quotes")
    elif not STEP_ID.fullmatch(node.value):
        message = f'step id {quoted(node.value)} may use only letters, digits, "_" and "-"'
        is_long = len(node.value) > LONGEST_ID
        note = f"use at most {LONGEST_ID} characters" if is_long else None
        node.refuse("bad-step-id", message, at=place_of(item), suggestion=note)
    else:
        return node.value
    return ""


def _kind(node: StepNode) -> tuple[StepKind, str, bool]:
    """Return the kind of a step, the key it was inferred from, and whether it is known."""
    kind, key = inferred(node.value)
    if "type" not in node.value:
        return kind, key, True
    word = node.at("type")
    if not isinstance(word.value, str):
        word.wrong_type("a step type")
        return kind, "", False
    if word.value in set(StepKind):
        return StepKind(word.value), "", True
    near = nearest(word.value, StepKind)
    word.refuse(
        "unknown-type",
        f"unknown step type {quoted(word.value)} in {label(node)}",
        at=word.key_place,
        suggestion=meant(near) or f"known: {', '.join(StepKind)}",
    )
    return kind, "", False


def _values(node: StepNode, kind: StepKind, key: str) -> dict[str, Any]:
    """Parse the fields of a step, by attribute. Problems are reported."""
    rows = FIELDS_OF[kind]
    _warn_foreign(node, kind)
    hint = f'the type was inferred from "{key}"; set type: if this is wrong' if key else None
    values: dict[str, Any] = {}
    for name, row in rows.items():
        value_given = node.value.get(name)
        if kind in row.needed_by and (value_given in (None, {}, []) or _is_blank(value_given)):
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


def _warn_foreign(node: StepNode, kind: StepKind) -> None:
    """Warn about fields of other kinds, and unknown ones."""
    keys = (key for key in node.value if key not in ALWAYS and key not in FIELDS_OF[kind])
    for key in islice((key for key in keys if not key.startswith(OWN)), MOST_FOREIGN):
        if others := owners(key):
            message = f'field "{key}" does nothing in {label(node)} of type {kind}'
            suggestion = f"it belongs to {', '.join(others)}"
            warn(node.at(key), "field-of-other-type", message, suggestion)
            continue
        near = nearest(key, (*ALWAYS, *FIELDS_OF[kind])) or nearest(key, KNOWN)
        message = f"unknown field {quoted(key)} in {label(node)}"
        warn(node.at(key), "unknown-field", message, meant(near))
