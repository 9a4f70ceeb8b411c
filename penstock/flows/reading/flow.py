"""Parses a flow from its text, with the places of its parts and all problems in the text."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from penstock.core.diagnostics import has_error
from penstock.core.events.flow_events import FlowStarted
from penstock.flows.definition import AGENTS_AT_ONCE, Flow
from penstock.flows.parsed import ParsedFlow, ParsedStep
from penstock.flows.reading.document import parse_flow
from penstock.flows.reading.inputs import RunInputs
from penstock.flows.reading.steps import read_steps
from penstock.flows.steps.fields import CONFIG, LenientBoolean
from penstock.manifest.authored_kinds import AuthoredInteger, warn, warn_unknown
from penstock.manifest.fields import WRONG, Field, Node
from penstock.manifest.files import NOWHERE
from penstock.manifest.kinds import Text
from penstock.manifest.yaml_document import SourceRange

WHAT = "the flow"
MOST_AT_ONCE = 64
_MOST_KEPT = 32
"""Number of parsed flows that are kept, so that their next run need not parse them."""
_TEXT = Text(wanted="text", least=1)
_TOP = SourceRange(line=1, column=1)
"""Place of problems that concern the whole file. Files around the flow are left to the checks."""
FIELDS = (
    Field(key="name", kind=_TEXT, meaning="for people", required=True, default=""),
    Field(key="description", kind=_TEXT, meaning="for lists", required=True, default=""),
    Field(
        key="max_concurrent",
        kind=AuthoredInteger(low=1, high=MOST_AT_ONCE),
        meaning="agent steps of a segment at once",
        default=AGENTS_AT_ONCE,
    ),
    Field(
        key="task_required", kind=LenientBoolean(), meaning="a start needs a task", default=False
    ),
    Field(key="task_prompt", kind=_TEXT, meaning="the text of that question"),
    Field(key="config", kind=CONFIG, meaning="constants of templates", default={}),
    Field(key="inputs", kind=RunInputs(), meaning="typed inputs of a run", default=()),
)
STEPS, NO_EFFECT = "steps", "auto_end"
KNOWN = (*(each.key for each in FIELDS), STEPS, NO_EFFECT)


def read_flow(text: str | bytes, file: str = "") -> ParsedFlow:
    """Parse a flow. Never raises: problems are in the result."""
    document = parse_flow(text, file)
    if document.value is None:
        return ParsedFlow(document=document, source=text)
    node = Node(document=document, home=NOWHERE, what=WHAT, value=document.value)
    warn_unknown(node, KNOWN, WHAT)
    if NO_EFFECT in node.value:
        warn(node.at(NO_EFFECT), "no-effect", f'"{NO_EFFECT}" is accepted and has no effect')
    values = {each.key: _read(node, each) for each in FIELDS}
    steps = read_steps(node.at(STEPS)) if STEPS in node.value else _missing(node, STEPS)
    return ParsedFlow(
        document=document,
        source=text,
        steps=steps,
        flow=None if has_error(document.problems) else _flow(values, steps),
        inputs=[each.name for each in values["inputs"]],
    )


@lru_cache(_MOST_KEPT)
def flow_of(text: str, file: str) -> Flow | None:
    """Return the flow of a text, or None if it has errors. Cached for later runs of the text."""
    return read_flow(text, file).flow


def started_flow(started: FlowStarted) -> Flow | None:
    """Return the flow stored with a run, or None if it has errors."""
    return flow_of(started.texts[started.file], started.file)


def _read(node: Node, field: Field) -> Any:
    if field.key not in node.value:
        if field.required:
            _missing(node, field.key)
        return field.default
    value = field.kind.read(node.at(field.key))
    return field.default if value is WRONG else value


def _missing(node: Node, key: str) -> Sequence[ParsedStep]:
    node.refuse(
        "missing-field",
        f'missing required field "{key}"',
        at=_TOP,
        suggestion=f'add "{key}:" at the top of the file',
    )
    return ()


def _flow(values: Mapping[str, Any], steps: Sequence[ParsedStep]) -> Flow:
    return Flow(
        name=values["name"],
        description=values["description"],
        steps=tuple(each.step for each in steps),
        max_concurrent=values["max_concurrent"],
        needs_task=values["task_required"],
        task_prompt=values["task_prompt"],
        config=values["config"],
        inputs=values["inputs"],
    )
