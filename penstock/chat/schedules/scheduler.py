"""`runtime.schedules`: create, list, change, pause, resume, run and delete schedules.

The HTTP API, the command line and the built-in tools use the same methods. A schedule belongs to
the project; its tasks run for the profile that created it, with the permissions it had then. A
change of what runs makes the profile that changes it the owner: else a key with `manage` could act
with the permissions of another profile. Proof: tests/chat/schedules/test_scheduler.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.chat.schedules.callbacks import ScheduleCallbacks
from penstock.chat.schedules.columns import (
    KINDS_OF_TIME,
    TIMES,
    changed,
    completed,
    definition,
    owned_by,
    revived,
    timing,
)
from penstock.chat.schedules.definition import (
    NewSchedule,
    Schedule,
    ScheduleStatus,
    check,
)
from penstock.chat.schedules.rows import EVERY_SCHEDULE, NEAREST, SORTS, ScheduleRows, SchedulesOf
from penstock.chat.schedules.ticker import Ticker
from penstock.core.call_errors import NotAvailable
from penstock.core.errors import NameTaken, ReadOnly
from penstock.core.ids import ProfileId, TaskId
from penstock.core.limits import World
from penstock.core.profile import Profile
from penstock.store.projections import Page

API, FILE = "api", "file"
"""The values of `source`."""
_ACTS = frozenset({"callback_type", "callback_id", "input", "suspension_seconds", "resume_prompt"})
"""The fields that decide what runs. The prompt after a wait is a message of the profile, too."""


class SchedulePorts(Struct, frozen=True, kw_only=True):
    """The parts that schedules work with."""

    rows: ScheduleRows
    ticker: Ticker
    callbacks: ScheduleCallbacks


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
        new = completed(new)
        check(new, now, ports.callbacks.check)
        session_id = await ports.callbacks.session_of(new, owner)
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
        row |= definition(new) | timing(new, ports.callbacks.zone_of(new), now) | owned_by(owner)
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
        new = changed(before, changes)
        times = TIMES if before.cron is not None else KINDS_OF_TIME
        is_moved = not times.isdisjoint(changes)
        # Times that stay may be past, or in a zone that is gone: everything else can still change.
        kept = replace(new, cron="@daily", at=None, delay_seconds=None, timezone=None)
        check(new if is_moved else kept, now, ports.callbacks.check)
        values = definition(new) | {"updated_at": now}
        moved = timing(new, ports.callbacks.zone_of(new), now) if is_moved else {}
        if not _ACTS.isdisjoint(changes):
            session_id = await ports.callbacks.session_of(new, owner, before)
            values |= owned_by(owner) | {"session_id": session_id}
        is_over = before.status is ScheduleStatus.COMPLETED and not is_moved
        if new.is_paused and not is_over:
            values |= {"status": ScheduleStatus.PAUSED.value, "reason": None} | moved
        elif before.status is ScheduleStatus.PAUSED or is_moved:
            values |= revived(before, now, moved)
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
            InvalidRequest: This machine does not know its time zone any more.
        """
        ports, now = self._given, self._world.clock.now()
        schedule = await ports.rows.get(schedule_id)
        if schedule.status is ScheduleStatus.PAUSED:
            await ports.rows.change(schedule_id, revived(schedule, now))
            ports.ticker.refresh()
        return await ports.rows.get(schedule_id)

    async def check_unused(self, workflow: str) -> None:
        """Raise NameTaken if a schedule runs this flow.

        Args:
            workflow: The command of the flow.

        Raises:
            NameTaken: The message and its details name the schedules.
        """
        if self._ports is None:
            return
        found, total = await self._ports.rows.list(SchedulesOf(workflow=workflow))
        if found:
            named = ", ".join(f"{each.schedule_id} ({each.name})" for each in found[:NEAREST])
            more = f" and {total - NEAREST} more" if total > NEAREST else ""
            raise NameTaken(
                f'"/{workflow}" runs by the schedules {named}{more}: delete or change them first',
                details={"schedules": [each.schedule_id for each in found]},
            )

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
