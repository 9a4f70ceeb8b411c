"""A flow as the checks see it: steps by id, templates, results, and reachability."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.diagnostics import nearest
from penstock.flows.checks.context import AgentCard, CheckContext, ResolvedRef, follow
from penstock.flows.checks.reachability import Reachability
from penstock.flows.definition import Step
from penstock.flows.parsed import ParsedFlow, ParsedStep, StepNode
from penstock.manifest.template import BrokenPlaceholder, Placeholder, Template, ValueSource, parse
from penstock.manifest.yaml_document import SourceRange

INPUTS = "inputs"
MOST_COMPARED = 20_000
"""Limit on name comparisons for suggestions, over the whole check."""
_LITERAL_BLOCK = "|"


class TemplateUse(Struct, frozen=True):
    """A template and its place in the file."""

    step: ParsedStep
    field: str
    node: StepNode
    template: Template

    @property
    def is_input(self) -> bool:
        """Whether it is a value of `inputs`."""
        return self.field == INPUTS


class FlowView:
    """A flow as the checks see it. Expensive parts are computed on first use."""

    def __init__(self, read: ParsedFlow, around: CheckContext) -> None:
        self.read = read
        self.around = around
        self.steps = read.steps
        self.by_id = {each.step_id: each for each in read.steps if each.is_named}
        self._compared = 0
        self._fields: dict[str, Mapping[str, None] | None] = {}

    @cached_property
    def ways(self) -> Reachability:
        """Reachability, computed without invalid `blockedBy` entries."""
        return Reachability([self._linked(each.step) for each in self.steps])

    @cached_property
    def subflows(self) -> Mapping[str, ResolvedRef]:
        """Resolved flow-ref steps, by id."""
        return follow(self.steps, self.around)

    @cached_property
    def brought(self) -> Mapping[str, str]:
        """Step ids available without a prefix -> the flow-ref step that brings them."""
        ids: dict[str, list[str]] = {}
        for step_id, each in self.subflows.items():
            for brought in each.brings or ():
                ids.setdefault(brought, []).append(step_id)
        return {
            each: owners[0]
            for each, owners in ids.items()
            if len(owners) == 1 and each not in self.by_id
        }

    @cached_property
    def is_open(self) -> bool:
        """Whether a flow-ref may bring results that are known only in a run."""
        return any(each.brings is None for each in self.subflows.values())

    @cached_property
    def written(self) -> Sequence[TemplateUse]:
        """Every template of the flow."""
        return [each for step in self.steps for each in _templates(step)]

    @cached_property
    def reads(self) -> Mapping[str, Mapping[str, tuple[TemplateUse, Placeholder]]]:
        """Step -> the steps whose results it reads, with the first place of each."""
        by_step: dict[str, dict[str, tuple[TemplateUse, Placeholder]]] = {}
        for use in self.written:
            of_step = by_step.setdefault(use.step.step_id, {})
            for ref in use.template.refs:
                if ref.kind is ValueSource.RESULT and (source := self.source(ref.names[0])):
                    of_step.setdefault(source, (use, ref))
        return by_step

    def source(self, name: str) -> str | None:
        """Return the step that provides a result, or None."""
        return name if name in self.by_id else self.brought.get(name)

    @cached_property
    def results(self) -> Sequence[str]:
        """Result ids available without a prefix."""
        return [*self.by_id, *self.brought]

    def near(self, name: str, names: Collection[str]) -> str | None:
        """Return the most similar name. Stops suggesting after MOST_COMPARED comparisons."""
        if self._compared > MOST_COMPARED:
            return None
        self._compared += len(names)
        return nearest(name, names)

    def card(self, step: Step) -> AgentCard | None:
        """Return the card of a step's agent, if it has a known one."""
        return self.around.agents.get(step.agent or "")

    def fields_of(self, step: Step) -> Mapping[str, None] | None:
        """Return the readable fields of a step's result; None if they cannot be known."""
        if step.step_id not in self._fields:
            fields = self._readable(step)
            self._fields[step.step_id] = None if fields is None else dict.fromkeys(fields)
        return self._fields[step.step_id]

    def place(
        self, written: TemplateUse, piece: Placeholder | BrokenPlaceholder | int
    ) -> SourceRange:
        """Return the place of a part of a template; for folded text, the start of the value."""
        offset = piece if isinstance(piece, int) else piece.offset
        begin, text = written.node.place, str(written.node.value)
        if self._sign(begin) != _LITERAL_BLOCK:
            return begin
        content = written.node.document.values.content(written.node.path, text)
        line_start = text.rfind("\n", 0, offset) + 1
        return SourceRange(
            line=content.line + text.count("\n", 0, offset),
            column=content.column + offset - line_start,
        )

    def _readable(self, step: Step) -> Sequence[str] | None:
        card = self.card(step)
        return step.result_fields(None if card is None else card.outputs)

    def _sign(self, place: SourceRange) -> str:
        lines = self.read.lines
        line = lines[place.line - 1] if place.line <= len(lines) else ""
        return line[place.column - 1 : place.column]

    def _linked(self, step: Step) -> Step:
        """Return the step with only those blockers that come before it."""
        before = self._numbers[step.step_id]
        known = (each for each in step.blocked_by if self._numbers.get(each, before) < before)
        return replace(step, blocked_by=tuple(known))

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return {each.step_id: number for number, each in enumerate(self.steps)}


def _templates(step: ParsedStep) -> Iterator[TemplateUse]:
    for key in step.step.expands:
        if isinstance((node := step.node.at(key)).value, str):
            yield TemplateUse(step, key, node, parse(node.value))
    for name in step.step.inputs:
        node = step.node.at(INPUTS, name)
        yield TemplateUse(step, INPUTS, node, parse(str(node.value)))
