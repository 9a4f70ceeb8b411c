"""How an agent works in a chat: every setting with its default."""

from dataclasses import dataclass, field

from penstock.engine.budget import Allowance


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings:
    """How an agent works in a chat. The names are those of the API."""

    tools_enabled: bool = True
    enabled_tools: tuple[str, ...] | None = None
    """None is all."""
    llm_model: str | None = None
    """`provider:model` or a configured name; None is the project's default."""
    llm_temperature: float = 0.7
    llm_max_tokens: int = 2048
    llm_system_prompt: str | None = None
    """None is the agent's instructions."""
    tool_permissions: dict[str, str] = field(default_factory=dict)
    """Tool to allow, ask or deny."""
    max_iterations: int = 8
    max_parallel_tools: int = 8
    loop_window: int = 10
    loop_max_repeats: int = 2
    loop_cycles: bool = True
    loop_no_progress: int = 4
    result_max_chars: int = 10_000
    context_max_tokens: int | None = None
    budget_tool_calls: int = 10_000
    budget_model_calls: int = 1_000
    budget_tokens: int | None = None
    budget_cost_usd: float | None = None
    budget_seconds: float = 1_800
    question_ttl_seconds: float | None = None

    def allowance(self) -> Allowance:
        """Return what one task of this agent may spend."""
        return Allowance(
            tool_calls=self.budget_tool_calls,
            model_calls=self.budget_model_calls,
            tokens=self.budget_tokens,
            cost_usd=self.budget_cost_usd,
            seconds=self.budget_seconds,
        )


DEFAULTS = ChatSettings()
