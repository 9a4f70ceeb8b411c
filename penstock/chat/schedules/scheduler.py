"""`runtime.schedules`: create, list, change, pause, resume, run and delete schedules.

The HTTP API, the command line and the built-in tools use the same methods. A schedule belongs to
the project; its tasks run for the profile that created it, with the permissions it had then. A
change of what runs makes the profile that changes it the owner: else a key with `manage` could act
with the permissions of another profile. Proof: tests/chat/schedules/test_scheduler.py.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from penstock.chat.inbox import Inbox
from penstock.chat.schedules.definition import (
    NEW,
    SAME,
    NewSchedule,
    Problems,
    Schedule,
    ScheduleStatus,
    check,
    check_message,
    first_due,
    line_of,
    type_of,
)
from penstock.chat.schedules.rows import EVERY_SCHEDULE, SORTS, ScheduleRows, SchedulesOf
from penstock.chat.schedules.ticker import Ticker
from penstock.core.call_errors import NotAvailable, ToolNotFound
from penstock.core.clock import Moment
from penstock.core.errors import NotFound, ReadOnly
from penstock.core.events.events import Entry, SessionOpened
from penstock.core.ids import LogId, ProfileId, SessionId, TaskId
from penstock.core.json_values.json_text import as_stored
from penstock.core.json_values.schema import Schema
from penstock.core.limits import World
from penstock.core.profile import Profile
from penstock.store.logs.log import Log
from penstock.store.projections import Page, plain
from penstock.tools.tool import Registry

API, FILE = "api", "file"
"""The values of `source`."""
UTC = "UTC"
_TIMES = frozenset({"cron", "at", "delay_seconds", "timezone"})
"""The fields that decide when a schedule is due."""
_KINDS_OF_TIME = _TIMES - {"timezone"}
_ACTS = frozenset({"callback_type", "callback_id", "input", "suspension_seconds", "resume_prompt"})
"""The fields that decide what runs. The prompt after a wait is a message of the profile, too."""


class SchedulePorts(Struct, frozen=True, kw_only=True):
    """The parts that schedules work with."""

    rows: ScheduleRows
    ticker: Ticker
    inbox: Inbox
    log: Log
    find_agent: Callable[[str], object]
    """Raises NotFound that names the nearest, as the next does."""
    find_flow: Callable[[str], object]
    tools: Callable[[], Registry]


class Scheduler:
    """Creates, changes and runs the schedules of one project.

    Example:
        >>> import asyncio
        >>> import penstock
        >>> async def main() -> None:
        ...     async with penstock.open(":memory:") as runtime:
        ...         new = penstock.NewSchedule(
        ...             name="News", cron="0 8 * * *", input={"content": "What is new?"}
        ...         )
        ...         schedule = await runtime.schedules.create(new)
        ...         task_id = await runtime.schedules.run(schedule.schedule_id)
        ...         print((await runtime.attach(task_id).reply()).status)
        >>> asyncio.run(main())
        succeeded
    """

    def __init__(self, ports: SchedulePorts | None, world: World, local: Profile) -> None:
        self._ports = ports
        self._world = world
        self._local = local
        self.ticker = None if ports is None else ports.ticker
        """Fires the schedules; None without a database."""

    async def create(
        self, new: NewSchedule, profile: Profile | None = None, *, schedule_id: str | None = None
    ) -> Schedule:
        """Create a schedule; it is on disk and will fire when this returns.

        Args:
            new: What to start, and when.
            profile: The profile that its tasks run for; None means `runtime.local`.
            schedule_id: An id; if a schedule has it already, that one is returned. None makes one.

        Returns:
            The schedule, with its next due time.

        Raises:
            InvalidRequest: Something is wrong with it; all mistakes are named.
        """
        ports, now = self._given, self._world.clock.now()
        owner = profile or self._local
        new = _completed(new)
        check(new, now, self._check_input)
        session_id = await self._session_of(new, owner)
        chosen = schedule_id or self._world.new_id("sched")
        row = {
            "schedule_id": chosen,
            "agent": new.agent,
            "source": API,
            "session_id": session_id,
            "status": (ScheduleStatus.PAUSED if new.is_paused else ScheduleStatus.ACTIVE).value,
            "active_since": now,
            "missed": 0,
            "created_at": now,
            "updated_at": now,
        }
        row |= _definition(new) | _timing(new, now) | _owner(owner)
        schedule = await ports.rows.add(row)
        ports.ticker.refresh()
        return schedule

    async def get(
        self, schedule_id: str, agent: str | None = None, profile_id: ProfileId | None = None
    ) -> Schedule:
        """Return a schedule.

        Args:
            schedule_id: Its id.
            agent: The agent that it must belong to; None means any.
            profile_id: The profile that its tasks must run for; None means any.

        Returns:
            The schedule.

        Raises:
            NotFound: There is none; the message lists those that are near.
        """
        return await self._given.rows.get(schedule_id, agent, profile_id)

    async def find(self, schedule_id: str) -> Schedule | None:
        """Return a schedule, or None if there is none.

        Args:
            schedule_id: Its id.

        Returns:
            The schedule.
        """
        return await self._given.rows.find(schedule_id)

    async def list(
        self,
        of: SchedulesOf = EVERY_SCHEDULE,
        *,
        page: Page | None = None,
        sort: str = SORTS[0],
    ) -> tuple[Sequence[Schedule], int]:
        """Return schedules, newest first, and how many there are.

        Args:
            of: A filter: agent, status, type, or a part of the name.
            page: The part of the list; None means the first 50.
            sort: `created_at`, `name`, `next_run` or `last_run`.

        Returns:
            The schedules of the page, and the number of all that match.
        """
        return await self._given.rows.list(of, page, sort)

    async def change(
        self, schedule_id: str, changes: Mapping[str, Any], profile: Profile | None = None
    ) -> Schedule:
        """Change a schedule.

        Args:
            schedule_id: Its id.
            changes: New values by the names of NewSchedule. If a field of its time changes, the
                next due time is computed from now.
            profile: The profile that makes the change. It becomes the owner if what runs changes.

        Returns:
            The changed schedule.

        Raises:
            NotFound: There is no such schedule.
            ReadOnly: It comes from a file.
            InvalidRequest: A new value is wrong.
        """
        ports, now = self._given, self._world.clock.now()
        before, owner = await self._own(schedule_id), profile or self._local
        new = _changed(before, changes)
        times = _TIMES if before.cron is not None else _KINDS_OF_TIME
        is_moved = not times.isdisjoint(changes)
        checked = new if is_moved else replace(new, cron="@daily", at=None, delay_seconds=None)
        check(checked, now, self._check_input)
        values = _definition(new) | {"updated_at": now}
        if is_moved:
            values |= _timing(new, now)
        if not _ACTS.isdisjoint(changes):
            values |= _owner(owner) | {"session_id": await self._session_of(new, owner)}
        if new.is_paused:
            values |= {"status": ScheduleStatus.PAUSED.value, "reason": None}
        elif before.status is ScheduleStatus.PAUSED or is_moved:
            values |= _revived(before, now) | (_timing(new, now) if is_moved else {})
        await ports.rows.change(schedule_id, values)
        ports.ticker.refresh()
        return await ports.rows.get(schedule_id)

    async def pause(self, schedule_id: str) -> Schedule:
        """Pause a schedule: no due time starts a task until it is resumed.

        Args:
            schedule_id: Its id.

        Returns:
            The schedule.

        Raises:
            NotFound: There is no such schedule.
        """
        ports = self._given
        await ports.rows.get(schedule_id)
        await ports.rows.pause(schedule_id, None, self._world.clock.now())
        return await ports.rows.get(schedule_id)

    async def resume(self, schedule_id: str) -> Schedule:
        """Resume a schedule; its next due time is computed from now.

        Args:
            schedule_id: Its id.

        Returns:
            The schedule. One that was due once and has fired stays completed.

        Raises:
            NotFound: There is no such schedule.
        """
        ports, now = self._given, self._world.clock.now()
        schedule = await ports.rows.get(schedule_id)
        if schedule.status is ScheduleStatus.PAUSED:
            await ports.rows.change(schedule_id, _revived(schedule, now))
            ports.ticker.refresh()
        return await ports.rows.get(schedule_id)

    async def run(self, schedule_id: str) -> TaskId:
        """Start a task of a schedule now, also of a paused one. Its due times stay the same.

        Args:
            schedule_id: Its id.

        Returns:
            The task, for `runtime.attach`.

        Raises:
            NotFound: There is no such schedule.
            ScheduleBusy: A task of it has not ended, and its concurrency is `forbid`.
        """
        ports = self._given
        return await ports.ticker.run_now(await ports.rows.get(schedule_id))

    async def delete(self, schedule_id: str) -> None:
        """Delete a schedule. Its tasks and conversations remain.

        Args:
            schedule_id: Its id.

        Raises:
            NotFound: There is no such schedule.
            ReadOnly: It comes from a file.
        """
        await self._own(schedule_id)
        await self._given.rows.remove(schedule_id)

    @property
    def _given(self) -> SchedulePorts:
        if self._ports is None:
            raise NotAvailable("schedules need a database: open a project with penstock.open")
        return self._ports

    async def _own(self, schedule_id: str) -> Schedule:
        schedule = await self._given.rows.get(schedule_id)
        if schedule.source == FILE:
            raise ReadOnly(f"the schedule {schedule_id!r} comes from a file; change the file")
        return schedule

    def _check_input(self, new: NewSchedule) -> Problems:
        """Return the mistakes in what a schedule starts."""
        ports, name = self._given, new.callback_id
        try:
            ports.find_agent(new.agent)
            if new.callback_type == "message":
                ports.find_agent(name)
                return check_message(new.input, self._world.limits.content_chars)
            if new.callback_type == "workflow":
                ports.find_flow(name)
                task = new.input.get("task", "")
                wrong = {"field": "/input/task", "issue": "must be a text"}
                return [] if isinstance(task, str) else [wrong]
            tool = ports.tools().get(name)
        except (NotFound, ToolNotFound) as error:
            return [{"field": "/callback_id", "issue": str(error)}]
        if not tool.spec.direct_call:
            issue = f"the tool {name!r} does not allow direct calls"
            return [{"field": "/callback_id", "issue": issue}]
        problems = Schema(tool.spec.input_schema).problems(dict(new.input))
        return [{"field": f"/input{each.path}", "issue": each.message} for each in problems]

    async def _session_of(self, new: NewSchedule, owner: Profile) -> SessionId | None:
        """Return the conversation of a schedule's messages; open its own one if it wants that."""
        wanted = new.input.get("conversation", NEW) if new.callback_type == "message" else NEW
        if wanted == NEW:
            return None
        if wanted != SAME:
            await self._given.inbox.check_session(SessionId(wanted), owner, new.callback_id)
            return SessionId(wanted)
        session_id = SessionId(self._world.new_id("conv"))
        opened = SessionOpened(
            profile_id=owner.profile_id, agent=new.callback_id, title=new.name.strip()
        )
        await self._given.log.send(LogId(session_id), [Entry(opened)])
        return session_id


def _completed(new: NewSchedule) -> NewSchedule:
    """Return a schedule with its callback named, and its input in stored form."""
    is_message = new.callback_type == "message"
    name = new.callback_id or (new.agent if is_message else "")
    return replace(new, callback_id=name.removeprefix("/"), input=as_stored(new.input))


def _changed(schedule: Schedule, changes: Mapping[str, Any]) -> NewSchedule:
    """Return a stored schedule in the form in which it was asked for, with changes."""
    given = {name: value for name, value in asdict(schedule).items() if name in _SHARED}
    waits = schedule.options.get("suspension_timeout") or {}
    old = NewSchedule(
        **given,
        is_paused=schedule.status is ScheduleStatus.PAUSED,
        suspension_seconds=waits.get("seconds"),
        resume_prompt=waits.get("resume_prompt", ""),
    )
    if not _KINDS_OF_TIME.isdisjoint(changes):  # one kind of time replaces another
        old = replace(old, cron=None, at=None, delay_seconds=None)
    return _completed(replace(old, **changes))


_SHARED = {*NewSchedule.__struct_fields__} & {*Schedule.__struct_fields__}


def _definition(new: NewSchedule) -> dict[str, Any]:
    """Return the columns that do not depend on the time or the owner."""
    options: dict[str, Any] = {}
    if new.suspension_seconds is not None:
        waits = {"seconds": new.suspension_seconds, "resume_prompt": new.resume_prompt}
        options["suspension_timeout"] = waits
    return {
        "name": plain(new.name.strip()),
        "callback_type": new.callback_type,
        "callback_id": new.callback_id,
        "input": dict(new.input),
        "concurrency": new.concurrency,
        "options": options,
    }


def _timing(new: NewSchedule, now: Moment) -> dict[str, Any]:
    """Return the columns that decide when a schedule is due."""
    timezone = new.timezone or UTC
    return {
        "type": type_of(new).value,
        "cron": new.cron,
        "delay_seconds": new.delay_seconds,
        "timezone": timezone,
        "next_run": first_due(new, timezone, now),
        "planned_at": now,
    }


def _owner(profile: Profile) -> dict[str, Any]:
    """Return the columns with the profile that tasks run for."""
    noted = profile.noted
    permissions = None if noted is None else list(noted)
    return {"profile_id": profile.profile_id, "permissions": permissions}


def _revived(schedule: Schedule, now: Moment) -> dict[str, Any]:
    """Return the columns of a schedule that fires again from now on."""
    values: dict[str, Any] = {"status": ScheduleStatus.ACTIVE.value, "reason": None}
    times = {"active_since": now, "planned_at": now, "updated_at": now}
    if schedule.cron is not None:
        times["next_run"] = line_of(schedule).next_after(now)
    return values | times
