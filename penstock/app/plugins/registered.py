"""Parts that plugins register: tools, and gates that refuse runs.

Tools are available only to agent sessions that declare them. A check that fails refuses: a plugin's
mistake never lets a run through.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any, Protocol

from msgspec import Struct

from penstock.core.call import Effect
from penstock.core.envelope import Json
from penstock.core.errors import ConfigError
from penstock.core.foreign_code import CaughtError
from penstock.core.json_values.json_text import JSON_DEPTH
from penstock.core.json_values.schema import Schema
from penstock.resources.threads import Threads
from penstock.tools.invocation import Invocation
from penstock.tools.outputs import own_copy, to_json
from penstock.tools.policy import PLUGIN
from penstock.tools.python.context import ToolContext
from penstock.tools.python.options import TOOL_ID
from penstock.tools.spec import ToolSpec


class PluginTool(Protocol):
    """A tool that a plugin registers.

    Contract: `run` is a coroutine or a plain function of the input and a ToolContext, and returns
    JSON. It may have `effect` (none, read, write; write unless it says otherwise) and `idempotent`.
    """

    @property
    def id(self) -> str:
        """Return its name."""
        ...

    @property
    def description(self) -> str:
        """Return what models read of it."""
        ...

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """Return the JSON Schema of its input."""
        ...

    def run(self, input: Json, ctx: ToolContext) -> Any:
        """Return the output."""
        ...


class RegisteredTool(Struct, frozen=True, kw_only=True):
    """A tool of a plugin, adapted for the invoker."""

    spec: ToolSpec
    tool: PluginTool

    async def run(self, input: Json, invocation: Invocation) -> Any:
        """Return what the plugin's tool returns, as JSON."""
        edition, context = invocation.edition, ToolContext(invocation)
        copy = own_copy(input)
        if iscoroutinefunction(self.tool.run):
            output = await self.tool.run(copy, context)
        else:
            output = await edition.threads.run(partial(self.tool.run, copy, context))
        if isawaitable(output):
            output = await output
        return to_json(output, JSON_DEPTH)

    def preview(self, output: Any) -> str | None:
        """Return the default preview."""
        return None


def registered(tool: PluginTool) -> RegisteredTool:
    """Return a plugin's tool for the invoker. Raises ConfigError for an invalid tool."""
    for name, kind in (("id", str), ("description", str), ("input_schema", Mapping)):
        if not isinstance(getattr(tool, name, None), kind):
            raise ConfigError(f"{tool!r} is not a tool: it needs {name!r}, of type {kind.__name__}")
    if not callable(getattr(tool, "run", None)):
        raise ConfigError(f"{tool!r} is not a tool: it needs run(input, ctx)")
    if not TOOL_ID.fullmatch(tool.id):
        raise ConfigError(f"{tool.id!r} is not a tool id; expected {TOOL_ID.pattern}")
    spec = ToolSpec(
        tool_id=tool.id,
        description=tool.description,
        input_schema=_schema(tool),
        effect=_effect(tool),
        idempotent=bool(getattr(tool, "idempotent", False)),
        is_offered=False,
        kind=PLUGIN,
    )
    return RegisteredTool(spec=spec, tool=tool)


def _schema(tool: PluginTool) -> Json:
    schema = dict(tool.input_schema)
    try:
        Schema(schema)
    except (ValueError, TypeError) as error:
        problem = f"the input_schema of tool {tool.id!r} is not a JSON Schema: {error}"
        raise ConfigError(problem) from None
    if schema.get("type") != "object":
        raise ConfigError(f'the input_schema of tool {tool.id!r} must have {{"type": "object"}}')
    return schema


def _effect(tool: PluginTool) -> Effect:
    declared = getattr(tool, "effect", Effect.WRITE)
    known = [each.value for each in Effect]
    if declared not in known:
        raise ConfigError(
            f"the effect of tool {tool.id!r} must be one of {', '.join(known)}; found {declared!r}"
        )
    return Effect(declared)


log = logging.getLogger(__name__)

CHECK_SECONDS = 2.0
"""A check that takes longer counts as false."""
_MAX_THREADS = 4
Check = Callable[[], bool | Awaitable[bool]]


class PluginGate(Struct, frozen=True, kw_only=True):
    """A check that runs of some flows must pass."""

    name: str
    check: Check
    flows: tuple[str, ...]
    """Commands, or prefixes of commands followed by `*`."""
    message: str
    """The reason for rejected runs."""

    def applies_to(self, command: str) -> bool:
        """Whether the gate applies to a flow."""
        return any(
            command.startswith(each[:-1]) if each.endswith("*") else command == each
            for each in self.flows
        )


class GateList:
    """The gates of a project, in the order in which they were registered."""

    def __init__(self, seconds: float = CHECK_SECONDS) -> None:
        self._gates: list[PluginGate] = []
        self._seconds = seconds
        self._threads = Threads(_MAX_THREADS)

    def add(self, gate: PluginGate) -> None:
        """Add a gate."""
        self._gates.append(gate)

    async def refusal(self, command: str) -> str | None:
        """Return the message of the first closed gate; None if the run can start."""
        for gate in self._gates_of(command):
            if not await self._is_open(gate):
                return gate.message
        return None

    def close(self) -> None:
        """Let idle threads end."""
        self._threads.close()

    def _gates_of(self, command: str) -> Iterable[PluginGate]:
        return [each for each in self._gates if each.applies_to(command)]

    async def _is_open(self, gate: PluginGate) -> bool:
        """Return the result of a check; one that raises or exceeds its time is false."""
        answer = False
        with CaughtError() as fault:
            async with asyncio.timeout(self._seconds):
                answer = bool(await self._ask(gate.check))
        if fault.error is not None:
            log.warning("the gate %r counts as closed: %s", gate.name, fault)
        return answer

    async def _ask(self, check: Check) -> bool:
        """Return the result of a check; a plain function runs in a thread."""
        answer = check() if iscoroutinefunction(check) else await self._threads.run(check)
        return bool(await answer if isinstance(answer, Awaitable) else answer)
