"""What lies around a flow: the agents, other flows and files that it may name."""

import posixpath
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, field

from penstock.agents.agent import Agent
from penstock.agents.agent_profile import AgentProfile
from penstock.flows.reading.flow import ParsedFlow

FLOW = "flow.yaml"
"""A folder with this file is one flow."""


class AgentCard(Struct, frozen=True, kw_only=True):
    """What a flow may know of an agent."""

    name: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    """Names that may be read of its results, besides the standard ones."""
    body_inputs: frozenset[str] = frozenset()
    """Inputs that its instructions read, declared or not."""
    is_interactive: bool = True
    thinking: str | None = None
    """How much it is to think, whatever its model."""
    file: str = ""


def cards_of(agents: Iterable[Agent]) -> dict[str, AgentCard]:
    """Return what flows may know of agents; those without a file take no part."""
    return {each.name: _card_of(each.profile, each.name) for each in agents if each.has_file}


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


class CodeFault(Struct, frozen=True, kw_only=True):
    """What keeps a module of a code step from running."""

    line: int
    column: int
    problem: str


def nothing_at(_: str) -> None:
    """Return nothing: the answer of a place without flows, or without faults."""


def all_heed(name: str, level: str | None) -> None:
    """Return no model: in a place without models each can be told how much to think."""


def no_file(_: str) -> bool:
    """Whether a file is there, in a place without files."""
    return False


class CheckContext(Struct, frozen=True, kw_only=True):
    """What lies around a flow. Paths are relative to its project, or to its package, with `/`."""

    agents: Mapping[str, AgentCard] = field(default_factory=dict)
    broken_agents: Mapping[str, str] = field(default_factory=dict)
    """Names of agents that cannot be used, with the file that is to be mended."""
    file: str = ""
    """Where the flow lies; empty while it lies nowhere."""
    command: str = ""
    has_shell: bool = True
    unheeding: Callable[[str, str | None], str | None] = all_heed
    """The model of a name that is to think as its agent wants, or as stands behind the name; None
    if it can be told, or if nobody wants anything."""
    flow_at: Callable[[str], ParsedFlow | None] = nothing_at
    """The flow of a file, broken or not; None if there is none."""
    has_file: Callable[[str], bool] = no_file
    code_fault: Callable[[str], CodeFault | None] = nothing_at
    """What is wrong with a module that is there."""

    @property
    def folder(self) -> str:
        """The folder of the flow; empty for the project itself."""
        return posixpath.dirname(self.file)
