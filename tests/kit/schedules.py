"""Schedules for tests."""

from typing import Any

from penstock.chat.schedules.definition import Schedule, ScheduleStatus, ScheduleType
from penstock.core.clock import Moment
from penstock.core.ids import ProfileId, ScheduleId

MINUTE = 60_000


def stored(*, cron: str | None, next_run: int, status: str = "active", **more: Any) -> Schedule:
    """Return a schedule as if it had been read from the table."""
    values: dict[str, Any] = {
        "schedule_id": ScheduleId("sched_1"),
        "agent": "assistant",
        "name": "News",
        "timezone": "UTC",
        "delay_seconds": None,
        "callback_type": "message",
        "callback_id": "assistant",
        "input": {"content": "Hi"},
        "concurrency": "forbid",
        "options": {},
        "source": "api",
        "profile_id": ProfileId("local"),
        "permissions": None,
        "session_id": None,
        "reason": None,
        "planned_at": Moment(0),
        "active_since": Moment(0),
        "last_run": None,
        "last_task_id": None,
        "last_status": None,
        "missed": 0,
        "created_at": Moment(0),
        "updated_at": Moment(0),
    }
    return Schedule(
        **values | more,
        cron=cron,
        type=ScheduleType.ONCE if cron is None else ScheduleType.CRON,
        next_run=Moment(next_run),
        status=ScheduleStatus(status),
    )
