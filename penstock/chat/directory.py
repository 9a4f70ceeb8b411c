"""The conversations of a profile: list, create, delete."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from penstock.chat.requests import title_of
from penstock.core.clock import to_iso
from penstock.core.errors import NotFound, StoreCorrupt, TaskOver
from penstock.core.events.events import CancelRequested, Entry, SessionOpened
from penstock.core.events.flow_events import FlowRequested
from penstock.core.ids import LogId, NewId, SessionId
from penstock.core.profile import Profile
from penstock.core.task import FLOW, SessionRecord, TaskRecord, TaskStatus
from penstock.engine.bus import Bus
from penstock.engine.launcher import Launcher
from penstock.store.erasure import Erasure
from penstock.store.logs.log import Log
from penstock.store.projections import Page, Projections, SessionSort, TasksOf

UNTITLED = "New conversation"
_NEWEST = Page(limit=1)
_PAGE = Page(limit=200)


class Directory:
    """Lists, creates and deletes conversations."""

    def __init__(self, log: Log, projections: Projections, launcher: Launcher, *, bus: Bus) -> None:
        self._log = log
        self._projections = projections
        self._launcher = launcher
        self._bus = bus

    async def get(self, session_id: SessionId, agent: str, profile: Profile) -> SessionRecord:
        """Return a conversation of this profile and agent, or raise NotFound."""
        session = await self._projections.find_session(session_id)
        is_own = session is not None and profile.owns(session.profile_id, session_id)
        if session is None or session.agent != agent or not is_own:
            raise NotFound(f"agent {agent!r} has no conversation {session_id!r}")
        return session

    async def newest(self, agent: str, profile: Profile) -> SessionRecord | None:
        """Return the most recently used conversation."""
        if profile.session_id is not None:
            return await self.get(profile.session_id, agent, profile)
        sessions, _ = await self._projections.sessions(
            profile_id=profile.profile_id, agent=agent, page=_NEWEST
        )
        return sessions[0] if sessions else None

    async def list(
        self,
        agent: str,
        profile: Profile,
        *,
        page: Page,
        search: str = "",
        sort: SessionSort = SessionSort.UPDATED,
    ) -> tuple[Sequence[SessionRecord], int]:
        """Return conversations with this agent, newest first by default, and their number."""
        return await self._projections.sessions(
            profile_id=profile.profile_id, agent=agent, search=search, sort=sort, page=page
        )

    async def begin(
        self, agent: str, profile: Profile, title: str | None, *, new_id: NewId
    ) -> SessionRecord:
        """Create an empty conversation."""
        session_id = SessionId(new_id("conv"))
        text = title_of(title or "") or UNTITLED
        opened = SessionOpened(profile_id=profile.profile_id, agent=agent, title=text)
        await self._log.send(LogId(session_id), [Entry(opened)])
        return await self.get(session_id, agent, profile)

    async def delete(self, session: SessionRecord, erasure: Erasure) -> None:
        """Cancel the work of a conversation, erase it, and end its streams.

        The flow runs that its calls started are erased, too.
        """
        await self._delete([session], erasure)

    async def delete_all(self, agent: str, profile: Profile, erasure: Erasure) -> None:
        """Delete every conversation of this profile with the agent."""
        while True:
            sessions, _ = await self.list(agent, profile, page=_PAGE)
            if not sessions:
                return
            await self._delete(sessions, erasure)

    async def _delete(self, sessions: Sequence[SessionRecord], erasure: Erasure) -> None:
        for session in sessions:
            await self._stop(session)
        for log_id in await erasure.erase_logs(LogId(each.session_id) for each in sessions):
            self._bus.part_with(log_id)

    async def _stop(self, session: SessionRecord) -> None:
        """Cancel the tasks of a conversation, and the flow runs that they wait for."""
        log_id = LogId(session.session_id)
        tasks, _ = await self._projections.tasks(log_id=log_id, page=_PAGE)
        at_work = [task for task in tasks if not task.status.is_final]
        for task in at_work:
            await self._cancel(task)
        if at_work:
            for run in await self._runs_for(session):
                await self._cancel(run)

    async def _runs_for(self, session: SessionRecord) -> Sequence[TaskRecord]:
        """Return the flow runs of a conversation; nothing could end them after its erasure."""
        log_id, awaiting = LogId(session.session_id), list[TaskRecord]()
        for status in (each for each in TaskStatus if not each.is_final):
            runs, _ = await self._projections.tasks(
                profile_id=session.profile_id, of=TasksOf(kind=FLOW, status=status), page=_PAGE
            )
            awaiting += [each for each in runs if await self._waiter_of(each) == log_id]
        return awaiting

    async def _waiter_of(self, run: TaskRecord) -> LogId | None:
        """Return the log that waits for a run; None if the run cannot be read."""
        with suppress(StoreCorrupt):
            for record in await self._log.read(run.log_id, limit=1):
                if isinstance(record.event, FlowRequested):
                    return record.event.waiter_log
        return None

    async def _cancel(self, task: TaskRecord) -> None:
        with suppress(TaskOver, NotFound):
            cancel = Entry(CancelRequested(), task.task_id)
            await self._log.send(task.log_id, [cancel], on_way=self._launcher.wake)


def conversation(session: SessionRecord) -> dict[str, Any]:
    """Return a conversation as an item of a list."""
    return {
        "id": session.session_id,
        "title": session.title or UNTITLED,
        "createdAt": to_iso(session.created_at),
        "updatedAt": to_iso(session.updated_at),
        "messageCount": session.message_count,
        "status": session.status.value if session.status else None,
    }
