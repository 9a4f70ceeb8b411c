"""What checks need to know around a flow: agents, other flows, and files."""

import posixpath
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, field

from penstock.agents.agent import Agent
from penstock.agents.agent_profile import AgentProfile
from penstock.flows.reading.flow import ParsedFlow

FLOW = "flow.yaml"
"""A folder with a file of this name is one flow."""


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
