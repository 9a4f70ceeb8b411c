"""An agent: instructions, a model and tools under one name, with its settings for chats."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Literal, Self, TypedDict, Unpack, overload

from msgspec import Struct, field
from typing_extensions import TypeForm, TypeVar

from penstock.agents.agent_profile import NO_FILE, AgentProfile, FileOptions, checked_name
from penstock.agents.definition.instructions import (
    EACH,
    Every,
    InstructionParts,
    Instructions,
    PlainFunction,
    read_instructions,
)
from penstock.agents.definition.options import (
    HistoryChoice,
    check_options,
    place_above,
    read_history,
)
from penstock.agents.definition.tools import Tool, ToolOrSet, read_tools
from penstock.agents.handoffs import transfers_to
from penstock.agents.output_contract import OutputContract, OutputForm, contract_of, read_form
from penstock.core.late import late
from penstock.engine.budget import Allowance
from penstock.models.model import Model
from penstock.models.settings import NOTHING_SET, ModelSettings
from penstock.resources.dependencies import DepsFactory, DepsSource, own_source
from penstock.tools.hooks.hooks import Hooks, checked_hooks
from penstock.tools.python.agent_tool import agent_tool
from penstock.tools.skills import SkillChoice
from penstock.tools.tool import Tool as AnyTool

T = TypeVar("T", default=str)
NeedsT = TypeVar("NeedsT", default=object)
DepsT_contra = TypeVar("DepsT_contra", contravariant=True, default=object)
"""The type of the dependencies that an agent needs; `object` is none."""
OutputT_co = TypeVar("OutputT_co", covariant=True, default=str)


class ChatSettings(Struct, frozen=True, kw_only=True, dict=True):
    """How an agent works in a chat.

    Agent files and the HTTP API use the same names; `docs/settings.md` lists them with defaults.

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
    llm_temperature: float | None = None
    """Sampling temperature of the model; None is the model's own."""
    llm_max_tokens: int | None = None
    """Most tokens of one reply; None is `max_tokens` of the model, else 2,048."""
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
    calendar_timezone: str = "UTC"
    """The time zone of schedules of this agent that name none."""

    @cached_property
    def allowance(self) -> Allowance:
        """The budget of one task of this agent."""
        limits = Allowance.__struct_fields__
        return Allowance(**{name: getattr(self, f"budget_{name}") for name in limits})

    @cached_property
    def skill_choice(self) -> SkillChoice:
        """Which skills may be selected, and which are from the start."""
        return SkillChoice(
            only=self.skills, labels=frozenset(self.labels), preselected=self.selected_skills
        )


DEFAULTS = ChatSettings()
_TEXT: Any = object()


class AgentOptions(TypedDict, Generic[NeedsT], total=False):
    """The arguments of `Agent` beside its name, its output and its hand-offs.

    Example:
        >>> from penstock import AgentOptions
        >>> options: AgentOptions[object] = {"instructions": "Be brief.", "output_retries": 3}
    """

    description: str
    """One sentence for people, and for agents that may call it."""
    instructions: Instructions[NeedsT] | Sequence[Instructions[NeedsT]]
    """The system prompt: text, functions that return text, or a list of both."""
    instructions_every: Every
    """How often these functions run: once in a `conversation` (default), or in each `task`."""
    model: str | Model | None
    """A model, or its name; None means the project's default."""
    tools: "Sequence[ToolOrSet[NeedsT] | Agent[NeedsT, Any] | PlainFunction | str] | None"
    """Functions, tools, toolsets, agents, and ids of the project's tools; None: the project's."""
    deps_type: type[NeedsT]
    """The type of the dependencies of its tools. Only mypy needs it, for lists of several kinds."""
    output_mode: Literal["tool", "native", "prompted"]
    """How the model gives a typed output; default `tool`."""
    output_retries: int
    """How often the model may correct an output that does not fit; default 2."""
    settings: ChatSettings
    """How it works in a chat: its budget, its loop, its permissions."""
    history: Literal["trim", "summarise"]
    """How long conversations stay within the window; `trim` (default) leaves out old messages."""
    summary_model: str | Model
    """The model that writes summaries, instead of its own."""
    hooks: Sequence[Hooks[NeedsT]]
    """Code that sees, changes or stops what it does, asked after the hooks of the project."""
    model_settings: ModelSettings
    """Settings of its requests to the model; they win over `llm_temperature` and the like."""
    profile: AgentProfile
    """The settings in its file that flows use."""


class Agent(Generic[DepsT_contra, OutputT_co]):
    """Instructions, a model, tools and a type of output under one name.

    Pass agents to `penstock.open(agents=[...])`, or one to `Runtime.chat(agent=...)`. An agent
    holds no state: the log of a conversation holds its messages. `Agent[Pool, Ticket]` needs a Pool
    and returns a Ticket; type checkers infer both from its tools and its output.

    Args:
        name: Its name, unique in a project: a task finds its agent by it after a restart. At most
            64 letters (A to Z), digits, dots, `_` and `-`, as in a file.
        output: The type of what a task returns: text (default), a type, a union, or a function.
        handoffs: Agents, or their names, that get a conversation by the tool `transfer_to_NAME`.
        **options: Those of AgentOptions: `instructions`, `model`, `tools` and others.

    Raises:
        TypeError: `tools` contains something that is not a tool, or an option is unknown.
        ConfigError: The name is not one, the output has no schema, or a value does not exist.

    Example:
        >>> from penstock import Agent
        >>> def price(item: str) -> int:
        ...     '''Return the price of an item in cents.'''
        ...     return 250
        >>> clerk = Agent("clerk", instructions="Answer with prices.", tools=[price], output=int)
        >>> clerk
        <agent 'clerk'>
        >>> [tool.spec.tool_id for tool in clerk.tools]
        ['price']
    """

    __slots__ = (
        *("__weakref__", "contract", "deps_type", "description", "handoffs", "history", "hooks"),
        *("instruction_parts", "instructions", "made_at", "model", "model_settings", "name"),
        *("output", "output_form", "profile", "settings", "source_of_deps", "tool_ids", "tools"),
        "toolsets",
        "transfers",
    )

    name: str
    """Its name in conversations, rules and flows."""
    description: str
    """One sentence for people, and for agents that may call it."""
    instructions: str
    """The system prompt; empty if functions make it."""
    instruction_parts: InstructionParts | None
    """The instructions, if functions are among them."""
    model: str | Model | None
    """A model, or its name; None means the project's default."""
    tools: tuple[AnyTool, ...] | None
    """Its own tools; None means those of the project."""
    tool_ids: tuple[str, ...]
    """Tools of the project that it has beside its own."""
    toolsets: tuple[Any, ...]
    """Objects that return more of its tools at the start of each task."""
    output: Any
    """The type of what a task returns, or a function; None if the program gave none: text."""
    contract: OutputContract | None
    """The form of a typed output, with its tools; None if the output is text."""
    output_form: OutputForm
    """How its model gives an output, also that of a message."""
    handoffs: tuple[Any, ...]
    """The agents that it can hand a conversation off to, or their names."""
    transfers: Mapping[str, str]
    """Their names, by the tools `transfer_to_…` of its model."""
    settings: ChatSettings
    """How it works in a chat."""
    model_settings: ModelSettings
    """Settings of its requests."""
    profile: AgentProfile
    """The settings in its file that flows use."""
    history: HistoryChoice
    """How long conversations stay within the window of the model."""
    hooks: tuple[Hooks[Any], ...]
    """Code that sees, changes or stops what it does, asked after the hooks of the project."""
    deps_type: Any
    """The type of the dependencies, if the program named it."""
    made_at: str
    """The file and the line of the program that made it."""
    source_of_deps: DepsSource | None
    """Its own dependencies, by `with_deps`; None means those of the runtime."""

    # One for each kind of output: mypy infers a union wrongly; ty wants TypeForm after functions.
    @overload
    def __init__(
        self,
        name: str,
        *,
        output: type[OutputT_co],
        handoffs: Sequence["Agent[DepsT_contra, OutputT_co] | str"] = ...,
        **options: Unpack[AgentOptions[DepsT_contra]],
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        *,
        output: Callable[..., Awaitable[OutputT_co]],
        handoffs: Sequence["Agent[DepsT_contra, OutputT_co] | str"] = ...,
        **options: Unpack[AgentOptions[DepsT_contra]],
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        *,
        output: Callable[..., OutputT_co],
        handoffs: Sequence["Agent[DepsT_contra, OutputT_co] | str"] = ...,
        **options: Unpack[AgentOptions[DepsT_contra]],
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        *,
        output: TypeForm[OutputT_co],
        handoffs: Sequence["Agent[DepsT_contra, OutputT_co] | str"] = ...,
        **options: Unpack[AgentOptions[DepsT_contra]],
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        *,
        handoffs: Sequence["Agent[DepsT_contra, str] | str"] = ...,
        **options: Unpack[AgentOptions[DepsT_contra]],
    ) -> None: ...
    def __init__(
        self, name: str, *, output: Any = _TEXT, handoffs: Sequence[Any] = (), **options: Any
    ) -> None:
        check_options(options, AgentOptions.__annotations__, ChatSettings)
        self.name, self.output = checked_name(name), None if output is _TEXT else output
        self.description, self.model = options.get("description", ""), options.get("model")
        self.settings, self.made_at = options.get("settings", DEFAULTS), place_above(1)
        self.model_settings = options.get("model_settings", NOTHING_SET)
        self.profile = options.get("profile", NO_FILE)
        self.deps_type, self.source_of_deps = options.get("deps_type"), None
        self.hooks = checked_hooks(options.get("hooks", ()), f"hooks of the agent {name!r}")
        self.history = read_history(options)
        self.instructions, self.instruction_parts = read_instructions(
            options.get("instructions", ""), options.get("instructions_every", EACH[0]), name
        )
        self.tools, self.tool_ids, self.toolsets = read_tools(options.get("tools"))
        self.output_form = read_form(options)
        self.contract = None if output is _TEXT else contract_of(output, self.output_form)
        self.transfers, self.handoffs = transfers_to(name, handoffs), tuple(handoffs)

    @overload
    @classmethod
    def from_file(
        cls, path: str | Path, *, output: type[T] = ..., **options: Unpack[FileOptions]
    ) -> "Agent[object, T]": ...
    @overload
    @classmethod
    def from_file(
        cls, path: str | Path, *, output: TypeForm[T], **options: Unpack[FileOptions]
    ) -> "Agent[object, T]": ...
    @classmethod
    def from_file(
        cls, path: str | Path, *, output: Any = str, **options: Any
    ) -> "Agent[object, Any]":
        """Return the agent that a file defines, with what only a program can say.

        Args:
            path: An agent file, such as `agents/clerk.md`.
            output: The type of what a task returns.
            **options: Those of FileOptions: `output_mode`, `hooks` and others.

        Raises:
            DeclarationError: The file cannot be read, or has errors.
            ConfigError: The output has no schema, or an option has a value that does not exist.
            TypeError: An option is unknown, or is one that the file says.
        """
        read: Callable[..., Agent[object, Any]] = late("penstock.agents.agent_folders:read_agent")
        return read(path, output, options)

    def __repr__(self) -> str:
        """Return its name."""
        return f"<agent {self.name!r}>"

    def __replace__(self, /, **changes: Any) -> Self:
        """Return a copy with other attributes."""
        made = object.__new__(type(self))
        for name in self.__slots__[1:]:
            setattr(made, name, changes[name] if name in changes else getattr(self, name))
        return made

    def _needs(self, deps: DepsT_contra, /) -> None:
        """Tell type checkers which dependencies it needs."""

    def _gives(self) -> OutputT_co:
        """Tell type checkers what it returns."""
        raise NotImplementedError

    @overload
    def with_deps(self, deps: DepsT_contra, /) -> "Agent[object, OutputT_co]": ...
    @overload
    def with_deps(
        self, *, deps_factory: DepsFactory[DepsT_contra]
    ) -> "Agent[object, OutputT_co]": ...
    def with_deps(self, *deps: Any, deps_factory: Any = None) -> "Agent[Any, Any]":
        """Return this agent with dependencies of its own.

        Args:
            deps: The dependencies.
            deps_factory: A function that makes them for each activation of a task.
        """
        return self.__replace__(source_of_deps=own_source(deps, deps_factory))

    def as_tool(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        input: type[Any] | None = None,
        output: bool = True,
    ) -> Tool[DepsT_contra]:
        """Return this agent as a tool of another one; an agent in `tools` becomes one by itself.

        Args:
            name: The tool's id; None means the name of the agent.
            description: The text for models; None means the description of the agent.
            input: A type with the fields that the agent gets; None means a task in words.
            output: Whether the tool returns the typed output. False returns the text.
        """
        return agent_tool(self, name=name, description=description, input=input, output=output)

    @property
    def has_file(self) -> bool:
        """Whether a file defines it. Only such agents take part in flows."""
        return bool(self.profile.file)


AnyAgent = Agent[Any, Any]
