"""Retries: tasks that failed or were cancelled are started again."""

from fastapi import Request
from starlette.responses import Response

from penstock.chat.wire_forms import retry_part
from penstock.core.profile import CHAT
from penstock.server.context import allowed, context_of
from penstock.server.openapi import answers, takes
from penstock.server.parameters import Form, read_json
from penstock.server.problem import Json
from penstock.server.routing import Router

router = Router(prefix="/api/tasks", tags=["tasks"])
RETRY = Form({"mode": {"enum": ["fresh", "resume", None]}})
"""The keys of a retry."""


@router.post(
    "/{task_id}/retry",
    status_code=202,
    responses=answers("Retry", 202),
    openapi_extra=takes(RETRY, required=False),
    response_class=Json,
)
async def retry_task(task_id: str, request: Request) -> Response:
    """Start a task again that failed or was cancelled; `resume` continues before its failure.

    A repeated request returns the same retry, unless that failed, too.
    """
    context, profile = context_of(request), allowed(request, CHAT)
    body, _ = await read_json(request, context.limits.request_bytes, empty={})
    resumes = RETRY.read(body).get("mode") == "resume"
    task = await context.runtime.requests.retry(task_id, resumes=resumes, profile=profile)
    return Json(retry_part(task), 202)
