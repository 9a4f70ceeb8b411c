"""How an agent works in a chat: every setting with its default."""

from msgspec import Struct, field

from penstock.engine.budget import Allowance


class ChatSettings(Struct, frozen=True, kw_only=True):
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
    """How often equal calls run within the window; 0 is no limit."""
    loop_cycles: bool = True
    """Whether a cycle of two to six calls is stopped when it would run a third time."""
    loop_no_progress: int = 4
    """Rounds without a new result before the next one is blocked; 0 is no limit."""
    result_max_chars: int = 10_000
    """Characters of a result that the model reads; the whole result is kept as an artifact."""
    context_max_tokens: int | None = None
    """Most tokens of a request; None is the model's context window."""
    budget_tool_calls: int = 10_000
    """Most tool calls of one task, including nested ones."""
    budget_model_calls: int = 1_000
    """Most model calls of one task."""
    budget_tokens: int | None = None
    """Most input and output tokens of one task; None is no limit."""
    budget_cost_usd: float | None = None
    """Most cost of one task in USD, by the prices of its model; None is no limit."""
    budget_seconds: float = 1_800
    """Most working time of one task; time spent waiting for people does not count."""
    question_ttl_seconds: float | None = None
    """How long a question waits before it counts as rejected; None is no limit."""

    def allowance(self) -> Allowance:
        """Return the budget of one task of this agent."""
        return Allowance(
            tool_calls=self.budget_tool_calls,
            model_calls=self.budget_model_calls,
            tokens=self.budget_tokens,
            cost_usd=self.budget_cost_usd,
            seconds=self.budget_seconds,
        )


DEFAULTS = ChatSettings()
