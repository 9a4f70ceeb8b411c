"""Who may call what. The whole visibility table of the runtime is in this file."""

from collections.abc import Collection, Iterator

from msgspec import Struct, field

from penstock.core.call import ASK_USER, SUBAGENT, Origin
from penstock.core.call_errors import CallError, NotPermitted, ToolNotFound
from penstock.core.clock import Moment
from penstock.core.ids import ASSISTANT
from penstock.core.profile import LOCAL_PROFILE, Profile
from penstock.resources.project.access import OPEN, Access
from penstock.resources.redact import Redactor
from penstock.tools.access.session_guard import (
    AUTHORING,
    AUTONOMOUS,
    SessionGuard,
    blocked,
)
from penstock.tools.access.skills import NOTHING, Selection, TaskSkills
from penstock.tools.spec import ToolSpec

SCRIPT = "script"
"""The kind of the tools that are scripts."""
PLUGIN = "plugin"
"""The kind of the tools that plugins bring: agent sessions alone may call them."""


class Caller(Struct, frozen=True, kw_only=True):
    """Who is calling: from which door, for whom, with which skills."""

    origin: Origin
    profile: Profile = LOCAL_PROFILE
    agent: str = ASSISTANT
    agent_tools: Collection[str] = ()
    """What the settings of the agent offer to its model."""
    selection: Selection = NOTHING
    """What the skills grant that were selected when it began."""
    skills: TaskSkills | None = None
    """The skills of its task: what it calls in turn sees what is selected by then."""
    root: ToolSpec | None = None
    """The direct call at the root, for what is called inside it."""
    inside: str = ""
    """The tool whose code is calling."""
    inside_kind: str = ""
    """Of that tool: `script`, or what runs in this process."""
    permissions: dict[str, str] = field(default_factory=dict)
    """The agent's `tool_permissions`: tool to allow, ask or deny."""
    question_ttl_seconds: float | None = None
    """How long a question waits for a person; None is for ever."""
    secrets: Redactor = field(default_factory=Redactor)
    """What was given out in its task; the door fills it in, and takes it out of all records."""
    access: Access = OPEN
    """Which files of the project its agent may use, and which commands it may not run."""
    clip_at: int | None = None
    """Characters of a result that this caller gets to read; None is all."""
    session: SessionGuard | None = None
    """The agent session it belongs to; None is a person's own session."""
    is_autonomous: bool = False
    """It stands in a run in which nobody is asked."""

    def newest(self) -> Selection:
        """Return what the skills grant that are selected by now."""
        return self.selection if self.skills is None else self.skills.selection

    def expiry(self, now: Moment) -> Moment | None:
        """Return when a question of now is over, if it ever is."""
        seconds = self.question_ttl_seconds
        return None if seconds is None else Moment(now + round(1000 * seconds))

    def check_may_ask(self, what: str = ASK_USER) -> None:
        """Raise NotPermitted where nobody may be asked: in an autonomous run, by a silent agent."""
        if why := self.silence:
            raise NotPermitted(blocked(what, why))

    @property
    def silence(self) -> str:
        """Why nobody may be asked; nothing if a person may. Approvals are no matter of this."""
        if self.is_autonomous:
            return AUTONOMOUS
        return "" if self.session is None else self.session.silence


def refused(spec: ToolSpec, caller: Caller) -> CallError | None:
    """Return why the caller may not call the tool; None if it may.

    ToolNotFound when a model or an outside caller cannot see the tool, NotPermitted when a script
    has no grant, or when the profile lacks a permission.
    """
    if find_grant(spec, caller) is None:
        return _refusal(spec, caller)
    if spec.tool_id == ASK_USER and (why := caller.silence):
        return NotPermitted(blocked(ASK_USER, why))
    if not spec.requires_permissions or caller.profile.everything:
        return None
    missing = sorted(each for each in spec.requires_permissions if not caller.profile.holds(each))
    if not missing:
        return None
    return NotPermitted(
        f'"{spec.tool_id}" needs the permission {", ".join(missing)}',
        details={"missing_permissions": missing},
    )


def find_grant(spec: ToolSpec, caller: Caller) -> str | None:
    """Return the first grant that covers the call."""
    for name, holds in grants(spec, caller):
        if holds:
            return name
    return None


def grants(spec: ToolSpec, caller: Caller) -> Iterator[tuple[str, bool]]:
    """Yield every reason this origin could be allowed, and whether it holds."""
    tool_id, selection, root = spec.tool_id, caller.selection, caller.root
    is_architect = caller.session is not None and caller.session.is_architect
    if tool_id in AUTHORING:
        yield "architect", is_architect
        return
    if tool_id == SUBAGENT and caller.session is not None:
        yield "architect", is_architect and caller.origin is Origin.SCRIPT
        return
    if spec.kind == PLUGIN and caller.session is None:
        yield "session", False
        return
    if caller.origin is Origin.DIRECT:
        yield "direct_call", spec.direct_call
        return
    yield "global", spec.is_global
    yield "tools", tool_id in selection.tools
    yield "inline", tool_id in selection.inline
    if caller.origin is not Origin.SCRIPT:
        yield "agent", tool_id in caller.agent_tools
        return
    yield "script_tools", tool_id in selection.script_tools
    if root is None:
        yield "direct_call", spec.direct_call
        return
    yield "self", root.direct_call and tool_id == root.tool_id
    yield "direct_call", spec.direct_call
    yield "own_script_tools", tool_id in root.script_tools


def _refusal(spec: ToolSpec, caller: Caller) -> ToolNotFound | NotPermitted:
    if caller.origin is not Origin.SCRIPT:
        return ToolNotFound(f"There is no tool {spec.tool_id!r}.")
    who = "script of" if caller.inside_kind == SCRIPT else "tool"
    skills = ", ".join(caller.selection.skills) or "none"
    own = f', not in the script_tools of "{caller.root.tool_id}"' if caller.root else ""
    return NotPermitted(
        f'{who} "{caller.inside}" may not call "{spec.tool_id}": it is not global, '
        f'not in "tools", "script_tools" or "tool_definitions" of the selected skills ({skills}), '
        f"not direct_call{own}",
        details={"missing": [name for name, _ in grants(spec, caller)]},
    )
