"""A call of a tool, and its path in the tree of calls."""

from enum import StrEnum
from typing import Any, NewType

from msgspec import Struct

from penstock.core.ids import CallId

CallPath = NewType("CallPath", str)
"""The identity of a call: `task/iteration/tool#fingerprint`, and `/tool#fingerprint` for each level
below. The n-th equal call under one parent ends in `.n` from the second on. So calls that run at
once have the same paths after a restart, in whatever order they arrive."""
CALL_DEPTH = 16
"""Most calls that are nested in each other, with the outermost one."""


class Origin(StrEnum):
    """The origin of a call."""

    MODEL = "model"
    SCRIPT = "script"
    DIRECT = "direct"
    FLOW = "flow"
    MCP = "mcp"


class Effect(StrEnum):
    """The effect of a tool outside the runtime. It decides what a crash during a call means."""

    NONE = "none"
    READ = "read"
    WRITE = "write"


class ToolCall(Struct, frozen=True, gc=False):
    """A call as a model requested it."""

    call_id: CallId
    name: str
    arguments: dict[str, Any]
    arguments_text: str | None = None
    """The text of the model, if it is not a JSON object or is nested too deeply."""
    cut: bool = False
    """The reply ended at its token limit inside this call."""


class Call(Struct, frozen=True, gc=False):
    """One request to one tool, of any origin."""

    path: CallPath
    tool_id: str
    input: dict[str, Any]
    depth: int = 0
    call_id: CallId | None = None
    """The id on the wire, for calls that a model requested."""


def tools_on(path: CallPath) -> list[str]:
    """Return the tools of a path, outermost first."""
    return [part.partition("#")[0] for part in path.split("/") if "#" in part]


def frame_above(path: str) -> CallPath:
    """Return the frame that contains a path: the agent's for a call, the run's for a visit."""
    return CallPath(path.rsplit("/", 2)[0])


def is_below(path: str, parent: str) -> bool:
    """Whether the path is inside the call `parent`."""
    return path.startswith(parent) and path[len(parent) : len(parent) + 1] == "/"


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """The number of attempts, and the waits between them in milliseconds, without jitter."""

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
"""Returns the result of a step's agent; only agents of flows may call it."""
ASK_USER = "ask_user"
SKILL_READ = "skill_read"
ACTIVATE_SKILL = "activate_skill"
SKILL_TEXT = "instructions"
"""The member of its outcome that has the instructions, if a model called it."""
SUBAGENT = "subagent"
EXECUTE_WORKFLOW = "execute_workflow"
"""The tool that a command runs if it is a flow."""
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
"""Tools that come first in lists, if they exist."""
