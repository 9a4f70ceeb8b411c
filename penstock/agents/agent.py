"""Instructions, a model and tools under one name."""

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass

from penstock.agents.charter import NO_FILE, Charter, Tier
from penstock.agents.settings import DEFAULTS, ChatSettings
from penstock.core.ids import ASSISTANT
from penstock.models.model import Model
from penstock.tools.python.function import ToolLike, as_tool


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Agent:
    """Instructions, a model and tools under one name.

    Pass agents to `penstock.open(agents=[...])`, or one to `Runtime.chat(agent=...)`. An agent
    holds no state: what was said is in the log of its conversation.

    Raises:
        TypeError: `tools` contains something that is neither a function nor a tool.

    Example:
        >>> from penstock import Agent
        >>> def price(item: str) -> int:
        ...     '''Return the price of an item in cents.'''
        ...     return 250
        >>> clerk = Agent("clerk", instructions="Answer with prices.", tools=[price])
        >>> [tool.spec.tool_id for tool in clerk.tools]
        ['price']
    """

    name: str = ASSISTANT
    """What conversations, rules and flows call it. Unique in a project."""
    _: KW_ONLY
    description: str = ""
    """One sentence for people, and for agents that may call it."""
    instructions: str = ""
    """The system prompt."""
    model: str | Model | None = None
    """A model, or the name of one; None is the project's default."""
    tools: Iterable[ToolLike] | None = None
    """Tools of its own, functions too, instead of the project's; None is the project's."""
    settings: ChatSettings = DEFAULTS
    """How it works in a chat: its budget, its loop, its permissions."""
    charter: Charter = NO_FILE
    """What its file says for flows."""

    def __post_init__(self) -> None:
        """Refuse what is no tool where it is written, and keep what can be read only once."""
        if self.tools is not None:
            object.__setattr__(self, "tools", tuple(map(as_tool, self.tools)))

    @property
    def has_file(self) -> bool:
        """Whether a file says what it is: no other agent takes part in flows."""
        return bool(self.charter.file)

    def model_name(self, wanted: str | None) -> str | None:
        """Return the name of the model that it works with; None is the project's default.

        Args:
            wanted: The model that a message or a step asks for; it wins over the agent's own.
        """
        own = self.model if isinstance(self.model, str) else None
        return wanted or self.settings.llm_model or own

    @property
    def source(self) -> str:
        """`file`, `api` or `builtin`, as the wire has it."""
        if self.charter.tier is Tier.BUILT_IN:
            return "builtin"
        return "file" if self.has_file else "api"


FindModel = Callable[[Agent, str | None], Model]
"""The model for an agent, or the one that a message or a step asks for. Raises ConfigError."""
