"""Callbacks of schedules: their checks, and the conversations of the messages that they send.

Proof: tests/chat/schedules/test_callbacks.py.
"""

from collections.abc import Callable

from msgspec import Struct

from penstock.agents.agent import AnyAgent
from penstock.chat.inbox import Inbox
from penstock.chat.schedules.definition import (
    NEW,
    SAME,
    NewSchedule,
    Problems,
    Schedule,
    check_message,
)
from penstock.core.call_errors import ToolNotFound
from penstock.core.errors import NotFound
from penstock.core.events.events import Entry, SessionOpened
from penstock.core.ids import LogId, SessionId
from penstock.core.json_values.schema import Schema
from penstock.core.limits import World
from penstock.core.profile import Profile
from penstock.store.logs.log import Log
from penstock.tools.tool import Registry


class ScheduleCallbacks(Struct, frozen=True, kw_only=True):
    """The agents, flows and tools that schedules can name, and the logs that they write to."""

    inbox: Inbox
    log: Log
    world: World
    find_agent: Callable[[str], AnyAgent]
    """Raises NotFound that names the nearest, as the next does."""
    find_flow: Callable[[str], object]
    tools: Callable[[], Registry]

    def check(self, new: NewSchedule) -> Problems:
        """Return the mistakes in what a schedule starts."""
        name = new.callback_id
        try:
            self.find_agent(new.agent)
            if new.callback_type == "message":
                self.find_agent(name)
                return check_message(new.input, self.world.limits.content_chars)
            if new.callback_type == "workflow":
                self.find_flow(name)
                task = new.input.get("task", "")
                wrong = {"field": "/input/task", "issue": "must be a text"}
                return [] if isinstance(task, str) else [wrong]
            tool = self.tools().get(name)
        except (NotFound, ToolNotFound) as error:
            return [{"field": "/callback_id", "issue": str(error)}]
        if not tool.spec.direct_call:
            issue = f"the tool {name!r} does not allow direct calls"
            return [{"field": "/callback_id", "issue": issue}]
        problems = Schema(tool.spec.input_schema).problems(dict(new.input))
        return [{"field": f"/input{each.path}", "issue": each.message} for each in problems]

    def zone_of(self, new: NewSchedule) -> str:
        """Return the time zone of a schedule: its own, or that of its agent."""
        return new.timezone or self.find_agent(new.agent).settings.calendar_timezone

    async def session_of(
        self, new: NewSchedule, owner: Profile, before: Schedule | None = None
    ) -> SessionId | None:
        """Return the conversation of a schedule's messages; open its own one if it wants that.

        `before` is the schedule that changes: the same agent and owner stay in its conversation.
        """
        wanted = new.input.get("conversation", NEW) if new.callback_type == "message" else NEW
        if wanted == NEW:
            return None
        if wanted != SAME:
            await self.inbox.check_session(SessionId(wanted), owner, new.callback_id)
            return SessionId(wanted)
        if before is not None and (own := await self._kept(before, new, owner)):
            return own
        session_id = SessionId(self.world.new_id("conv"))
        opened = SessionOpened(
            profile_id=owner.profile_id, agent=new.callback_id, title=new.name.strip()
        )
        await self.log.send(LogId(session_id), [Entry(opened)])
        return session_id

    async def _kept(self, before: Schedule, new: NewSchedule, owner: Profile) -> SessionId | None:
        """Return the own conversation of a schedule, unless it fits no more or was deleted."""
        own = before.session_id if before.input.get("conversation") == SAME else None
        is_same = (before.callback_id, before.profile_id) == (new.callback_id, owner.profile_id)
        if own is None or not is_same:
            return None
        try:
            await self.inbox.check_session(own, owner, new.callback_id)
        except NotFound:
            return None
        return own
