"""Instructions, a model and tools under one name."""

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass

from penstock.agents.agent_profile import NO_FILE, AgentProfile, Tier
from penstock.agents.settings import DEFAULTS, ChatSettings
from penstock.core.ids import ASSISTANT
from penstock.models.model import Model
from penstock.models.names import ModelNames, ThinkingModel
from penstock.models.resolve import Models
from penstock.tools.python.function import ToolLike, as_tools


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Agent:
    """Instructions, a model and tools under one name.

    Pass agents to `penstock.open(agents=[...])`, or one to `Runtime.chat(agent=...)`. An agent
    holds no state: the log of a conversation holds its messages.

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
    """Its name in conversations, rules and flows. Unique in a project."""
    _: KW_ONLY
    description: str = ""
    """One sentence for people, and for agents that may call it."""
    instructions: str = ""
    """The system prompt."""
    model: str | Model | None = None
    """A model, or its name; None means the project's default."""
    tools: Iterable[ToolLike] | None = None
    """Tools or functions to use instead of the project's; None means the project's."""
    settings: ChatSettings = DEFAULTS
    """How it works in a chat: its budget, its loop, its permissions."""
    profile: AgentProfile = NO_FILE
    """The settings in its file that flows use."""

    def __post_init__(self) -> None:
        """Convert `tools` to a tuple. A wrong item raises here, and an iterator is read once."""
        if self.tools is not None:
            object.__setattr__(self, "tools", as_tools(self.tools))

    @property
    def has_file(self) -> bool:
        """Whether a file defines it. Only such agents take part in flows."""
        return bool(self.profile.file)

    def model_name(self, wanted: str | None) -> str | None:
        """Return the name of the agent's model; None means the project's default.

        Args:
            wanted: The model that a message or a step asks for; it wins over the agent's own.
        """
        own = self.model if isinstance(self.model, str) else None
        return wanted or self.settings.llm_model or own

    @property
    def source(self) -> str:
        """`file`, `api` or `builtin`, as the wire has it."""
        if self.profile.tier is Tier.BUILT_IN:
            return "builtin"
        return "file" if self.has_file else "api"


FindModel = Callable[[Agent, str | None], Model]
"""Returns the model of an agent, or the requested one. Raises ConfigError."""


class AgentModels:
    """Chooses the model of an agent among the models of a project."""

    def __init__(self, models: Models, names: ModelNames) -> None:
        self._models = models
        self._names = names

    def of(self, agent: Agent, requested: str | None) -> Model:
        """Return the model that answers for an agent. Raises ConfigError for an unknown name.

        A model object that the agent was made with answers, unless another model is requested for
        this task. Otherwise `Agent.model_name` decides; None means the project's default. The level
        of thinking in the agent's file goes before a level in the name.
        """
        own = agent.model
        if not (own is None or isinstance(own, str)) and requested in {None, own.card.model_id}:
            return own
        name, level = agent.model_name(requested), agent.profile.thinking
        # A configured name is used as written, even if it looks like `provider:model` or ends like
        # a level of thinking: the operator's table wins over the syntax of names.
        if name is None or self._models.has(name):
            model = self._models.get(name)
        else:
            model = self._models.get(self._names.model(name))
            level = level or self._names.thinking(name)
        return model if level is None else ThinkingModel(model, level)

    def remark(self, agent: Agent, requested: str | None) -> str:
        """Return a warning if the model is a role without a model, or an empty text."""
        role = self._names.unset(agent.model_name(requested))
        if not role:
            return ""
        return (
            f"the model role @{role} is not set: the project's model is used;"
            f" write {role} under [models.roles]"
        )
