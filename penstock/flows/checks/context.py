"""What a flow refers to outside its file: agents, modules of code steps, other flows.

A CheckContext describes what exists around a flow. `module_of` finds the module of a code step,
`follow` resolves flow-ref steps. No path leads out of the project or package: `resolve` and `stems`
drop candidates that begin with `..` after normalisation.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

from msgspec import Struct, field

from penstock.agents.agent import Agent
from penstock.agents.agent_profile import AgentProfile
from penstock.flows.definition import Step
from penstock.flows.parsed import ParsedFlow, ParsedStep
from penstock.manifest.template import parse

FLOW = "flow.yaml"
"""A folder with a file of this name is one flow."""
SUFFIXES = ("mts", "ts", "mjs", "js")
WRITTEN = "ts"
"""Suffix of the files that `penstock flow generate` writes."""
FOLDER, OLD_FOLDER = "handlers", ".pi/flows/handlers"
_GLOB = re.compile(r"[*?]")


class AgentCard(Struct, frozen=True, kw_only=True):
    """What checks know of an agent."""

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
    """What is around a flow. Paths are relative to its project or package, with `/`."""

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


def stems(step: Step, around: CheckContext) -> list[str]:
    """Return the possible paths of a module, best first. Only a target has its suffix."""
    target = step.target
    folder, name = posixpath.split(around.file)
    if target is not None:
        candidates = [posixpath.join(folder, target), target]
        normal = [posixpath.normpath(each) for each in candidates if not target.startswith("/")]
        return [each for each in dict.fromkeys(normal) if each.split("/")[0] != ".."]
    if name == FLOW:
        return [posixpath.join(folder, step.step_id)]
    stem = name.rpartition(".")[0]
    command = around.command.replace(":", "/")
    return [
        posixpath.join(folder, FOLDER, stem, step.step_id),
        posixpath.join(OLD_FOLDER, command, step.step_id),
    ]


def places(step: Step, around: CheckContext) -> list[str]:
    """Return the possible files of a step's module, best first."""
    if not step.runs_module:
        return []
    suffixes = [""] if step.target is not None else [f".{each}" for each in SUFFIXES]
    return [f"{stem}{suffix}" for stem in stems(step, around) for suffix in suffixes]


def module_of(step: Step, around: CheckContext) -> str | None:
    """Return the file of a step's module, or None."""
    return next((each for each in places(step, around) if around.has_file(each)), None)


class RefTarget(StrEnum):
    """Where the path of a flow-ref leads."""

    OPEN = "open"
    """Known only in a run: the path has templates or is a glob."""
    OUTSIDE = "outside"
    NOWHERE = "nowhere"
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


def follow(steps: Iterable[ParsedStep], around: CheckContext) -> dict[str, ResolvedRef]:
    """Resolve every flow-ref of a flow, by step id."""
    return {
        each.step_id: _followed(each, each.step.path_written or "", around)
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


def _followed(step: ParsedStep, path: str, around: CheckContext) -> ResolvedRef:
    if not path.strip() or not is_literal(path):
        return ResolvedRef(step=step, leads=RefTarget.OPEN)
    places = resolve(path, around.folder)
    if not places:
        return ResolvedRef(step=step, leads=RefTarget.OUTSIDE)
    for place in places:
        flow = around.flow_at(place)
        if flow is not None:
            return ResolvedRef(step=step, leads=RefTarget.TO_A_FLOW, path=place, flow=flow)
    return ResolvedRef(step=step, leads=RefTarget.NOWHERE)
