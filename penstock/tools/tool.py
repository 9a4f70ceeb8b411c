"""What a tool is: a specification and a way to run it."""

import dataclasses
from copy import copy
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.envelope import Json
from penstock.tools.invocation import Invocation
from penstock.tools.spec import ToolSpec


class Tool(Protocol):
    """Anything that can be called by id.

    Contract: `run` gets an input that matches the schema and returns JSON, or raises a CallError
    with words for the model. Unless its effect is `write` it may be run again. It may be cancelled
    at any await, and lets Signals pass.
    """

    @property
    def spec(self) -> ToolSpec:
        """What callers may know."""
        ...

    async def run(self, input: Json, invocation: Invocation) -> Any:
        """Return the output."""
        ...

    def preview(self, output: Any) -> str | None:
        """Return one line for people about an output, or None for the usual one."""
        ...


def with_spec(tool: Tool, spec: ToolSpec) -> Tool:
    """Return a copy of a tool, of whatever kind, with another specification."""
    if isinstance(tool, Struct):
        return replace(tool, spec=spec)
    if dataclasses.is_dataclass(tool) and not isinstance(tool, type):
        return dataclasses.replace(tool, spec=spec)
    made: Any
    if (other := getattr(tool, "__replace__", None)) is not None:
        made = other(spec=spec)
    else:
        made = copy(tool)
        made.spec = spec
    found: Tool = made
    return found
