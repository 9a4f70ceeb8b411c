"""The tools of a program: from functions and other objects, with advice for what cannot be one.

`as_tool` accepts what a model can be told about: a tool, or a function with a name and hints. All
else is refused when the program makes its list, with the line to write instead, not when a model
first calls it. Hints and docstrings are read later, because they may name classes below a function.
Proof: tests/tools/python/test_given_tools.py.
"""

import inspect
from collections.abc import Callable, Iterable
from functools import partial, partialmethod
from typing import Any, cast

from penstock.core.errors import ConfigError
from penstock.tools.python.function import FunctionTool
from penstock.tools.tool import Registry, Tool, revert_problems

ToolLike = Tool | Callable[..., Any]
"""Objects that a program may pass as a tool. A plain function becomes a tool that writes."""

_INSTEAD = "write a def with @tool above it"
_LAMBDA = (lambda: None).__name__


def as_tool(value: ToolLike) -> Tool:
    """Return what a program gave as a tool: a tool, or a function, which becomes one that writes.

    Raises ConfigError for a callable that a model can be told nothing about, TypeError for others.
    """
    if isinstance(value, FunctionTool):
        return value
    if inspect.isroutine(value):
        inner = getattr(value, "__func__", None)
        if isinstance(inner, FunctionTool):  # Python 3.13 binds the tool below a @classmethod
            bound: Tool = inner.__get__(getattr(value, "__self__", None), None)
            return bound
        if why := _shortage(value):
            raise ConfigError(why)
        return FunctionTool(value)
    if isinstance(value, type) or not hasattr(value, "spec") or not hasattr(value, "run"):
        raise _refusal(value)
    return cast("Tool", value)


def all_as_tools(values: Iterable[ToolLike]) -> tuple[Tool, ...]:
    """Return a list that a program gave as tools. Raises TypeError if it is not a list."""
    if not isinstance(values, Iterable):
        raise TypeError(f"tools= takes a list, such as tools=[area]; found {values!r}")
    return tuple(map(as_tool, values))


def check_reverts(tools: Iterable[Tool], agents: Iterable[Any], registry: Registry) -> None:
    """Raise ConfigError if a tool of a program has a revert that is not loaded or does not fit.

    A tool of an agent may be taken back by another tool of that agent, or by one of the project.
    """
    wrong = list(revert_problems(tools, registry.by_id))
    for agent in agents:
        own = {each.spec.tool_id: each for each in agent.tools or ()}
        wrong += revert_problems(own.values(), {**registry.by_id, **own})
    if wrong:
        raise ConfigError("; ".join(dict.fromkeys(message for _, message in wrong)))


def is_toolset(value: Any) -> bool:
    """Whether a value has a method `tools`. A class has none to call before it is an object."""
    return not isinstance(value, type) and callable(getattr(value, "tools", None))


def name_of_toolset(toolset: Any) -> str:
    """Return the name of a toolset for messages: its `name`, or its class."""
    name = getattr(toolset, "name", None)
    return name if isinstance(name, str) and name else type(toolset).__name__


def _shortage(function: Any) -> str:
    """Return why a function cannot be a tool as it is."""
    name = getattr(function, "__name__", "")
    # Wrappers in C, such as that of functools.cache, have the hints of what they wrap.
    if name == _LAMBDA:
        return f"a lambda has no name, hints or docstring for a model: {_INSTEAD}"
    if not (inspect.isfunction(function) or inspect.ismethod(function)) and not (
        getattr(function, "__annotations__", None) or hasattr(function, "__wrapped__")
    ):
        return f"the built-in function {name!r} has no type hints: {_INSTEAD} that calls it"
    return ""


def _refusal(value: Any) -> Exception:
    """Return the error for what is neither a tool nor a function."""
    if isinstance(value, partial | partialmethod):
        name = getattr(value.func, "__name__", repr(value.func))
        return ConfigError(
            f"functools.partial of {name!r} has no name or docstring for a model: "
            f"{_INSTEAD} that calls {name}"
        )
    refused = f"tools= takes functions, with @tool above them or not, and tools; found {value!r}"
    if isinstance(value, type):
        advice = "a method of an object, as in tools=[shop.buy]"
        if callable(getattr(value, "tools", None)):
            advice = f"an object, as in tools=[{value.__name__}()]"
        return TypeError(f"{refused}. Pass {advice}")
    if callable(value):
        return ConfigError(f"{refused}: {_INSTEAD} that calls it")
    if is_toolset(value):
        refused += "; a toolset belongs to an agent: Agent(tools=[…])"
    return TypeError(refused)
