"""A schedule that is asked for, as the columns of its row, and back."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec.structs import asdict, replace

from penstock.chat.schedules.definition import (
    NewSchedule,
    Schedule,
    ScheduleStatus,
    first_due,
    line_of,
    type_of,
)
from penstock.core.clock import Moment
from penstock.core.errors import InvalidRequest
from penstock.core.json_values.json_text import as_stored
from penstock.core.profile import Profile
from penstock.store.projections import plain

TIMES = frozenset({"cron", "at", "delay_seconds", "timezone"})
"""The fields that decide when a schedule is due."""
KINDS_OF_TIME = TIMES - {"timezone"}


def completed(new: NewSchedule) -> NewSchedule:
    """Return a schedule with its callback named, and its input in stored form."""
    is_message = new.callback_type == "message"
    name = new.callback_id or (new.agent if is_message else "")
    return replace(new, callback_id=name.removeprefix("/"), input=as_stored(new.input))


def changed(schedule: Schedule, changes: Mapping[str, Any]) -> NewSchedule:
    """Return a stored schedule in the form in which it was asked for, with changes."""
    given = {name: value for name, value in asdict(schedule).items() if name in _SHARED}
    waits = schedule.options.get("suspension_timeout") or {}
    old = NewSchedule(
        **given,
        is_paused=schedule.status is ScheduleStatus.PAUSED,
        suspension_seconds=waits.get("seconds"),
        resume_prompt=waits.get("resume_prompt", ""),
    )
    if not KINDS_OF_TIME.isdisjoint(changes):  # one kind of time replaces another
        old = replace(old, cron=None, at=None, delay_seconds=None)
    return completed(replace(old, **changes))


_SHARED = {*NewSchedule.__struct_fields__} & {*Schedule.__struct_fields__}


def definition(new: NewSchedule) -> dict[str, Any]:
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


def timing(new: NewSchedule, timezone: str, now: Moment) -> dict[str, Any]:
    """Return the columns that decide when a schedule is due, in a time zone."""
    return {
        "type": type_of(new).value,
        "cron": new.cron,
        "delay_seconds": new.delay_seconds,
        "timezone": timezone,
        "next_run": first_due(new, timezone, now),
        "planned_at": now,
    }


def owned_by(profile: Profile) -> dict[str, Any]:
    """Return the columns with the profile that tasks run for."""
    noted = profile.noted
    permissions = None if noted is None else list(noted)
    key = {"key_name": profile.key_name}
    return {"profile_id": profile.profile_id, "permissions": permissions, **key}


def revived(
    schedule: Schedule, now: Moment, moved: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """Return the columns of a schedule that fires again: at other times, or at its own from now on.

    Raises InvalidRequest if this machine does not know its time zone.
    """
    values: dict[str, Any] = {"status": ScheduleStatus.ACTIVE.value, "reason": None}
    values |= {"active_since": now, "planned_at": now, "updated_at": now}
    if moved or schedule.cron is None:
        return {**values, **moved}
    if schedule.unknown_zone:
        raise InvalidRequest([{"field": "/timezone", "issue": schedule.unknown_zone}])
    return values | {"next_run": line_of(schedule).next_after(now)}
