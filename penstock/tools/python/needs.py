"""The dependencies that the parts of a program need, compared with those that it gives.

The check runs when a project is opened, so that a missing or wrong dependency is an error with the
agent and the tool, not when a model first calls the tool. Types are compared as far as they are
known: a factory without a return annotation fits everything.
Proof: tests/tools/python/test_needs.py.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, get_args, get_origin, get_type_hints

from msgspec import Struct

from penstock.core.errors import ConfigError
from penstock.core.foreign_code import CaughtError, fits, name_of, returned_type
from penstock.resources.dependencies import (
    AgentContext,
    Depends,
    DepsSource,
    GivenDeps,
)
from penstock.tools.hooks.hooks import Hooks, needs_of_hook
from penstock.tools.python.function import FunctionTool
from penstock.tools.python.given_tools import name_of_toolset
from penstock.tools.python.signature import unreadable_hints


def needs_of(function: Callable[..., Any]) -> Any:
    """Return the type of the deps of a function's AgentContext; None if it needs none."""
    with CaughtError():
        hints = get_type_hints(_written(function))
        for hint in hints.values():
            if get_origin(hint) is AgentContext:
                (needed,) = get_args(hint)
                return None if needed is object else needed
    return None


def _written(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that an author wrote: without decorators, `partial` and objects."""
    while isinstance(function, partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    written: Callable[..., Any] = inspect.unwrap(function)
    return written


def _check_hints(what: str, function: Callable[..., Any], agent_at: str) -> None:
    """Raise ConfigError for a hint that cannot be read: it may be that of a context with deps."""
    written = _written(function)
    if not getattr(written, "__annotations__", None):
        return
    for name, hint, error in unreadable_hints(written):
        code = getattr(written, "__code__", None)
        place = f"{code.co_filename}:{code.co_firstlineno}" if code else "unknown code"
        remedy = ""
        if isinstance(error, NameError):
            remedy = "; import it at the top, not under `if TYPE_CHECKING:`"
        raise ConfigError(
            f"{what}, at {place}: the hint {hint!r} of {name!r} cannot be read: {error}{remedy} "
            f"(the agent is made at {agent_at or 'unknown code'})"
        )


class AgentNeeds(Struct, frozen=True, kw_only=True):
    """The needs of the parts of one agent."""

    agent: str
    """Its name; empty for the tools of the project."""
    made_at: str = ""
    """The file and the line of the program that made it."""
    tools: Sequence[Any] = ()
    toolsets: Sequence[Any] = ()
    hooks: Sequence[Hooks[Any]] = ()
    instructions: Sequence[Any] = ()
    deps_type: Any = None
    source: DepsSource | None = None
    """Its own dependencies, by `with_deps`."""


def needs_of_agent(agent: Any) -> AgentNeeds:
    """Return the needs of an agent's parts, for the check when a project is opened."""
    return AgentNeeds(
        agent=agent.name,
        made_at=agent.made_at,
        tools=agent.tools or (),
        toolsets=agent.toolsets,
        hooks=agent.hooks,
        instructions=agent.instruction_parts.parts if agent.instruction_parts else (),
        deps_type=agent.deps_type,
        source=agent.source_of_deps,
    )


def check_needs(
    agents: Iterable[AgentNeeds], given: GivenDeps, hooks: Sequence[Hooks[Any]] = ()
) -> None:
    """Raise ConfigError if a part of an agent needs dependencies that are missing or do not fit.

    `hooks` are those of the project: they get the dependencies of the agent that they watch.
    """
    for agent in agents:
        whose = f"agent {agent.agent!r}" if agent.agent else "the project"
        source = agent.source or given.shared
        if agent.deps_type not in {None, object}:
            _check(f"{whose} has deps_type={name_of(agent.deps_type)}", agent.deps_type, source)
        # Hints of other kinds of tools are not known: they have no context to read deps from.
        for tool in agent.tools:
            if isinstance(tool, FunctionTool):
                _check_tool(f"the tool {tool.tool_id!r} of {whose}", tool, source, given.overrides)
        for what, function, verb in _functions(agent):
            _check_hints(f"{what} of {whose}", function, agent.made_at)
            if (needed := needs_of(function)) is not None:
                _check(f"{what} of {whose} {verb} deps of type {name_of(needed)}", needed, source)
        for hook in dict.fromkeys((*hooks, *agent.hooks)):
            _check_hook(hook, f"{'of' if hook in agent.hooks else 'at work for'} {whose}", source)


def _functions(agent: AgentNeeds) -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Yield the functions that get an AgentContext: their names, and the verb of a message."""
    for function in filter(callable, agent.instructions):
        yield f"the instructions {name_of(function)!r}", function, "need"
    for toolset in agent.toolsets:
        yield f"the toolset {name_of_toolset(toolset)!r}", toolset.tools, "needs"


def _check_tool(
    what: str,
    tool: FunctionTool[Any, ..., Any],
    source: DepsSource | None,
    overrides: Mapping[Callable[..., Any], Any],
) -> None:
    if (needed := tool.needs) is not None:
        _check(f"{what} needs deps of type {name_of(needed)}", needed, source)
    for name, (depends, hint) in tool.injected.items():
        _check_depends(f"the parameter {name!r} of {what}", depends, hint, overrides)


def _check_hook(hook: Hooks[Any], whose: str, source: DepsSource | None) -> None:
    if (needed := needs_of_hook(hook)) is not None:
        what = f"the hook {hook.name!r} {whose} needs deps of type {name_of(needed)}"
        _check(what, needed, source)


def _check(what: str, needed: Any, source: DepsSource | None) -> None:
    if source is None:
        raise ConfigError(
            f"{what}; pass deps= or deps_factory= to penstock.open, or use agent.with_deps(…)"
        )
    if problem := source.problem(needed):
        raise ConfigError(f"{what}, but {problem}")


def _check_depends(
    what: str, depends: Depends, hint: Any, overrides: Mapping[Callable[..., Any], Any]
) -> None:
    function = overrides.get(depends.function, depends.function)
    found = returned_type(function) if callable(function) else type(function)
    if found is not None and not fits(found, hint):
        raise ConfigError(
            f"{what} is a {name_of(hint)}, but {name_of(function)} returns {name_of(found)}"
        )
