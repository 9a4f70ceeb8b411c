"""Python types of outputs: the JSON Schema that a model gets, and the value that its JSON becomes.

A type is a pydantic model, a dataclass, a msgspec struct, a TypedDict, a plain type such as
`list[int]`, or a union of such. `OutputType` makes one schema for each member of a union, because
each is a tool of its own; a value is read back with the member that gave it, so that two types of
equal shape stay apart. Types without a schema raise ConfigError when the agent is made, not when
the first model answers.

JSON Schema is checked first: its problems have paths. The type's own validators run after it, so
they see values of the right shape only. Proof: tests/tools/python/test_output_type.py.
"""

import inspect
import re
import types
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from penstock.core.envelope import Json
from penstock.core.errors import ConfigError
from penstock.core.json_values.schema import Problem, Schema, pointer
from penstock.core.late import late
from penstock.tools.python.signature import Misfit, ValueForm, type_name

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]+")
_VALUE = "value"
"""The property of a model's arguments that holds a value other than an object."""


class OutputType:
    """One type of an output: a member of a union, or the only one.

    Raises ConfigError for a type without a JSON Schema.
    """

    def __init__(self, hint: Any) -> None:
        self.hint = hint
        self.name = _NOT_IN_NAMES.sub("_", type_name(hint)).strip("_")
        """Its name in tools, such as `Ticket`."""
        if inspect.isclass(hint) and not _has_fields(hint):
            raise ConfigError(f"output {hint.__name__} has no fields, so no model can give it")
        form_of: Callable[[Any], ValueForm] = late("penstock.tools.python.hints:form_of")
        self._form = form_of(hint)
        self.schema = self._form.schema
        """The schema of the value."""
        self.is_wrapped = self.schema.get("type") != "object"
        """Whether a model gives it as `{"value": ...}`, because arguments are an object."""
        self.description: str = self.schema.get("description", "")
        """The text of its docstring."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it as its type, which must be importable."""
        return OutputType, (self.hint,)

    @cached_property
    def parameters(self) -> Json:
        """The schema of a model's arguments."""
        return wrapped(self.schema) if self.is_wrapped else self.schema

    @cached_property
    def _checked(self) -> Schema:
        return Schema(self.parameters)

    def problems(self, arguments: Json) -> list[Problem]:
        """Return the problems of a model's arguments: those of the schema, then of the type."""
        if problems := self._checked.problems(arguments):
            return problems
        read = self.read(self.value(arguments))
        if not isinstance(read, Misfit):
            return []
        prefix = pointer([_VALUE]) if self.is_wrapped else ""
        return [Problem(prefix + each.path, each.message) for each in read.problems]

    def value(self, arguments: Json) -> Any:
        """Return the value in arguments that fit `parameters`."""
        return unwrapped(arguments) if self.is_wrapped else dict(arguments)

    def read(self, value: Any) -> Any:
        """Return the typed value of recorded JSON, or a Misfit with the problems."""
        return self._form.read(value)


def output_types(hint: Any) -> tuple[OutputType, ...]:
    """Return the types of a union, or the only one. Raises ConfigError for one without a schema."""
    if isinstance(hint, Sequence) and not isinstance(hint, str):
        names = " | ".join(map(type_name, hint))
        raise ConfigError(f"output takes a type, found a list; for one of several write {names}")
    members = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return tuple(map(OutputType, members))


def wrapped(schema: Json) -> dict[str, Any]:
    """Return the schema of an object whose only property `value` has the given schema."""
    inner = {key: each for key, each in schema.items() if key != "$defs"}
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return {
        "type": "object",
        "properties": {_VALUE: inner},
        "required": [_VALUE],
        "additionalProperties": False,
        **definitions,
    }


def unwrapped(arguments: Json) -> Any:
    """Return the value in arguments that fit a schema of `wrapped`."""
    return arguments[_VALUE]


def is_wrapper(value: Any) -> bool:
    """Whether a value has the members of an object that fits a schema of `wrapped`."""
    return isinstance(value, dict) and [*value] == [_VALUE]


def returned(function: Any) -> Any:
    """Return the hint of what a function returns. Raises ConfigError if it has none."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ConfigError(f"output function {function.__name__!r}: {error}") from error
    if "return" not in hints:
        name = function.__name__
        line = f"def {name if name.isidentifier() else 'make'}(...) -> Ticket:"
        raise ConfigError(
            f"output function {name!r} has no hint for what it returns; write `{line}`"
        )
    return hints["return"]


def _has_fields(cls: type) -> bool:
    """Whether a class is a plain type, or names at least one field."""
    if cls.__module__ == "builtins" or get_origin(cls) is Literal:
        return True
    return any(vars(base).get("__annotations__") for base in cls.__mro__) or not _is_record(cls)


def _is_record(cls: type) -> bool:
    names = ("__dataclass_fields__", "model_fields", "__struct_fields__", "__required_keys__")
    return any(hasattr(cls, name) for name in names)
