"""An agent: instructions, a model and tools under one name, with its settings for chats."""

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

from msgspec import Struct, field

from penstock.agents.agent_profile import NO_FILE, AgentProfile, Tier
from penstock.agents.output_contract import (
    OUTPUT_RETRIES,
    OutputContract,
    OutputMode,
    contract_of,
)
from penstock.core.ids import ASSISTANT
from penstock.engine.budget import Allowance
from penstock.models.model import Model
from penstock.models.names import ModelNames, ThinkingModel
from penstock.models.resolve import ModelRegistry
from penstock.tools.python.function import ToolLike, all_as_tools
from penstock.tools.skills import SkillChoice


class ChatSettings(Struct, frozen=True, kw_only=True, dict=True):
    """How an agent works in a chat.

    The same names are used by `settings` of an agent file and by the HTTP API. `docs/settings.md`
    lists them with their defaults.

    Example:
        >>> from penstock import Agent, ChatSettings
        >>> careful = ChatSettings(max_iterations=3, tool_permissions={"send": "ask"})
        >>> Agent("clerk", settings=careful).settings.max_iterations
        3
    """

    tools_enabled: bool = True
    """Whether the model is offered any tool."""
    enabled_tools: tuple[str, ...] | None = None
    """The tools that the model is offered; None is all."""
    llm_model: str | None = None
    """`provider:model` or a configured name; None is the project's default."""
    llm_temperature: float = 0.7
    """Sampling temperature of the model."""
    llm_max_tokens: int = 2048
    """Most tokens of one reply."""
    llm_system_prompt: str | None = None
    """The system prompt; None is the agent's instructions."""
    tool_permissions: dict[str, str] = field(default_factory=dict)
    """Tool id to `allow`, `ask` or `deny`."""
    skills: tuple[str, ...] | None = None
    """The skills that may be selected; None is all."""
    selected_skills: tuple[str, ...] = ()
    """The skills that are selected from the start."""
    labels: tuple[str, ...] = ()
    """Labels that skills can require with `requires_labels`."""
    max_iterations: int = 8
    """Replies with calls in one task; after these the model must answer without tools."""
    max_parallel_tools: int = 8
    """Calls of one reply that run at once."""
    loop_window: int = 10
    """How many calls back an equal one counts as a repetition."""
    loop_max_repeats: int = 2
    """How often equal calls run within the window; 0 means no limit."""
    loop_cycles: bool = True
    """Whether a cycle of two to six calls is stopped when it would run a third time."""
    loop_no_progress: int = 4
    """Rounds without a new result before the next one is blocked; 0 means no limit."""
    result_max_chars: int = 10_000
    """Characters of a result that the model reads; the whole result is kept as an artifact."""
    tool_images: bool = False
    """Whether the model gets the images in results of tools, if it can read images."""
    context_max_tokens: int | None = None
    """Most tokens of a request; None is the model's context window."""
    budget_tool_calls: int = 10_000
    """Most tool calls of one task, including nested ones."""
    budget_model_calls: int = 1_000
    """Most model calls of one task."""
    budget_tokens: int | None = None
    """Most input and output tokens of one task; None means no limit."""
    budget_cost_usd: float | None = None
    """Most cost of one task in USD, by the prices of its model; None means no limit."""
    budget_seconds: float = 1_800
    """Most working time of one task; time spent waiting for people does not count."""
    question_ttl_seconds: float | None = None
    """How long a question waits before it counts as rejected; None means no limit."""

    @cached_property
    def allowance(self) -> Allowance:
        """The budget of one task of this agent."""
        return Allowance(
            tool_calls=self.budget_tool_calls,
            model_calls=self.budget_model_calls,
            tokens=self.budget_tokens,
            cost_usd=self.budget_cost_usd,
            seconds=self.budget_seconds,
        )

    @cached_property
    def skill_choice(self) -> SkillChoice:
        """Which skills may be selected, and which are from the start."""
        return SkillChoice(
            only=self.skills, labels=frozenset(self.labels), preselected=self.selected_skills
        )


DEFAULTS = ChatSettings()


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
    output: Any = str
    """The type of what a task returns: text, a type, a union, or an output function."""
    output_mode: str = OutputMode.TOOL
    """How the model gives a typed output: `tool`, `native` or `prompted`."""
    output_retries: int = OUTPUT_RETRIES
    """How often the model may correct an output that does not fit."""
    settings: ChatSettings = DEFAULTS
    """How it works in a chat: its budget, its loop, its permissions."""
    profile: AgentProfile = NO_FILE
    """The settings in its file that flows use."""
    contract: OutputContract | None = dataclasses.field(init=False, default=None)
    """The form of a typed output, with its tools; None if the output is text."""

    def __post_init__(self) -> None:
        """Convert `tools` to a tuple. A wrong item raises here, and an iterator is read once."""
        if self.tools is not None:
            object.__setattr__(self, "tools", all_as_tools(self.tools))
        contract = contract_of(self.output, self.output_mode, self.output_retries)
        object.__setattr__(self, "contract", contract)

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


class ModelSelector:
    """Chooses the model of an agent among the models of a project."""

    def __init__(self, models: ModelRegistry, names: ModelNames) -> None:
        self._models = models
        self._names = names

    def choose(self, agent: Agent, requested: str | None) -> Model:
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
