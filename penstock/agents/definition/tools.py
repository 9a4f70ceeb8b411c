"""The tools of an agent: given by its program, named by their ids, or returned by toolsets.

The protocols are for type checkers: `Tool[Pool]` is a tool that needs a Pool, and an agent with it
needs one too. At run time `tools/python/needs` finds a wrong or missing dependency when the project
is opened. Proof: tests/agents/definition/test_tools.py.
"""

from collections.abc import Awaitable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from msgspec.structs import replace
from typing_extensions import TypeVar

from penstock.core.diagnostics import did_you_mean
from penstock.core.errors import ConfigError, NameTaken
from penstock.core.late import late
from penstock.resources.dependencies import (
    AgentContext,
)
from penstock.tools.python.agent_tool import AgentTool
from penstock.tools.python.given_tools import all_as_tools, is_toolset
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

    Raises ConfigError if one has a tool by an id that the project does not have, or permissions for
    a tool that it cannot have, and NameTaken if it has two tools of one name.
    """
    every = with_inner(agents)
    names = {agent.name for agent in every}
    for agent in every:
        named = named_tools(agent.name, agent.tool_ids, registry, names)
        try:
            Registry((*(agent.tools or ()), *named))
        except NameTaken as taken:
            raise NameTaken(f"agent {agent.name!r}: {taken}") from None
        if agent.settings.tool_permissions:
            _check_permissions(agent, registry)


def _check_permissions(agent: Any, registry: Registry) -> None:
    """Raise ConfigError if the agent's permissions name an unknown tool: nothing would obey them.

    They also hold for the tools of agents that are its tools. Those of toolsets are not known yet.
    """
    inner = with_inner([agent])
    if any(each.toolsets for each in inner):
        return
    own = [tool.spec.tool_id for each in inner for tool in each.tools or ()]
    known = {*registry.by_id, *own, *agent.transfers}
    unknown = [each for each in agent.settings.tool_permissions if each not in known]
    # Loaded if needed: names that a runtime may leave out, such as that of `bash` in a test.
    standard = late("penstock.agents.agent_file:STANDARD_TOOLS") if unknown else ()
    for tool_id in unknown:
        if tool_id not in standard:
            raise ConfigError(
                f"tool_permissions of agent {agent.name!r} name {tool_id!r}, which is none of its "
                f"tools.{did_you_mean(tool_id, sorted(known))}"
            )


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
