"""The meaning of the hints of Python functions and types, as values that need no library.

`hints.py` reads them, and is loaded when the first hint is read: pydantic takes longer to import
than all that declares an agent.
"""

import inspect
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from msgspec import Struct, field

from penstock.core.diagnostics import Diagnostic
from penstock.core.envelope import Json
from penstock.core.foreign_code import CaughtError
from penstock.core.json_values.schema import Problem, json_problems
from penstock.resources.dependencies import Depends
from penstock.tools.python.context import ToolContext
from penstock.tools.python.foreign_input import ForeignInput


class Misfit(Struct, frozen=True):
    """JSON that does not fit its type."""

    problems: tuple[Problem, ...]


class ValueForm(NamedTuple):
    """How the values of a type are written as JSON."""

    schema: Json
    read: Callable[[Any], Any]
    """Returns the typed value of JSON that fits the schema, or a Misfit."""


class Signature(Struct, kw_only=True):
    """A function's parameters, result and errors."""

    description: str
    contexts: tuple[str, ...] = ()
    """Parameters that get the ToolContext."""
    needs: Any = None
    """The type of the dependencies that its context has; None if it needs none."""
    depends: dict[str, Depends] = field(default_factory=dict)
    """Parameters that functions provide."""
    hints: dict[str, Any] = field(default_factory=dict)
    """The types of these parameters."""
    plain: dict[str, type] = field(default_factory=dict)
    """Parameters that take their JSON value unchanged if it has exactly this type."""
    line: int = 1
    convert: Callable[[Json], dict[str, Any] | list[Problem]] = dict
    """Returns the typed arguments for JSON, or its problems. Unused while there are findings."""
    input_schema: Json = field(default_factory=dict)
    foreign: ForeignInput | None = None
    """How the function gets inputs of a schema that its hints did not make."""
    takes_bytes: bool = False
    gives_bytes: bool = False
    output_schema: Json | None = None
    findings: list[Diagnostic] = field(default_factory=list)


def type_name(hint: Any) -> str:
    """Return the name of a type for messages."""
    if hint is None or hint is type(None):
        return "None"
    return getattr(hint, "__name__", None) or str(hint)


def is_context(hint: Any) -> bool:
    """Whether a parameter with this hint gets the ToolContext."""
    if hint is ToolContext or get_origin(hint) is ToolContext:
        return True
    return any(each is ToolContext or get_origin(each) is ToolContext for each in get_args(hint))


def needs_of(hint: Any) -> Any:
    """Return the type of the dependencies of a context; None for a context without them."""
    if get_origin(hint) is ToolContext:
        (needed,) = get_args(hint)
        return None if needed is object else needed
    return next((found for each in get_args(hint) if (found := needs_of(each)) is not None), None)


def depends_of(hint: Any) -> Depends | None:
    """Return the function that provides a parameter with this hint, or None."""
    if get_origin(hint) is not Annotated:
        return None
    return next((each for each in get_args(hint)[1:] if isinstance(each, Depends)), None)


def unreadable_hints(function: Callable[..., Any]) -> Iterator[tuple[str, Any, Exception]]:
    """Yield the annotations that cannot be resolved, with the names of their parameters."""
    bare = inspect.unwrap(function)
    names = getattr(bare, "__globals__", {})
    for name, hint in bare.__annotations__.items():
        with CaughtError() as fault:
            get_type_hints(SimpleNamespace(__annotations__={name: hint}), names)
        if fault.error is not None:
            yield name, hint, fault.error


def show_defaults(schema: dict[str, Any], taken: list[inspect.Parameter]) -> None:
    """Show the defaults that are JSON in the schema. The function itself applies them."""
    shown = schema.setdefault("properties", {})
    for parameter in taken:
        described = shown.get(parameter.name, {})
        described.pop("default", None)
        default = parameter.default
        is_shown = isinstance(default, str | int | float | None)
        if is_shown and not any(json_problems(default, depth=1)):
            described["default"] = default
