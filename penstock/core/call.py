"""One request to a tool, and its place in the tree of calls."""

from enum import StrEnum
from typing import Any, NewType

from msgspec import Struct

from penstock.core.ids import CallId

CallPath = NewType("CallPath", str)
"""A call's identity, and its place: `task/iteration/tool#fingerprint`, and below it
`/tool#fingerprint` a level. The n-th equal call under one parent ends in `.n` from the second on,
so the order of arrival never counts."""


class Origin(StrEnum):
    """Where a call comes from."""

    MODEL = "model"
    SCRIPT = "script"
    DIRECT = "direct"
    FLOW = "flow"
    MCP = "mcp"


class Effect(StrEnum):
    """What a tool does to the world, and so what a crash in the middle of it means."""

    NONE = "none"
    READ = "read"
    WRITE = "write"


class ToolCall(Struct, frozen=True, gc=False):
    """A call as a model asked for it."""

    call_id: CallId
    name: str
    arguments: dict[str, Any]
    arguments_text: str | None = None
    """The text the model wrote, when it is not the JSON of an object or is nested too deeply."""
    cut: bool = False
    """The reply ended at its token limit inside this call."""


class Call(Struct, frozen=True, gc=False):
    """One request to one tool, from whichever door."""

    path: CallPath
    tool_id: str
    input: dict[str, Any]
    depth: int = 0
    call_id: CallId | None = None
    """The wire's name, for calls that a model asked for."""


def tools_on(path: CallPath) -> list[str]:
    """Return the tools along the path, outermost first."""
    return [part.partition("#")[0] for part in path.split("/") if "#" in part]


def frame_above(path: str) -> CallPath:
    """Return the frame in which something began: of a call its agent's, of a visit its run's."""
    return CallPath(path.rsplit("/", 2)[0])


def is_below(path: str, parent: str) -> bool:
    """Whether the path names something inside the call `parent`."""
    return path.startswith(parent) and path[len(parent) : len(parent) + 1] == "/"
