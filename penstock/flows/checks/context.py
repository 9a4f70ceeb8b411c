"""The input of checks: a flow with its steps and templates, and its references to other files.

A CheckContext describes what exists around a flow: agents, modules of code steps, other flows. A
FlowView adds the flow itself: steps by id, templates, results, and reachability. `module_of` finds
the module of a code step, `follow` resolves flow-ref steps. No path leads out of the project or
package: `resolve` and `stems` drop candidates that begin with `..` after normalisation.
"""

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.agents.agent import Agent
from penstock.agents.agent_profile import AgentProfile
from penstock.core.diagnostics import nearest
from penstock.flows.checks.reachability import Reachability
from penstock.flows.definition import Step
from penstock.flows.parsed_flow import ParsedFlow, ParsedStep, StepNode
from penstock.manifest.document import SourceRange
from penstock.manifest.template import BrokenPlaceholder, Placeholder, Template, ValueSource, parse

FLOW = "flow.yaml"
"""A folder with a file of this name is one flow."""
SUFFIXES = ("mts", "ts", "mjs", "js")
WRITTEN = "ts"
"""Suffix of the files that `penstock flow generate` writes."""
FOLDER, OLD_FOLDER = "handlers", ".pi/flows/handlers"
_GLOB = re.compile(r"[*?]")
INPUTS = "inputs"
MAX_COMPARED = 20_000
"""Limit on name comparisons for suggestions, over the whole check."""
_LITERAL_BLOCK = "|"


class AgentCard(Struct, frozen=True, kw_only=True):
    """The parts of an agent that checks use."""

    name: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    """Result fields in addition to the standard ones."""
    body_inputs: frozenset[str] = frozenset()
    """Inputs that its instructions read, declared or not."""
    is_interactive: bool = True
    thinking: str | None = None
    """Thinking level that the agent sets, whatever its model."""
    file: str = ""


def cards_of(agents: Iterable[Agent]) -> dict[str, AgentCard]:
    """Return the cards of the agents that have a file."""
    return {each.name: _card_of(each.profile, each.name) for each in agents if each.has_file}


class CodeFault(Struct, frozen=True, kw_only=True):
    """Error that prevents a module of a code step from running."""

    line: int
    column: int
    problem: str


def nothing_at(_: str) -> None:
    """Return None: no flows, or no faults."""


def all_heed(name: str, level: str | None) -> None:
    """Return None: every model accepts a thinking level."""


def no_file(_: str) -> bool:
    """Return False: no files."""
    return False


class CheckContext(Struct, frozen=True, kw_only=True):
    """The surroundings of a flow. Paths are relative to its project or package, with `/`."""

    agents: Mapping[str, AgentCard] = field(default_factory=dict)
    broken_agents: Mapping[str, str] = field(default_factory=dict)
    """Unusable agents, with the file to repair."""
    file: str = ""
    """Path of the flow; empty if it has none."""
    command: str = ""
    has_shell: bool = True
    unheeding: Callable[[str, str | None], str | None] = all_heed
    """Returns the model of a name if it ignores the thinking level that its agent or the name
    asks for, else None."""
    flow_at: Callable[[str], ParsedFlow | None] = nothing_at
    """Returns the flow of a file, even with errors; None if there is no file."""
    has_file: Callable[[str], bool] = no_file
    code_fault: Callable[[str], CodeFault | None] = nothing_at
    """Returns the error in an existing module, or None."""

    @property
    def folder(self) -> str:
        """Folder of the flow; empty for the root."""
        return posixpath.dirname(self.file)


def stems(step: Step, check_context: CheckContext) -> list[str]:
    """Return the possible paths of a module, best first. Only a target has its suffix."""
    target = step.target
    folder, name = posixpath.split(check_context.file)
    if target is not None:
        candidates = [posixpath.join(folder, target), target]
        normal = [posixpath.normpath(each) for each in candidates if not target.startswith("/")]
        return [each for each in dict.fromkeys(normal) if each.split("/")[0] != ".."]
    if name == FLOW:
        return [posixpath.join(folder, step.step_id)]
    stem = name.rpartition(".")[0]
    command = check_context.command.replace(":", "/")
    return [
        posixpath.join(folder, FOLDER, stem, step.step_id),
        posixpath.join(OLD_FOLDER, command, step.step_id),
    ]


def places(step: Step, check_context: CheckContext) -> list[str]:
    """Return the possible files of a step's module, best first."""
    if not step.runs_module:
        return []
    suffixes = [""] if step.target is not None else [f".{each}" for each in SUFFIXES]
    return [f"{stem}{suffix}" for stem in stems(step, check_context) for suffix in suffixes]


def module_of(step: Step, check_context: CheckContext) -> str | None:
    """Return the file of a step's module, or None."""
    return next(
        (each for each in places(step, check_context) if check_context.has_file(each)), None
    )


class RefTarget(StrEnum):
    """Where the path of a flow-ref leads."""

    OPEN = "open"
    """Known only in a run: the path has templates or is a glob."""
    OUTSIDE = "outside"
    MISSING = "missing"
    TO_A_FLOW = "to a flow"


class ResolvedRef(Struct, frozen=True, kw_only=True):
    """A flow-ref step with its target."""

    step: ParsedStep
    leads: RefTarget
    path: str = ""
    """Path of the flow, relative to the project."""
    flow: ParsedFlow | None = None

    @property
    def brings(self) -> tuple[str, ...] | None:
        """Ids of the steps whose results it brings; None if they cannot be known."""
        if self.flow is None or self.flow.document.value is None:
            return None
        return tuple(each.step_id for each in self.flow.steps if each.is_named)


def follow(steps: Iterable[ParsedStep], check_context: CheckContext) -> dict[str, ResolvedRef]:
    """Resolve every flow-ref of a flow, by step id."""
    return {
        each.step_id: _followed(each, each.step.path_written or "", check_context)
        for each in steps
        if each.step.is_nested
    }


def is_literal(path: str) -> bool:
    """Whether a path has neither templates nor wildcards."""
    template = parse(path)
    return not template.refs and not template.broken and not _GLOB.search(path)


def resolve(path: str, folder: str) -> list[str]:
    """Return the possible targets of a path, best first; empty if it leaves the project."""
    # Backslash and NUL would mean something else to the file system than to this comparison.
    if path.startswith("/") or "\\" in path or "\0" in path:
        return []
    candidates = [posixpath.normpath(posixpath.join(folder, path)), posixpath.normpath(path)]
    return [each for each in dict.fromkeys(candidates) if each.split("/")[0] != ".."]


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

    def __init__(self, read: ParsedFlow, check_context: CheckContext) -> None:
        self.read = read
        self.check_context = check_context
        self.steps = read.steps
        self.by_id = {each.step_id: each for each in read.steps if each.is_named}
        self._compared = 0
        self._fields: dict[str, Mapping[str, None] | None] = {}

    @cached_property
    def reachability(self) -> Reachability:
        """Reachability, computed without invalid `blockedBy` entries."""
        return Reachability([self._linked(each.step) for each in self.steps])

    @cached_property
    def subflows(self) -> Mapping[str, ResolvedRef]:
        """Resolved flow-ref steps, by id."""
        return follow(self.steps, self.check_context)

    @cached_property
    def brought(self) -> Mapping[str, str]:
        """Step ids available without a prefix -> the flow-ref step that brings them."""
        ids: dict[str, list[str]] = {}
        for step_id, subflow in self.subflows.items():
            for brought in subflow.brings or ():
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
        """Return the most similar name. Stops suggesting after MAX_COMPARED comparisons."""
        if self._compared > MAX_COMPARED:
            return None
        self._compared += len(names)
        return nearest(name, names)

    def card(self, step: Step) -> AgentCard | None:
        """Return the card of a step's agent, if it has a known one."""
        return self.check_context.agents.get(step.agent or "")

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


def _card_of(agent_profile: AgentProfile, name: str) -> AgentCard:
    return AgentCard(
        name=name,
        inputs=tuple(each.name for each in agent_profile.inputs),
        outputs=tuple(each.name for each in agent_profile.outputs),
        body_inputs=agent_profile.body_inputs,
        is_interactive=agent_profile.is_interactive,
        thinking=agent_profile.thinking,
        file=agent_profile.file,
    )


def _followed(step: ParsedStep, path: str, check_context: CheckContext) -> ResolvedRef:
    if not path.strip() or not is_literal(path):
        return ResolvedRef(step=step, leads=RefTarget.OPEN)
    places = resolve(path, check_context.folder)
    if not places:
        return ResolvedRef(step=step, leads=RefTarget.OUTSIDE)
    for place in places:
        flow = check_context.flow_at(place)
        if flow is not None:
            return ResolvedRef(step=step, leads=RefTarget.TO_A_FLOW, path=place, flow=flow)
    return ResolvedRef(step=step, leads=RefTarget.MISSING)


def _templates(step: ParsedStep) -> Iterator[TemplateUse]:
    for key in step.step.expands:
        if isinstance((node := step.node.at(key)).value, str):
            yield TemplateUse(step, key, node, parse(node.value))
    for name in step.step.inputs:
        node = step.node.at(INPUTS, name)
        yield TemplateUse(step, INPUTS, node, parse(str(node.value)))
