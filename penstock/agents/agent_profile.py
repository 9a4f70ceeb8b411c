"""What an agent file promises and asks for beyond a chat: what flows, guards and catalogs read."""

from enum import StrEnum

from msgspec import Struct, field

from penstock.core.events.step import Output
from penstock.resources.project.access import OPEN, Access


class Tier(StrEnum):
    """Where an agent comes from. The values are the wire format."""

    LOCAL = "local"
    PACKAGE = "package"
    BUILT_IN = "built-in"


class AgentInput(Struct, frozen=True, kw_only=True):
    """A name that steps wire, and the instructions read."""

    name: str
    description: str = ""


class DisplayCard(Struct, frozen=True, kw_only=True):
    """How displays show the agent."""

    card_type: str = ""
    label: str = ""
    metric: str = ""
    role: str = ""


class ArchitectNotes(Struct, frozen=True, kw_only=True):
    """What who designs a flow is told of the agent."""

    use_when: str = ""
    """The description, where the file does not say it."""
    produces: str = ""
    depends_on: str = ""
    domain: str = ""


class AgentProfile(Struct, frozen=True, kw_only=True):
    """What an agent file says of its agent, besides what a chat takes from it."""

    tier: Tier = Tier.LOCAL
    file: str = ""
    """Where it stands, of a local one relative to the project; empty if the agent has no file."""
    content_hash: str = ""
    """SHA-256 of the whole text."""
    thinking: str | None = None
    """None: what the suffix of the model says, or the model itself."""
    tools: tuple[str, ...] = ()
    """As declared: the only ones a guard lets through, besides those of the context."""
    handbooks: tuple[str, ...] = ()
    inputs: tuple[AgentInput, ...] = ()
    body_inputs: frozenset[str] = frozenset()
    """Inputs that the instructions read, declared or not."""
    outputs: tuple[Output, ...] = ()
    is_interactive: bool = True
    output: str = ""
    """A hint what the file of its result is called."""
    context_files: tuple[str, ...] = ()
    access: Access = OPEN
    card: DisplayCard = field(default_factory=DisplayCard)
    purpose: ArchitectNotes = field(default_factory=ArchitectNotes)
    max_turns: int | None = None
    """Model calls in one visit; None is what the limits say."""
    reply_tokens: int | None = None
    """Tokens of one reply, if the file says them; None is as much as files need."""


NO_FILE = AgentProfile()
"""Of an agent that no file says."""
