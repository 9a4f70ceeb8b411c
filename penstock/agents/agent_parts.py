"""The parts that a program gives to an agent, and the dependencies that they need.

The protocols are for type checkers: `Tool[Pool]` is a tool that needs a Pool, and an agent with it
needs one too. At run time `tools/python/needs` finds a wrong or missing dependency when the project
is opened.

Instructions may be functions. They run at the start of a conversation, or of each task; their texts
are recorded, so that a restart sends the same system prompt and a provider's cache still fits.
Proof: tests/agents/test_agent_parts.py.
"""

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from types import CodeType
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, get_args, runtime_checkable

from msgspec import Struct, to_builtins
from msgspec.json import encode
from msgspec.structs import replace
from typing_extensions import TypeVar

from penstock.core.diagnostics import did_you_mean
from penstock.core.errors import ConfigError, NameTaken, PromptNotResolved
from penstock.core.events.events import NoteEmitted, PromptResolved
from penstock.core.foreign_code import CaughtError, name_of, takes
from penstock.core.late import late
from penstock.engine.held_log import HeldLog
from penstock.engine.task_state import AGENT_CHANGED, TaskState
from penstock.models.model import Model
from penstock.models.settings import NOTHING_SET, ModelSettings
from penstock.resources.dependencies import (
    MISSING,
    NO_DEPS,
    AgentContext,
    Dependencies,
    Hold,
    TaskScope,
)
from penstock.tools.python.agent_tool import AgentTool
from penstock.tools.python.given_tools import all_as_tools, is_toolset, name_of_toolset
from penstock.tools.python.needs import needs_of
from penstock.tools.spec import ToolSpec
from penstock.tools.tool import Registry, with_spec
from penstock.tools.tool import Tool as AnyTool

NeedsT_contra = TypeVar("NeedsT_contra", contravariant=True)
D = TypeVar("D")


@runtime_checkable
class Tool(Protocol[NeedsT_contra]):
    """A tool that an agent can have, by the type of the dependencies that it needs.

    Example:
        >>> from penstock import Tool, tool
        >>> @tool(effect="none")
        ... def double(number: int) -> int:
        ...     '''Double a number.'''
        ...     return 2 * number
        >>> tools: list[Tool[object]] = [double]
    """

    @property
    def spec(self) -> ToolSpec:
        """The specification, which callers may see."""
        ...

    def _needs(self, deps: NeedsT_contra, /) -> None: ...


@runtime_checkable
class Toolset(Protocol[NeedsT_contra]):
    """An object with a method `tools`, which returns an agent's tools when a task starts.

    The method may be async. `Agent(tools=[…])` takes toolsets beside tools. What one returns is
    callable in that task only; a process that continues the task asks again.

    Example:
        >>> from penstock import Agent, AgentContext, Tool, tool
        >>> @tool(effect="read")
        ... def stock(item: str) -> int:
        ...     '''Return how many are left.'''
        ...     return 3
        >>> class Shop:
        ...     def tools(self, ctx: AgentContext[object]) -> list[Tool[object]]:
        ...         return [stock] if "shop" in ctx.profile.permissions else []
        >>> Agent("clerk", tools=[Shop()]).name
        'clerk'
    """

    def tools(
        self, ctx: AgentContext[NeedsT_contra], /
    ) -> Sequence[Tool[NeedsT_contra]] | Awaitable[Sequence[Tool[NeedsT_contra]]]:
        """Return the tools for the task of the context.

        Args:
            ctx: The task: its profile, conversation, metadata and dependencies.

        Returns:
            Tools with names that no other tool of the agent has.

        Raises:
            Exception: Whatever it raises ends a task that starts, and blocks one that continues.
        """
        ...


ToolOrSet: TypeAlias = Tool[D] | Toolset[D]


class PlainFunction(Protocol):
    """A function as Python makes it.

    Not `Callable`: a tool is callable too, and checkers would lose the dependencies that it needs.
    """

    @property
    def __code__(self) -> CodeType:
        """The code of the function."""
        ...

    @property
    def __call__(self) -> Callable[..., Any]:
        """Call the function."""
        ...


Instructions: TypeAlias = (
    str | Callable[[AgentContext[D]], str] | Callable[[AgentContext[D]], Awaitable[str]]
)
"""Text of the system prompt, or a function that returns some."""
Every = Literal["conversation", "task"]
"""How often functions among the instructions run."""
EACH: tuple[Every, ...] = get_args(Every)


class InstructionParts(Struct, frozen=True):
    """Instructions with functions among them."""

    parts: tuple[Any, ...]
    every: Every = "conversation"

    async def of_task(
        self, held: HeldLog, task: TaskState, scope: TaskScope, dependencies: Dependencies | None
    ) -> str:
        """Return what the functions return, now or in an earlier activation."""
        texts = task.instructions or {}
        if self.every == "conversation":
            texts = task.main.messages.instructions or {}
        if (text := texts.get(scope.agent)) is None:
            text = await self.text(held, scope, dependencies)
            # Recorded, so that a restart sends the same prompt and a provider's cache still fits.
            held.add(PromptResolved(text=text, agent=scope.agent), task.task_id)
        return text

    async def text(self, hold: Hold, scope: TaskScope, dependencies: Dependencies | None) -> str:
        """Return the instructions of a task. Raises PromptNotResolved if a function fails."""
        texts = []
        for part in self.parts:
            if isinstance(part, str):
                texts.append(part)
                continue
            # Made only for functions that name a type: an unread pool costs a connection.
            deps: Any = MISSING
            if needs_of(part) is not None:
                if dependencies is None:
                    raise ConfigError(NO_DEPS)
                deps = await dependencies.deps(hold, scope)
            made: Any = None
            with CaughtError() as fault:
                made = part(AgentContext(scope, deps))
                made = await made if inspect.isawaitable(made) else made
            if fault.error is not None:
                raise PromptNotResolved(
                    f"the instructions {name_of(part)!r} of agent {scope.agent!r} failed: "
                    f"{fault.error!r}"
                ) from fault.error
            if not isinstance(made, str):
                raise PromptNotResolved(
                    f"the instructions {name_of(part)!r} of agent {scope.agent!r} must return a "
                    f"text, found {made!r}"
                )
            texts.append(made)
        return joined(texts)


def read_instructions(given: Any, every: Any, agent: str) -> tuple[str, InstructionParts | None]:
    """Return instructions as text, or what makes the text. Raises ConfigError."""
    if every not in EACH:
        raise ConfigError(f"instructions_every must be conversation or task; found {every!r}")
    # Not all callables are functions: an object with `__call__` may keep the texts of a project.
    is_one = isinstance(given, str) or callable(given) or not isinstance(given, Iterable)
    parts = (given,) if is_one else tuple(given)
    for part in parts:
        if not (isinstance(part, str) or (callable(part) and takes(part, 1))):
            raise ConfigError(
                f"instructions of agent {agent!r} take texts, and functions with one argument, "
                f"an AgentContext; found {part!r}"
            )
    if all(isinstance(part, str) for part in parts):
        return joined(parts), None
    return "", InstructionParts(parts, every)


def place_above(frames: int) -> str:
    """Return the file and the line of the code that many frames above the caller."""
    frame = inspect.currentframe()
    for _ in range(frames + 1):
        frame = frame and frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "unknown code"


OF_OTHERS = {
    "output_type": "output",
    "result_type": "output",
    "system_prompt": "instructions",
    "prompt": "instructions",
    "toolsets": "tools",
    "capabilities": "hooks",
    "input_guardrails": "hooks",
    "output_guardrails": "hooks",
    "guardrails": "hooks",
}
"""Arguments of other frameworks, and ours."""
_NO_MODELS = (int, float, list, tuple, dict, type)


def check_options(given: Mapping[str, Any], known: Iterable[str], settings: type) -> None:
    """Raise TypeError for the first argument that `Agent` does not have or accept."""
    if "settings" in given:
        check: Callable[..., None] = late("penstock.agents.agent_settings:check_settings")
        check(given["settings"], settings)
    for option in given:
        if option not in known:
            meant = OF_OTHERS.get(option)
            all_known = [*known, "output", "handoffs"]
            hint = f" Write {meant!r}." if meant else did_you_mean(option, all_known)
            raise TypeError(f"Agent has no argument {option!r}.{hint}")
    if not isinstance(chosen := given.get("model_settings", NOTHING_SET), ModelSettings):
        raise TypeError(
            "model_settings= takes ModelSettings, such as ModelSettings(temperature=0.2), "
            f"found {chosen!r}"
        )
    model = given.get("model")
    if isinstance(model, _NO_MODELS):
        raise TypeError(
            "model= takes a name such as 'openai:gpt-5', Fallback('a', 'b'), or an instance of "
            f"your own model class, found {model!r}"
        )


class GivenParts(NamedTuple):
    """The tools of an agent as its program gives them."""

    tools: tuple[AnyTool, ...] | None = None
    """None means the tools of the project."""
    tool_ids: tuple[str, ...] = ()
    """Tools that the project has."""
    toolsets: tuple[Any, ...] = ()


def read_tools(given: Any) -> GivenParts:
    """Return the tools of an agent, the ids of those that the project has, and its toolsets."""
    if given is None:
        return GivenParts()
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"tools= takes a list, such as tools=[area]; found {given!r}")
    own, tool_ids, toolsets = [], [], []
    for each in given:
        if isinstance(each, str):
            tool_ids.append(each)
        elif is_toolset(each):
            toolsets.append(each)
        else:
            # An agent; to compare with a protocol takes half as long as to make the agent.
            convert = None if isinstance(each, type) else getattr(each, "as_tool", None)
            own.append(convert() if callable(convert) else each)
    return GivenParts(all_as_tools(own), tuple(tool_ids), tuple(toolsets))


def joined(texts: Iterable[str]) -> str:
    """Return texts as paragraphs of one; empty ones are left out."""
    return "\n\n".join(text for text in texts if text)


def with_inner(agents: Iterable[Any]) -> list[Any]:
    """Return agents, and those that are tools of them, at any depth."""
    found: dict[int, Any] = {}
    waiting = list(agents)
    while waiting:
        agent = waiting.pop(0)
        if id(agent) not in found:
            found[id(agent)] = agent
            waiting += [tool.agent for tool in agent.tools or () if isinstance(tool, AgentTool)]
    return list(found.values())


def check_tool_ids(agents: Iterable[Any], registry: Registry) -> None:
    """Check the names of the tools of agents, and of agents that are tools of them.

    Raises ConfigError if one has a tool by an id that the project does not have, and NameTaken if
    it has two tools of one name.
    """
    every = with_inner(agents)
    names = {agent.name for agent in every}
    for agent in every:
        named = named_tools(agent.name, agent.tool_ids, registry, names)
        try:
            Registry((*(agent.tools or ()), *named))
        except NameTaken as taken:
            raise NameTaken(f"agent {agent.name!r}: {taken}") from None


DIGEST = 16
"""Characters of the hash of a definition in the log."""


def digest_of(agent: Any) -> str:
    """Return the hash of what a program says about an agent; of its functions, the names."""
    parts = agent.instruction_parts.parts if agent.instruction_parts else [agent.instructions]
    tools = [tool.spec for tool in agent.tools or ()]
    model = agent.model
    said = [
        [part if isinstance(part, str) else name_of(part) for part in parts],
        model if model is None or isinstance(model, str) else model.card.model_id,
        [[each.tool_id, each.description, each.input_schema, each.effect] for each in tools],
        None if agent.tools is None else list(agent.tool_ids),
        [name_of_toolset(each) for each in agent.toolsets],
        None if agent.contract is None else agent.contract.schema,
        list(agent.transfers),
        to_builtins(agent.settings),
        to_builtins(agent.model_settings),
    ]
    return sha256(encode(said, order="deterministic")).hexdigest()


def note_change(held: HeldLog, task: TaskState, agent: Any) -> None:
    """Note in the log that a task continues with another definition of its agent, if it does.

    Once for each change: the fold of the note is what the next process compares with.
    """
    now, newest = agent.profile.content_hash[:DIGEST], task.agent_digest
    before = task.started.agent_digest if task.started else ""
    # Of a hand-off, HandedOff has the digest; those of earlier versions have none.
    if not (before and now) or newest == now:
        return
    message = f"the agent {agent.name!r} was changed since the task started: {before} is now {now}"
    if before == now:
        message = f"the agent {agent.name!r} is again as it was when the task started: {now}"
    payload = {"agent": agent.name, "started_with": before, "continues_with": now}
    note = NoteEmitted(event_type=AGENT_CHANGED, message=message, payload=payload)
    held.add(note, task.task_id)


def named_tools(
    agent: str, tool_ids: Iterable[str], registry: Registry, agents: Collection[str] = ()
) -> Iterator[AnyTool]:
    """Yield the tools of the project that an agent has by their ids. Raises ConfigError.

    The error says so if the id is the name of one of these `agents`.
    """
    for tool_id in tool_ids:
        tool = registry.by_id.get(tool_id)
        if tool is None:
            known = [each.spec.tool_id for each in registry]
            hint = did_you_mean(tool_id, known)
            if tool_id in agents:
                hint = " It is the name of an agent: give the Agent itself instead of its name."
            raise ConfigError(
                f"agent {agent!r} has the tool {tool_id!r}, which the project does not have.{hint}"
            )
        yield with_spec(tool, replace(tool.spec, is_offered=True))


class HistoryChoice(Struct, frozen=True):
    """How the conversations of an agent stay within the window of its model."""

    summarises: bool = False
    """Whether a summary replaces the oldest messages; else they are left out."""
    model: str | Model | None = None
    """The model that writes summaries; None means the agent's."""


HISTORIES = ("trim", "summarise")


def read_history(options: Mapping[str, Any]) -> HistoryChoice:
    """Return the choice in the options of an agent. Raises ConfigError for an unknown way."""
    given = options.get("history", HISTORIES[0])
    if given not in HISTORIES:
        raise ConfigError(f"history must be {' or '.join(HISTORIES)}; found {given!r}")
    return HistoryChoice(given == HISTORIES[1], options.get("summary_model"))
