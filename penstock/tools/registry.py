"""Tools by id."""

from collections.abc import Iterable, Iterator

from penstock.core.call import Effect
from penstock.core.call_errors import ToolNotFound
from penstock.core.diagnostics import did_you_mean
from penstock.core.errors import NameTaken
from penstock.core.schema import Schema
from penstock.tools.tool import Tool


class Registry:
    """Every tool that one runtime, or one agent, knows; the schemas compiled once."""

    def __init__(self, tools: Iterable[Tool] = (), permissions: Iterable[str] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._schemas: dict[str, Schema] = {}
        self._outputs: dict[str, Schema] = {}
        for tool in tools:
            if self._tools.setdefault(tool.spec.tool_id, tool) is not tool:
                raise NameTaken(f"there are two tools {tool.spec.tool_id!r}; rename one of them")
        required = (each.spec.requires_permissions for each in self)
        self.permissions = frozenset(permissions).union(*required)
        """Those that tools require, and others that the project names."""

    def __iter__(self) -> Iterator[Tool]:
        """Yield the tools in the order they came."""
        return iter(self._tools.values())

    def __contains__(self, tool_id: object) -> bool:
        """Whether there is such a tool."""
        return tool_id in self._tools

    def find(self, tool_id: str) -> Tool | None:
        """Return the tool, or None."""
        return self._tools.get(tool_id)

    def effect_of(self, tool_id: str) -> Effect:
        """Return what a tool does to the world; nothing if there is no such tool."""
        tool = self._tools.get(tool_id)
        return Effect.NONE if tool is None else tool.spec.effect

    def get(self, tool_id: str) -> Tool:
        """Return the tool, or raise ToolNotFound with the nearest name."""
        if tool := self._tools.get(tool_id):
            return tool
        hint = did_you_mean(tool_id, self._tools)
        raise ToolNotFound(f"There is no tool {tool_id!r}.{hint}")

    def schema(self, tool: Tool) -> Schema:
        """Return the compiled input schema of a tool."""
        tool_id = tool.spec.tool_id
        schema = self._schemas.get(tool_id)
        if schema is None:
            schema = self._schemas[tool_id] = Schema(tool.spec.input_schema)
        return schema

    def output_schema(self, tool: Tool) -> Schema | None:
        """Return the compiled schema of what the tool returns, if it has one."""
        spec = tool.spec
        if spec.output_schema is None:
            return None
        schema = self._outputs.get(spec.tool_id)
        if schema is None:
            schema = self._outputs[spec.tool_id] = Schema(spec.output_schema)
        return schema
