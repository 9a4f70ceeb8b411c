"""Lets the rows of schedules follow the files of the project.

Guarantees: changed fields of a file are taken over; the next due time is computed again only if the
line or the zone changed; a file that is gone deletes its row, never a profile, a conversation or a
running task; a broken file changes nothing. A row that was paused by hand, or after failures,
stays paused until it is resumed or `enabled` changes in the file. Rows that the API created are
never touched. Proof: tests/chat/schedules/test_file_schedules.py.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from penstock.accounts.keys import NEW_KEY
from penstock.chat.schedules.definition import Schedule, ScheduleStatus
from penstock.chat.schedules.rows import ScheduleRows, SchedulesOf
from penstock.core.clock import Clock, Moment
from penstock.core.late import late
from penstock.manifest.schedules.schedule import ScheduleManifest
from penstock.store.projections import Page

log = logging.getLogger(__name__)

FILE = "file"
PROJECT = "project"
"""The profile of schedules that name none."""
_PAGE = 200


class FileSchedules:
    """The schedules of a project's files, as rows."""

    def __init__(self, rows: ScheduleRows, clock: Clock, permissions: Iterable[str]) -> None:
        self._rows = rows
        self._clock = clock
        self._permissions = sorted(permissions)

    async def follow(
        self, manifests: Mapping[str, ScheduleManifest], broken: Collection[str]
    ) -> None:
        """Add, change and delete rows so that they agree with the files."""
        now = self._clock.now()
        rows = {str(each.schedule_id): each for each in await self._every()}
        for schedule_id, manifest in manifests.items():
            wanted, before = self._row(manifest), rows.get(schedule_id)
            if before is None:
                await self._add(wanted, manifest, now)
            elif values := _changes(before, wanted, manifest, now):
                await self._rows.change(schedule_id, values)
        for schedule_id, schedule in rows.items():
            if schedule_id not in manifests and schedule.options.get(FILE) not in broken:
                await self._rows.remove(schedule_id)

    async def _every(self) -> list[Schedule]:
        found: list[Schedule] = []
        while True:
            of, page = SchedulesOf(source=FILE), Page(limit=_PAGE, offset=len(found))
            part, total = await self._rows.list(of, page, "name")
            found += part
            if len(found) >= total or not part:
                return found

    async def _add(self, wanted: dict[str, Any], manifest: ScheduleManifest, now: Moment) -> None:
        status = ScheduleStatus.ACTIVE if manifest.enabled else ScheduleStatus.PAUSED
        row = {
            "schedule_id": manifest.schedule_id,
            "source": FILE,
            "status": status.value,
            "next_run": _next(manifest, now),
            "planned_at": now,
            "active_since": now,
            "missed": 0,
            "created_at": now,
            "updated_at": now,
        }
        if (await self._rows.add(row | wanted)).source != FILE:
            message = "schedule %s of %s is not used: the API created one with this id"
            log.warning(message, manifest.schedule_id, manifest.file)

    def _row(self, manifest: ScheduleManifest) -> dict[str, Any]:
        """Return the columns that follow from a file."""
        waits, owner = manifest.suspension_timeout, manifest.profile_id
        options: dict[str, Any] = {FILE: manifest.file, "enabled": manifest.enabled}
        if manifest.required_labels:
            options["required_labels"] = list(manifest.required_labels)
        if manifest.skip_skill_selection:
            options["skip_skill_selection"] = True
        if waits is not None:
            limit = {"seconds": waits.seconds, "resume_prompt": waits.resume_prompt}
            options["suspension_timeout"] = limit
        given: dict[str, Any] = {"content": manifest.user_message}
        if manifest.context:
            given["context"] = dict(manifest.context)
        if manifest.selected_skill_ids:
            given["selectedSkillIds"] = list(manifest.selected_skill_ids)
        return {
            "agent": manifest.agent,
            "name": manifest.schedule_id,
            "type": "cron",
            "cron": manifest.cron,
            "timezone": manifest.timezone,
            "callback_type": "message",
            "callback_id": manifest.agent,
            "input": given,
            "concurrency": manifest.concurrency,
            "options": options,
            "profile_id": owner or PROJECT,
            "permissions": list(NEW_KEY) if owner else self._permissions,
        }


def _changes(
    before: Schedule, wanted: Mapping[str, Any], manifest: ScheduleManifest, now: Moment
) -> dict[str, Any]:
    """Return the columns to change; none if the row agrees with its file."""
    values = {name: new for name, new in wanted.items() if _plain(getattr(before, name)) != new}
    if {"cron", "timezone"} & values.keys():
        values |= {"next_run": _next(manifest, now), "planned_at": now}
    if before.options.get("enabled") != manifest.enabled:
        values["status"] = ScheduleStatus.PAUSED.value
        if manifest.enabled:
            values |= {"status": ScheduleStatus.ACTIVE.value, "reason": None}
            values |= {"next_run": _next(manifest, now), "planned_at": now, "active_since": now}
    return values | {"updated_at": now} if values else {}


def _next(manifest: ScheduleManifest, now: Moment) -> Moment:
    line = late("penstock.manifest.schedules.cron:CronLine")(manifest.cron, manifest.timezone)
    due: Moment = line.next_after(now)
    return due


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
