"""Tools that plugins register. They are available only to agent sessions that declare them."""

from collections.abc import Mapping
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any, Protocol

from msgspec import Struct

from penstock.core.call import Effect
from penstock.core.envelope import Json
from penstock.core.errors import ConfigError
from penstock.core.json_values.json_text import JSON_DEPTH
from penstock.core.json_values.schema import Schema
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
