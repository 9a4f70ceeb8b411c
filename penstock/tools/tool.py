"""What a tool is: a specification and a way to run it."""

from typing import Any, Protocol

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
