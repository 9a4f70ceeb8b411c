"""A tool: a specification and a way to run it; and the registry of tools by id."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from types import MappingProxyType
from typing import Any, Protocol, cast

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.call import Effect
from penstock.core.call_errors import ToolNotFound
from penstock.core.diagnostics import did_you_mean
from penstock.core.envelope import Json
from penstock.core.errors import NameTaken
from penstock.tools.invocation import Invocation
from penstock.tools.spec import BUILTIN, ToolSpec

REVERT_INPUT = ("input", "output")
"""The members of the input of a revert: those of the call that it takes back."""


class Tool(Protocol):
    """Anything that can be called by id.

    `run` gets an input that matches the schema, and returns JSON or raises a CallError with a
    message for the model. It may run again unless its effect is `write`, may be cancelled at any
    await, and must let Signals pass.
    """

    @property
    def spec(self) -> ToolSpec:
        """The specification, which callers may see."""
        ...

    async def run(self, input: Json, invocation: Invocation) -> Any:
        """Return the output."""
        ...

    def preview(self, output: Any) -> str | None:
        """Return one line about an output for people, or None for the default line."""
        ...


def with_spec(tool: Tool, spec: ToolSpec) -> Tool:
    """Return a copy of any kind of tool with another specification."""
    if isinstance(tool, Struct):
        return replace(tool, spec=spec)
    if dataclasses.is_dataclass(tool) and not isinstance(tool, type):
        return dataclasses.replace(tool, spec=spec)
    edited: Any
    if (replace_of := getattr(tool, "__replace__", None)) is not None:
        edited = replace_of(spec=spec)
    else:
        edited = copy(tool)
        edited.spec = spec
    return cast("Tool", edited)


class Registry:
    """The tools of one runtime or one agent, by id."""

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        permissions: Iterable[str] = (),
        broken: Mapping[str, str] = MappingProxyType({}),
        *,
        granted: Mapping[str, Tool] = MappingProxyType({}),
    ) -> None:
        self._broken = broken
        """Ids of tools that could not be loaded, with the reason."""
        by_id: dict[str, Tool] = {}
        for tool in tools:
            first = by_id.setdefault(tool.spec.tool_id, tool)
            if first is not tool:
                raise _taken(first.spec, tool.spec)
        self._own = tuple(by_id.values())
        self.granted = granted
        """Tools that are offered only while a skill grants them. Own tools hide them."""
        self.by_id: Mapping[str, Tool] = {**by_id, **granted, **by_id} if granted else by_id
        """The tools by id, in the order of registration, then those that only skills grant."""
        self.offered = tuple([each for each in self if each.spec.is_offered])
        """Tools that models are offered by default. Computed once: every message reads it."""
        required = (each.spec.requires_permissions for each in self)
        self.permissions = frozenset(permissions).union(*required)
        """Permissions that tools require, and others that the project names."""

    def __iter__(self) -> Iterator[Tool]:
        """Yield the tools in the order of registration, without those that only skills grant."""
        return iter(self._own)

    def __contains__(self, tool_id: object) -> bool:
        """Whether a tool with this id exists."""
        return tool_id in self.by_id

    def effect_of(self, tool_id: str) -> Effect:
        """Return the effect of a tool; `none` if it does not exist."""
        tool = self.by_id.get(tool_id)
        return Effect.NONE if tool is None else tool.spec.effect

    def get(self, tool_id: str) -> Tool:
        """Return the tool, or raise ToolNotFound with the nearest name."""
        if tool := self.by_id.get(tool_id):
            return tool
        raise self.missing(tool_id, self.by_id)

    def missing(self, tool_id: str, visible: Iterable[str]) -> ToolNotFound:
        """Return the error for an unknown id: why the tool is broken, or the nearest visible id."""
        if why := self._broken.get(tool_id):
            return ToolNotFound(f"The tool {tool_id!r} could not be loaded: {why}")
        return ToolNotFound(f"There is no tool {tool_id!r}.{did_you_mean(tool_id, visible)}")


def revert_problems(tools: Iterable[Tool], known: Mapping[str, Tool]) -> Iterator[tuple[Tool, str]]:
    """Yield the tools whose revert does not exist, or cannot take `{input, output}`, and why."""
    for tool in tools:
        spec = tool.spec
        if not spec.revert:
            continue
        where = f"the revert of {spec.tool_id!r}"
        revert = known.get(spec.revert)
        if revert is None:
            hint = did_you_mean(spec.revert, known) or " Load it beside the tool."
            yield tool, f"{where} is {spec.revert!r}, and there is no such tool.{hint}"
        elif not revert.spec.is_broken and (wrong := _misfit(spec, revert.spec)):
            yield tool, f"{where}, {spec.revert!r}, must take {{input, output}}, but {wrong}"


def _misfit(spec: ToolSpec, revert: ToolSpec) -> str:
    """Return why a revert cannot take the input and the output of a call; empty if it can."""
    schema, taken = revert.input_schema, revert.input_schema.get("properties", {})
    if more := [name for name in schema.get("required", ()) if name not in REVERT_INPUT]:
        return f"it needs {', '.join(map(repr, more))}"
    is_closed = schema.get("additionalProperties") is False
    if is_closed and (missing := [name for name in REVERT_INPUT if name not in taken]):
        return f"it takes no {' and no '.join(map(repr, missing))}"
    for name, given in (("input", spec.input_schema), ("output", spec.output_schema or {})):
        wanted, found = taken.get(name, {}).get("type"), given.get("type")
        if isinstance(wanted, str) and isinstance(found, str) and wanted != found:
            return f"its {name!r} is of type {wanted}, and that of the call {found}"
    return ""


def _taken(first: ToolSpec, second: ToolSpec) -> NameTaken:
    """Return the error for two tools with one id, which names the one to rename."""
    tool_id = first.tool_id
    if {first.kind, second.kind} == {BUILTIN, "python"}:
        return NameTaken(
            f"{tool_id!r} is the name of a built-in tool; give yours another one, such as "
            f'@tool(id="my_{tool_id}")'
        )
    return NameTaken(f"there are two tools {tool_id!r}; rename one of them")
