"""Schedules for the built-in tools: what models create, and what they see of schedules."""

from typing import Any

from penstock.chat.schedules.definition import NewSchedule, Schedule, ScheduleStatus
from penstock.chat.schedules.rows import SchedulesOf
from penstock.chat.schedules.scheduler import Scheduler
from penstock.core.call_errors import ToolFailed
from penstock.core.clock import to_iso
from penstock.core.envelope import Json
from penstock.core.profile import MANAGE, Profile
from penstock.store.projections import Page
from penstock.tools.resources import ScheduleRequest


class ToolSchedules:
    """Creates and shows schedules for calls of tools; see `ScheduleCalls`."""

    def __init__(self, scheduler: Scheduler, most: int) -> None:
        self._scheduler = scheduler
        self._most = most
        """How many active schedules an agent may have when its model creates another one."""

    async def create_by_call(self, request: ScheduleRequest) -> Json:
        """Create a schedule for a call of `create_schedule`; see `ScheduleCalls`."""
        found = await self._scheduler.find(request.schedule_id)
        if found is None:
            await self._check_count(request.agent)
            found = await self._scheduler.create(
                _asked(request), request.profile, schedule_id=request.schedule_id
            )
        next_runs = [to_iso(each) for each in found.upcoming()]
        record = _told(found)
        return {name: record[name] for name in _CREATED} | {"nextRuns": next_runs}

    async def info_for_call(self, schedule_id: str | None, agent: str, profile: Profile) -> Json:
        """Return what `get_schedule_info` returns; see `ScheduleCalls`."""
        whose = None if profile.holds(MANAGE) else profile.profile_id
        if schedule_id is not None:
            return _told(await self._scheduler.get(schedule_id, agent, whose))
        of = SchedulesOf(agent=agent, profile_id=whose)
        found, _ = await self._scheduler.list(of, sort="next_run")
        return {"results": [_told(each) for each in found]}

    async def _check_count(self, agent: str) -> None:
        active = SchedulesOf(agent=agent, status=ScheduleStatus.ACTIVE)
        _, count = await self._scheduler.list(active, page=Page(limit=1))
        if count >= self._most:
            raise ToolFailed(
                f"agent {agent!r} has {count} active schedules, which is the limit "
                "(limits.agent_schedules); a person can pause or delete some",
                "LIMIT_REACHED",
            )


def _asked(request: ScheduleRequest) -> NewSchedule:
    """Return the schedule that a call asks for. A message goes to the conversation of the call."""
    given, is_message = request.given, "message" in request.given
    here = {"conversation": request.session_id} if request.session_id else {}
    message = {"content": given.get("message"), **here}
    return NewSchedule(
        name=given["name"],
        agent=request.agent,
        cron=given["cron"],
        timezone=given.get("timezone"),
        callback_type="message" if is_message else "workflow",
        callback_id=given.get("workflowId", ""),
        input=message if is_message else given.get("input", {}),
    )


_CREATED = ("id", "name", "type", "cron", "timezone", "workflowId", "status", "nextRun")


def _told(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule as the built-in tools show it to models."""
    last, is_workflow = schedule.last_status, schedule.callback_type == "workflow"
    return {
        "id": schedule.schedule_id,
        "name": schedule.name,
        "type": schedule.type.value,
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "workflowId": schedule.callback_id if is_workflow else None,
        "status": schedule.status.value,
        "nextRun": None if schedule.next_run is None else to_iso(schedule.next_run),
        "lastRun": None if schedule.last_run is None else to_iso(schedule.last_run),
        "lastStatus": None if last is None else last.value,
        "missed": schedule.missed,
    }
