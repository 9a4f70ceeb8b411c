"""One request to a tool, and its place in the tree of calls."""

from enum import StrEnum
from typing import Any, NewType

from msgspec import Struct

from penstock.core.ids import CallId

CallPath = NewType("CallPath", str)
"""A call's identity, and its place: `task/iteration/tool#fingerprint`, and below it
`/tool#fingerprint` a level. The n-th equal call under one parent ends in `.n` from the second on,
so the order of arrival never counts."""
CALL_DEPTH = 16
"""Most calls that are nested in each other, with the outermost one."""


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


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """How many attempts, and the waits between them, in milliseconds and without jitter."""

    max_attempts: int = 1
    initial_backoff_ms: int = 200
    multiplier: float = 2
    max_backoff_ms: int = 10_000

    def backoff_ms(self, attempt: int) -> float:
        """Return the wait after this attempt, counted from 1."""
        try:
            wait = self.initial_backoff_ms * self.multiplier ** (attempt - 1)
        except OverflowError:
            return self.max_backoff_ms
        return min(wait, self.max_backoff_ms)


ONCE = RetryPolicy()


FINISH = "finish"
"""How the agent of a step hands over its result; it is offered to the agents of flows alone."""
ASK_USER = "ask_user"
SKILL_READ = "skill_read"
SUBAGENT = "subagent"
EXECUTE_WORKFLOW = "execute_workflow"
"""What a command that is a flow calls."""
LISTED_FIRST = (
    "search_knowledge",
    "browse_url",
    "browser_action",
    "analyze_page",
    "execute_sql",
    EXECUTE_WORKFLOW,
    "send_email",
    "get_schedule_info",
    "create_schedule",
)
"""What comes first where tools are listed, each as soon as it is there."""
