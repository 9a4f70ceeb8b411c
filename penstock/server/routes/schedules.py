"""The schedules of an agent: create, list, change, run and delete them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Query, Request
from starlette.responses import Response

from penstock.chat.schedules.definition import NewSchedule, ScheduleStatus, ScheduleType
from penstock.chat.schedules.rows import SORTS, SchedulesOf
from penstock.core.errors import InvalidRequest
from penstock.core.ids import ProfileId
from penstock.core.profile import MANAGE, READ, Profile
from penstock.core.text import cut
from penstock.server.context import allowed, context_of
from penstock.server.openapi import answers, takes
from penstock.server.parameters import Form, ListQuery, page_of, read_json, sorting
from penstock.server.problem import Json
from penstock.server.routing import Router

router = Router(prefix="/api/agents/{agent_id}/schedules", tags=["schedules"])

_TEXT = {"type": ["string", "null"], "maxLength": 200}
_WAITS = {
    "type": ["object", "null"],
    "properties": {"seconds": {"type": "integer"}, "resume_prompt": {"type": "string"}},
    "required": ["seconds", "resume_prompt"],
    "additionalProperties": False,
}
_FIELDS: Mapping[str, Any] = {
    "name": {"type": "string"},
    "type": {"enum": [*ScheduleType, None]},
    "cron_expression": _TEXT,
    "next_run": _TEXT,
    "delay_seconds": {"type": ["integer", "null"]},
    "callback_type": {"enum": ["message", "workflow", "function"]},
    "callback_id": _TEXT,
    "input": {"type": ["object", "null"]},
    "timezone": _TEXT,
    "concurrency": {"enum": ["forbid", "allow", None]},
    "status": {"enum": ["active", "paused", None]},
    "suspension_timeout": _WAITS,
}
NEW_SCHEDULE = Form(_FIELDS, required=("name", "callback_type"))
CHANGES = Form(_FIELDS)
_NAMES = {"cron_expression": "cron", "next_run": "at"}
"""The names of fields in `NewSchedule`, where they differ."""
_TIME_OF = {
    "once": "next_run",
    "delayed": "delay_seconds",
    "cron": "cron_expression",
}
"""The field that each type needs."""
_DEFAULTS: Mapping[str, Any] = {
    "callback_id": "",
    "input": {},
    "timezone": None,
    "concurrency": "forbid",
}
"""The values that null resets fields to."""


class SchedulesQuery(ListQuery):
    """The query of a list of schedules."""

    sort: str = sorting(SORTS)
    status: ScheduleStatus | None = None
    type: Literal["once", "delayed", "cron"] | None = None


@router.get("", responses=answers("Schedules"), response_class=Json)
async def list_schedules(
    agent_id: str, request: Request, query: Annotated[SchedulesQuery, Query()]
) -> Response:
    """Return the schedules of an agent, newest first; `sort` is also name, next_run or last_run.

    Without the permission `manage` they are those of the key's profile.
    """
    context, profile = context_of(request), allowed(request, READ)
    context.chat.agents.get(agent_id)
    chosen = None if query.type is None else ScheduleType(query.type)
    of = SchedulesOf(
        agent=agent_id,
        status=query.status,
        type=chosen,
        search=query.search,
        profile_id=_whose(profile),
    )
    sort, page = query.sorted_by(SORTS), query.page
    found, total = await context.chat.schedules.list(of, page=page, sort=sort)
    return page_of("schedules", [each.to_wire() for each in found], page, total)


@router.post(
    "",
    status_code=201,
    responses=answers("Schedule", 201),
    openapi_extra=takes(NEW_SCHEDULE),
    response_class=Json,
)
async def create_schedule(agent_id: str, request: Request) -> Response:
    """Create a schedule. Its tasks run for the profile of this request."""
    context, profile = context_of(request), allowed(request, MANAGE)
    context.chat.agents.get(agent_id)
    body, _ = await read_json(request, context.limits.request_bytes)
    given = _given(NEW_SCHEDULE.read(body), body)
    schedule = await context.chat.schedules.create(NewSchedule(agent=agent_id, **given), profile)
    return Json(schedule.to_wire(), 201)


@router.get("/{schedule_id}", responses=answers("Schedule"), response_class=Json)
async def read_schedule(agent_id: str, schedule_id: str, request: Request) -> Response:
    """Return one schedule, with its next three due times."""
    context, profile = context_of(request), allowed(request, READ)
    found = await context.chat.schedules.get(schedule_id, agent_id, _whose(profile))
    return Json(found.to_wire())


@router.put(
    "/{schedule_id}",
    responses=answers("Schedule"),
    openapi_extra=takes(CHANGES),
    response_class=Json,
)
async def change_schedule(agent_id: str, schedule_id: str, request: Request) -> Response:
    """Change a schedule; `status` pauses and resumes it. Fields that are not given stay."""
    context, profile = context_of(request), allowed(request, MANAGE)
    schedules = context.chat.schedules
    await schedules.get(schedule_id, agent_id)
    body, _ = await read_json(request, context.limits.request_bytes)
    changes = _given(CHANGES.read(body), body)
    return Json((await schedules.change(schedule_id, changes, profile)).to_wire())


@router.delete(
    "/{schedule_id}", status_code=204, responses=answers(None, 204), response_class=Response
)
async def delete_schedule(agent_id: str, schedule_id: str, request: Request) -> Response:
    """Delete a schedule; its tasks and conversations remain."""
    context, _ = context_of(request), allowed(request, MANAGE)
    await context.chat.schedules.get(schedule_id, agent_id)
    await context.chat.schedules.delete(schedule_id)
    return Response(status_code=204)


@router.post(
    "/{schedule_id}/run",
    status_code=202,
    responses=answers("ScheduleRun", 202),
    response_class=Json,
)
async def run_schedule(agent_id: str, schedule_id: str, request: Request) -> Response:
    """Start a task of a schedule now, also of a paused one; its due times stay the same."""
    context, _ = context_of(request), allowed(request, MANAGE)
    await context.chat.schedules.get(schedule_id, agent_id)
    return Json({"task_id": await context.chat.schedules.run(schedule_id)}, 202)


def _whose(profile: Profile) -> ProfileId | None:
    """Return the profile whose schedules a key reads: they hold messages. None means all."""
    return None if profile.holds(MANAGE) else profile.profile_id


def _given(form: dict[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a body as those of NewSchedule; null resets a field."""
    given = {name: value for name, value in _DEFAULTS.items() if name in body} | form
    if "next_run" in given:
        given["next_run"] = _time(given["next_run"])
    if kind := given.pop("type", None):
        _check_kind(kind, given)
    if "status" in given:
        given["is_paused"] = given.pop("status") == "paused"
    if "suspension_timeout" in body:
        waits = given.pop("suspension_timeout", None) or {}
        given["suspension_seconds"] = waits.get("seconds")
        given["resume_prompt"] = waits.get("resume_prompt", "")
    return {_NAMES.get(name, name): value for name, value in given.items()}


def _check_kind(kind: str, given: Mapping[str, Any]) -> None:
    """Raise InvalidRequest if a type does not fit the time that is given with it."""
    others = [name for name in _TIME_OF.values() if name in given and name != _TIME_OF[kind]]
    if others:
        issue = f"is {kind!r}, which needs {_TIME_OF[kind]}; found {', '.join(others)}"
        raise InvalidRequest([{"field": "/type", "issue": issue}])


def _time(text: str) -> datetime:
    """Return a time of a body. Raises InvalidRequest."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        issue = f"must be a time such as 2026-12-24T18:00:00+01:00, found {cut(text, 40)!r}"
        raise InvalidRequest([{"field": "/next_run", "issue": issue}]) from None
