"""Replays of recorded tasks: they ask no model and run no tool, except with `live`."""

from typing import Any

from fastapi import Request
from starlette.responses import Response

from penstock.chat.recorded.replay_report import ReplayChanges
from penstock.core.profile import ADMIN, CHAT
from penstock.server.context import ServerContext, allowed, context_of
from penstock.server.openapi import answers, takes
from penstock.server.parameters import Form, read_json
from penstock.server.problem import Json
from penstock.server.routing import Router

router = Router(tags=["tasks"])
WAIT_SECONDS = 60
"""The longest, and usual, time that a request waits for the report."""
_OBJECT = {"type": ["object", "null"]}
_TEXT = {"type": ["string", "null"]}
REPLAY = Form(
    {
        "changes": {
            "type": ["object", "null"],
            "properties": {
                "systemPrompt": _TEXT,
                "model": _TEXT,
                "settings": _OBJECT,
                "tools": {**_OBJECT, "additionalProperties": {"type": "object"}},
            },
            "additionalProperties": False,
        },
        "live": {"type": ["boolean", "null"]},
        "until": {"type": ["integer", "null"], "minimum": 1, "maximum": 2**53},
        "wait": {"type": ["number", "null"], "minimum": 0, "maximum": WAIT_SECONDS},
    }
)
"""The keys of a replay."""


@router.post(
    "/api/tasks/{task_id}/replay",
    responses=answers("ReplayReport", s202="ReplayState"),
    openapi_extra=takes(REPLAY, required=False),
    response_class=Json,
)
async def replay_task(task_id: str, request: Request) -> Response:
    """Run a task again in memory, and return the first difference; 202 if it takes longer."""
    context, profile = context_of(request), allowed(request, CHAT)
    body, _ = await read_json(request, context.limits.request_bytes, empty={})
    wanted = REPLAY.read(body)
    changes, is_live = wanted.get("changes") or {}, bool(wanted.get("live"))
    if is_live:  # it pays, and tools that read run with what the task was permitted then
        allowed(request, ADMIN)
    work = context.runtime.replay(
        task_id,
        changes=ReplayChanges(
            system_prompt=changes.get("systemPrompt"),
            model=changes.get("model"),
            settings=changes.get("settings") or {},
            tools=changes.get("tools") or {},
        ),
        live=is_live,
        until=wanted.get("until"),
        profile=profile,
    )
    replay_id = context.replays.start(work, profile)
    seconds = wanted.get("wait")
    return await _answer(context, replay_id, request, WAIT_SECONDS if seconds is None else seconds)


@router.get(
    "/api/replays/{replay_id}",
    responses=answers("ReplayReport", s202="ReplayState"),
    response_class=Json,
)
async def read_replay(replay_id: str, request: Request) -> Response:
    """Return the report of a replay; 202 while it runs."""
    return await _answer(context_of(request), replay_id, request, 0)


async def _answer(
    context: ServerContext, replay_id: str, request: Request, seconds: float
) -> Response:
    profile = allowed(request, CHAT)
    report = await context.replays.report(replay_id, profile, seconds=seconds)
    if report is None:
        state: dict[str, Any] = {"replayId": replay_id}
        return Json(state, 202)
    return Json(report.to_wire())
