"""Toolsets: objects that return the tools of an agent when a task starts.

They are asked at the start of each task, and again by each process that continues it, because their
tools are live objects. The log has only the names that were offered at the start. So a process that
continues a task offers those of the names that the toolsets still return, and no new ones; the
tools of one task are not callable in another. A call whose tool is gone fails with TOOL_NOT_FOUND,
or with INTERRUPTED if it had started.

A toolset fails if it raises, hangs, or returns something else than tools with names of their own.
At the start of a task that ends the task with a reason. A task that was at work is blocked instead,
and the toolset is asked again after 2 s, then after twice as long each time, up to 2 minutes: an
approval must not be lost because a server is down for a moment.
Proof: tests/tools/python/test_toolsets.py and tests/journeys/test_toolsets.py.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, Self, TypeVar

from penstock.core.errors import Blocked, ConfigError, DeclarationError, ToolsetFailed
from penstock.core.foreign_code import CaughtError, consume_outcome
from penstock.core.task import Missing, MissingKind
from penstock.core.text import ERROR_CHARS, cut
from penstock.resources.dependencies import (
    MISSING,
    AgentContext,
    DepsSource,
    GivenDeps,
    Hold,
    TaskScope,
)
from penstock.tools.invoker import Edition
from penstock.tools.python.agent_tool import AgentTool
from penstock.tools.python.given_tools import as_tool, name_of_toolset
from penstock.tools.python.needs import AgentNeeds, check_needs, needs_of
from penstock.tools.tool import Tool

log = logging.getLogger(__name__)

FIRST_WAIT = 2.0
LONGEST_WAIT = 120.0
FOUND = 200
"""Characters of a wrong value in a message."""


class AgentWithToolsets(Protocol):
    """An agent, as far as its tools are concerned."""

    name: str
    tools: tuple[Tool, ...] | None
    tool_ids: tuple[str, ...]
    toolsets: tuple[Any, ...]
    transfers: Mapping[str, str]
    contract: Any
    source_of_deps: DepsSource | None

    def __replace__(self, /, **changes: Any) -> Self:
        """Return a copy with other attributes."""
        ...


AgentT = TypeVar("AgentT", bound=AgentWithToolsets)


class Toolsets:
    """Asks toolsets for their tools, and remembers which ones failed lately."""

    def __init__(self, edition: Edition) -> None:
        self._threads = edition.threads
        self._dependencies = edition.resources.dependencies
        self._clock = edition.world.clock
        self._seconds = edition.world.limits.toolset_seconds
        self._failures: dict[str, tuple[float, float]] = {}
        """Of each toolset that failed: how long it is left alone, and until when."""

    async def equip(self, agent: AgentT, hold: Hold, scope: TaskScope, *, is_new: bool) -> AgentT:
        """Return the agent as it is for one task: with the tools that its toolsets return.

        Raises ToolsetFailed at the start of a task, Blocked later: then another try is possible.
        """
        found = list(agent.tools or ())
        taken = {*agent.tool_ids, *agent.transfers, *(tool.spec.tool_id for tool in found)}
        if agent.contract is not None:
            functions = (each.spec.tool_id for each in agent.contract.functions)
            taken |= {*agent.contract.tool_ids, *functions}
        for toolset in agent.toolsets:
            name = name_of_toolset(toolset)
            try:
                tools = await self._tools(agent, toolset, hold, scope)
                _check_names(tools, taken)
            except (ToolsetFailed, ConfigError, DeclarationError) as error:
                failed = ToolsetFailed(f"the toolset {name!r} of agent {agent.name!r} {error}")
                if is_new:
                    raise failed from error
                self._postpone(name)
                log.warning("a task is blocked: %s", failed)
                raise Blocked((Missing(MissingKind.TOOLSET, name),)) from error
            self._failures.pop(name, None)
            found += tools
        return agent.__replace__(tools=tuple(found), toolsets=())

    def may_be_asked(self, name: str) -> bool:
        """Whether a toolset did not fail lately."""
        return self._clock.monotonic() >= self._failures.get(name, (0, 0))[1]

    def _postpone(self, name: str) -> None:
        """Leave a toolset that failed alone for a while, each time twice as long."""
        last, _ = self._failures.get(name, (FIRST_WAIT / 2, 0))
        wait = min(2 * last, LONGEST_WAIT)
        self._failures[name] = (wait, self._clock.monotonic() + wait)

    async def _tools(
        self, agent: AgentWithToolsets, toolset: Any, hold: Hold, scope: TaskScope
    ) -> list[Tool]:
        """Return the tools of a toolset, whose dependencies the agent gets."""
        work = asyncio.ensure_future(self._call(toolset.tools, hold, scope))
        work.add_done_callback(consume_outcome)
        try:
            # Not `asyncio.timeout`: a toolset that swallows its cancellation would never end.
            await asyncio.wait({work}, timeout=self._seconds)
        finally:
            work.cancel()
        if not work.done():
            limit = f"{self._seconds:g} s (limits.toolset_seconds)"
            raise ToolsetFailed(f"did not return within {limit}")
        if work.cancelled():
            raise ToolsetFailed("cancelled itself")
        if (error := work.exception()) is not None:
            raise ToolsetFailed(f"failed: {cut(repr(error), ERROR_CHARS)}") from error
        tools = _tools_of(work.result())
        needs = AgentNeeds(agent=agent.name, tools=tools, source=agent.source_of_deps)
        given = GivenDeps() if self._dependencies is None else self._dependencies.given
        check_needs([needs], given)
        return tools

    async def _call(self, tools: Callable[..., Any], hold: Hold, scope: TaskScope) -> Any:
        deps: Any = MISSING
        if self._dependencies is not None and needs_of(tools) is not None:
            deps = await self._dependencies.deps(hold, scope)
        context = AgentContext[Any](scope, deps)
        if inspect.iscoroutinefunction(tools):
            return await tools(context)
        # In a thread, as every plain function of a program: it may read files or ask a server.
        found = await self._threads.run(partial(tools, context))
        return await found if inspect.isawaitable(found) else found


def _tools_of(found: Any) -> list[Tool]:
    """Return what a toolset returned as tools that can be called."""
    if isinstance(found, str) or not isinstance(found, Sequence):
        raise ToolsetFailed(f"must return a list of tools, found {cut(repr(found), FOUND)}")
    tools = []
    for each in found:
        if isinstance(each, AgentTool) or hasattr(each, "as_tool"):
            raise ToolsetFailed(f"returned {each!r}; list agents in tools= of the agent")
        with CaughtError() as fault:
            tool = as_tool(each)
            _ = tool.spec  # a broken one is found now, not at a model's first call
            tools.append(tool)
        if fault.error is not None:
            why = cut(str(fault.error) or repr(fault.error), ERROR_CHARS)
            raise ToolsetFailed(f"returned what cannot be a tool: {why}") from fault.error
    return tools


def _check_names(tools: Iterable[Tool], taken: set[str]) -> None:
    """Add the names of tools to those that are taken. Raises ToolsetFailed if one is."""
    own: set[str] = set()
    for tool in tools:
        tool_id = tool.spec.tool_id
        if tool_id in own:
            raise ToolsetFailed(f"returned two tools {tool_id!r}; rename one of them")
        if tool_id in taken:
            raise ToolsetFailed(f"returned {tool_id!r}, but the agent has another such tool")
        own.add(tool_id)
    taken |= own
