"""Fires schedules: one service for all schedules of a project, in each process that resumes tasks.

Guarantees: each due time of an active schedule starts one task or is counted as missed, over any
number of processes and crashes. A kill at any moment loses no due time: before the write the row is
due, after it the task exists and its log needs a run.

How: one asyncio task looks at the table, fires what is due, and sleeps until the next due time, but
at most `limits.sweep_seconds`, in which it notices what other processes changed and that the clock
was set. A tick is one write: the request of the task, `ScheduleFired`, and the move of the row
(`store/values/due_times.py`). If the clock went back, rows were planned in the future: they are
planned again, and a due time that has its task starts no second one. Who looks does not matter, so
`look` can also be called by a sweep of another launcher.

Shown by tests/chat/schedules/test_ticker.py and tests/chaos/test_schedules.py.
"""

import asyncio
import logging
from collections.abc import Callable

from msgspec.structs import replace

from penstock.chat.requests import (
    NewCall,
    NewMessage,
    NewRun,
    call_requested,
    message_entries,
    run_requested,
    title_of,
)
from penstock.chat.schedules.definition import Schedule, Tick, line_of, plan
from penstock.chat.schedules.rows import FAILURES, ScheduleRows
from penstock.core.call_errors import ScheduleBusy
from penstock.core.clock import Moment
from penstock.core.errors import (
    InvalidRequest,
    NameTaken,
    NotFound,
    SessionBusy,
    StoreClosed,
    StoreError,
)
from penstock.core.events.events import Entry, SessionOpened
from penstock.core.events.schedule_events import ScheduleFired
from penstock.core.ids import LogId, TaskId
from penstock.core.limits import World
from penstock.store.logs.log import Log

log = logging.getLogger(__name__)

AT_ONCE = 200
"""Schedules that are read and fired together."""
Wake = Callable[[LogId], None]


class Ticker:
    """Starts the tasks of schedules that are due."""

    def __init__(self, rows: ScheduleRows, log: Log, wake: Wake, world: World) -> None:
        self._rows = rows
        self._log = log
        self._wake = wake
        self._world = world
        self._clock = world.clock
        self._running: asyncio.Task[None] | None = None
        self._sleeping: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Start firing, beginning with what is due now."""
        self._running = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop firing. A tick that is being written is written or not, but never half."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
            self._running = None

    def refresh(self) -> None:
        """Look again soon: a schedule was added or changed in this process."""
        if self._sleeping is not None:
            self._sleeping.cancel()

    async def look(self) -> float:
        """Fire every schedule that is due. Return the seconds until the next look is useful."""
        while True:
            now = self._clock.now()
            found = await self._rows.due(now, AT_ONCE)
            for schedule in found.early:
                await self._plan_again(schedule, now)
            moved = await asyncio.gather(*[self._fire(each, now) for each in found.schedules])
            if not any(moved) and not found.early:
                break
        longest = self._world.limits.sweep_seconds
        if found.next_run is None or found.schedules:
            return longest
        return min(longest, max(found.next_run - self._clock.now(), 0) / 1000)

    async def run_now(self, schedule: Schedule) -> TaskId:
        """Start a task of a schedule outside of its due times. Raises ScheduleBusy, NotFound."""
        return await self._start(schedule, Tick(due_at=None, next_run=None, missed=0))

    async def _run(self) -> None:
        while True:
            seconds = self._world.limits.sweep_seconds
            try:
                seconds = await self.look()
            except StoreClosed:
                return
            except StoreError as error:
                message = "schedules could not be read; they are read again soon: %s"
                log.error(message, error)  # noqa: TRY400  repeats until the store works
            self._sleeping = asyncio.create_task(self._clock.sleep(seconds))
            await asyncio.wait([self._sleeping])

    async def _fire(self, schedule: Schedule, now: Moment) -> bool:
        """Fire one schedule that is due. Return whether its row was moved."""
        try:
            tick = plan(schedule, now, self._world.limits.schedule_late_seconds)
        except KeyError:
            await self._pause_without_zone(schedule, now)
            return True
        try:
            await self._fire_or_skip(schedule, tick, now)
        except StoreError as error:
            log.error("schedule %s could not be fired: %s", schedule.schedule_id, error)  # noqa: TRY400
            return False
        return True

    async def _fire_or_skip(self, schedule: Schedule, tick: Tick, now: Moment) -> None:
        if tick.due_at is None:
            await self._rows.skip(schedule, tick, now)
            return
        if await self._rows.has_failed(schedule):
            await self._rows.pause(schedule.schedule_id, FAILED, now)
            return
        try:
            await self._start(schedule, tick)
        except NameTaken:  # it has its task, or another process was faster
            await self._rows.skip(schedule, tick, now)
        except (ScheduleBusy, SessionBusy):
            await self._rows.skip(schedule, replace(tick, missed=tick.missed + 1), now)
        except (NotFound, InvalidRequest) as error:
            await self._rows.pause(schedule.schedule_id, str(error), now)

    async def _start(self, schedule: Schedule, tick: Tick) -> TaskId:
        """Write the request of a task with the move of the schedule, in one transaction."""
        task_id = TaskId(self._world.new_id("task"))
        log_id, entries = self._request(schedule, task_id)
        entries.append(Entry(_fired(schedule, tick), task_id))
        await self._log.send(log_id, entries, on_way=self._wake)
        return task_id

    def _request(self, schedule: Schedule, task_id: TaskId) -> tuple[LogId, list[Entry]]:
        profile, given, callback = schedule.profile, dict(schedule.input), schedule.callback_id
        alone = LogId(task_id)
        if schedule.callback_type == "function":
            call = NewCall(tool_id=callback, input=given)
            return alone, [Entry(call_requested(call, profile), task_id)]
        if schedule.callback_type == "workflow":
            task = given.pop("task", None)
            run = NewRun(command=callback, task=task, inputs=given)
            return alone, [Entry(run_requested(run, profile), task_id)]
        message = NewMessage(
            content=given["content"],
            agent=callback,
            session_id=schedule.session_id,
            selected_skills=tuple(given.get("selectedSkillIds", ())),
        )
        entries = message_entries(message, profile, task_id, self._world)
        if isinstance(opened := entries[0].event, SessionOpened):
            entries[0] = Entry(replace(opened, title=title_of(schedule.name)))
        return LogId(schedule.session_id or self._world.new_id("conv")), entries

    async def _pause_without_zone(self, schedule: Schedule, now: Moment) -> None:
        reason = f"the time zone {schedule.timezone!r} is unknown on this machine"
        await self._rows.pause(schedule.schedule_id, reason, now)

    async def _plan_again(self, schedule: Schedule, now: Moment) -> None:
        """Plan a schedule whose next due time was computed by a clock that was ahead."""
        next_run = schedule.next_run
        try:
            if schedule.cron is not None:
                next_run = line_of(schedule).next_after(now)
        except KeyError:
            await self._pause_without_zone(schedule, now)
            return
        values = {"next_run": next_run, "planned_at": now}
        await self._rows.change(schedule.schedule_id, values)


FAILED = f"its last {FAILURES} tasks failed; `penstock tasks list` shows them"


def _fired(schedule: Schedule, tick: Tick) -> ScheduleFired:
    options = schedule.options
    waits = options.get("suspension_timeout") or {}
    return ScheduleFired(
        schedule_id=schedule.schedule_id,
        name=schedule.name,
        due_at=tick.due_at,
        next_run=tick.next_run,
        missed=tick.missed,
        missed_from=schedule.next_run if tick.missed else None,
        context=schedule.input.get("context") if schedule.callback_type == "message" else None,
        required_labels=tuple(options.get("required_labels", ())),
        skips_preselected=options.get("skip_skill_selection", False),
        suspension_seconds=waits.get("seconds"),
        resume_prompt=waits.get("resume_prompt", ""),
    )
