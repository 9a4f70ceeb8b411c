"""The table of schedules: rows by id, lists, and those that are due.

Guarantees: a change of one row is one statement, so of two processes that move a schedule the
second one finds it moved. The task of a tick is written elsewhere, in one transaction with the
move: see `store/values/due_times.py`. Looking for due rows reads two small indexes, so it costs the
same for ten schedules and for ten thousand. Proof: tests/chat/schedules/test_rows.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, RowMapping, func, select

from penstock.chat.schedules.definition import Schedule, ScheduleStatus, ScheduleType, Tick
from penstock.core.clock import Moment
from penstock.core.diagnostics import did_you_mean
from penstock.core.errors import NotFound
from penstock.core.ids import ProfileId
from penstock.core.task import TaskStatus
from penstock.store.database import Database
from penstock.store.projections import Page, plain
from penstock.store.tables import schedules, tasks

SORTS = ("created_at", "name", "next_run", "last_run")
"""The orders of schedules."""
SLACK_MS = 60_000
"""How far in the future a plan may have been made: clocks of two machines differ."""
FAILURES = 10
"""After so many failed tasks in a row a schedule is paused."""
NEAREST = 5
"""How many names a message about an unknown schedule lists."""

_last = tasks.alias("last")
_SCHEDULES = select(schedules, _last.c.status.label("last_status")).outerjoin(
    _last, _last.c.task_id == schedules.c.last_task_id
)
_ACTIVE = schedules.c.status == ScheduleStatus.ACTIVE.value


class SchedulesOf(Struct, frozen=True, kw_only=True):
    """A filter of schedules; None matches all."""

    agent: str | None = None
    status: ScheduleStatus | None = None
    type: ScheduleType | None = None
    source: str | None = None
    profile_id: ProfileId | None = None
    """The profile that its tasks run for."""
    workflow: str | None = None
    """The command of the flow that it runs."""
    search: str = ""
    """A part of the name."""


EVERY_SCHEDULE = SchedulesOf()


class Due(Struct, frozen=True, kw_only=True):
    """The schedules that a look at the table finds."""

    schedules: Sequence[Schedule] = ()
    """Those that are due, soonest first; at most as many as were asked for."""
    early: Sequence[Schedule] = ()
    """Those whose next due time was computed in the future: the clock went back."""
    next_run: Moment | None = None
    """The soonest due time of all that are active."""


class ScheduleRows:
    """The schedules of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, row: Mapping[str, Any]) -> Schedule:
        """Store a schedule; if there is one with its id, return that one unchanged."""
        schedule_id: str = row["schedule_id"]

        def unit(connection: Connection) -> None:
            key = schedules.c.schedule_id == schedule_id
            if connection.execute(select(schedules.c.schedule_id).where(key)).first() is None:
                connection.execute(schedules.insert(), dict(row))

        await self._database.write(unit)
        return await self.get(schedule_id)

    async def find(self, schedule_id: str) -> Schedule | None:
        """Return a schedule."""
        statement = _SCHEDULES.where(schedules.c.schedule_id == schedule_id)
        row = await self._database.read(lambda each: each.execute(statement).mappings().first())
        return None if row is None else _schedule(row)

    async def get(
        self, schedule_id: str, agent: str | None = None, profile_id: ProfileId | None = None
    ) -> Schedule:
        """Return a schedule, of an agent and a profile if they are named. Raises NotFound.

        The message names only schedules of that agent and profile.
        """
        schedule = await self.find(schedule_id)
        is_theirs = schedule is not None and profile_id in {None, schedule.profile_id}
        if schedule is None or not is_theirs or agent not in {None, schedule.agent}:
            raise NotFound(await self._unknown(schedule_id, agent, profile_id))
        return schedule

    async def list(
        self, of: SchedulesOf = EVERY_SCHEDULE, page: Page | None = None, sort: str = SORTS[0]
    ) -> tuple[list[Schedule], int]:
        """Return schedules, usually newest first, and how many there are."""
        page = page or Page()
        conditions = _conditions(of)
        column = schedules.c[sort]
        by = func.lower(column) if sort == "name" else column
        is_down = page.descends(usually=sort in {"created_at", "last_run"})
        order = [by.is_(None), by.desc() if is_down else by, schedules.c.schedule_id]
        part = _SCHEDULES.where(*conditions).order_by(*order).limit(page.limit).offset(page.offset)
        count = select(func.count()).select_from(schedules).where(*conditions)

        def unit(connection: Connection) -> tuple[Sequence[RowMapping], int]:
            return connection.execute(part).mappings().all(), connection.execute(count).scalar_one()

        rows, total = await self._database.read(unit)
        return [_schedule(row) for row in rows], total

    async def change(self, schedule_id: str, values: dict[str, Any]) -> None:
        """Change columns of a schedule. Does nothing if it is gone."""
        statement = schedules.update().where(schedules.c.schedule_id == schedule_id).values(values)
        await self._database.write(lambda connection: connection.execute(statement).rowcount)

    async def remove(self, schedule_id: str) -> bool:
        """Delete a schedule; its tasks remain. Return whether there was one."""
        statement = schedules.delete().where(schedules.c.schedule_id == schedule_id)
        return await self._database.write(lambda each: each.execute(statement).rowcount > 0)

    async def due(self, now: Moment, limit: int) -> Due:
        """Return the schedules to look at now, and when the next one is due."""
        now_due = _SCHEDULES.where(_ACTIVE, schedules.c.next_run <= now)
        now_due = now_due.order_by(schedules.c.next_run).limit(limit)
        soonest = select(func.min(schedules.c.next_run)).where(_ACTIVE)
        early = _SCHEDULES.where(_ACTIVE, schedules.c.planned_at > now + SLACK_MS).limit(limit)

        def unit(connection: Connection) -> Due:
            return Due(
                schedules=[_schedule(row) for row in connection.execute(now_due).mappings()],
                early=[_schedule(row) for row in connection.execute(early).mappings()],
                next_run=connection.execute(soonest).scalar(),
            )

        return await self._database.read(unit)

    async def skip(self, schedule: Schedule, tick: Tick, now: Moment) -> None:
        """Move a schedule to its next due time without a task, unless another process moved it."""
        is_over = tick.next_run is None
        statement = (
            schedules.update()
            .where(
                schedules.c.schedule_id == schedule.schedule_id,
                schedules.c.next_run == schedule.next_run,
                _ACTIVE,
            )
            .values(
                next_run=tick.next_run,
                planned_at=now,
                missed=schedules.c.missed + tick.missed,
                status=(ScheduleStatus.COMPLETED if is_over else ScheduleStatus.ACTIVE).value,
            )
        )
        await self._database.write(lambda connection: connection.execute(statement).rowcount)

    async def pause(self, schedule_id: str, reason: str | None, now: Moment) -> None:
        """Pause an active schedule, with the reason if the runtime does it."""
        statement = (
            schedules.update()
            .where(schedules.c.schedule_id == schedule_id, _ACTIVE)
            .values(status=ScheduleStatus.PAUSED.value, reason=reason, updated_at=now)
        )
        await self._database.write(lambda connection: connection.execute(statement).rowcount)

    async def has_failed(self, schedule: Schedule) -> bool:
        """Return whether the last FAILURES tasks since `active_since` have all failed."""
        # Its row often says enough. In a burst, a query for each schedule is half of the work.
        if schedule.last_task_id is None or schedule.last_status is TaskStatus.SUCCEEDED:
            return False
        statement = (
            select(tasks.c.status)
            .where(
                tasks.c.schedule_id == schedule.schedule_id,
                tasks.c.created_at >= schedule.active_since,
                tasks.c.ended_seq.is_not(None),
            )
            .order_by(tasks.c.created_at.desc())
            .limit(FAILURES)
        )
        ends = await self._database.read(lambda each: each.execute(statement).scalars().all())
        return len(ends) == FAILURES and set(ends) == {TaskStatus.FAILED.value}

    async def _unknown(
        self, schedule_id: str, agent: str | None, profile_id: ProfileId | None
    ) -> str:
        """Return the message about an unknown schedule."""
        conditions = _conditions(SchedulesOf(agent=agent, profile_id=profile_id))
        known = select(schedules.c.schedule_id, schedules.c.name).where(*conditions)
        newest = known.order_by(schedules.c.created_at.desc()).limit(NEAREST)
        rows = await self._database.read(lambda connection: connection.execute(newest).all())
        ids = {row.schedule_id: row.name for row in rows}
        by_name = next((each for each, name in ids.items() if name == schedule_id), None)
        near = f" Did you mean {by_name!r}?" if by_name else did_you_mean(schedule_id, ids)
        listed = "; ".join(f"{each} ({name})" for each, name in ids.items())
        there = f" The newest are: {listed}." if listed else " There is none."
        whose = "" if agent is None else f" of agent {agent!r}"
        return f"there is no schedule {schedule_id!r}{whose}.{near}{there}"


def _schedule(row: RowMapping) -> Schedule:
    values = dict(row)
    permissions, status = values["permissions"], values["last_status"]
    values |= {
        "type": ScheduleType(values["type"]),
        "status": ScheduleStatus(values["status"]),
        "permissions": None if permissions is None else tuple(permissions),
        "last_status": None if status is None else TaskStatus(status),
    }
    return Schedule(**values)


def _conditions(of: SchedulesOf) -> list[ColumnElement[bool]]:
    pairs = (
        (schedules.c.agent, of.agent),
        (schedules.c.status, None if of.status is None else of.status.value),
        (schedules.c.type, None if of.type is None else of.type.value),
        (schedules.c.source, of.source),
        (schedules.c.profile_id, of.profile_id),
    )
    conditions = [column == value for column, value in pairs if value is not None]
    if of.workflow is not None:
        runs = (schedules.c.callback_type == "workflow", schedules.c.callback_id == of.workflow)
        conditions += [*runs, schedules.c.status != ScheduleStatus.COMPLETED.value]
    if of.search:
        name = func.lower(schedules.c.name)
        conditions.append(name.contains(plain(of.search).lower(), autoescape=True))
    return conditions
