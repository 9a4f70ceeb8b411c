"""Flow runs: start, read, follow and abort.

A run is rejected in its own task, and yet the request that starts it gets the reason: it waits for
the end of a run that cannot start as its flow and its inputs are, and for what hooks decide. It
does not wait for a slot: the hooks of a queued run are asked later, and its reader sees the result.

Shown by tests/server/routes/test_flow_runs.py.
"""

import asyncio
import logging
from contextlib import aclosing, suppress
from typing import Annotated, Any, Literal

from fastapi import Query, Request
from msgspec.structs import replace
from starlette.responses import Response

from penstock.app.run_feed import STATUS, run_result
from penstock.app.runtime_parts import FlowParts, Storage
from penstock.chat.log_follower import LogTail
from penstock.chat.recorded.task_records import first_record, records_of, unfit
from penstock.chat.requests import NewRun, TaskReply
from penstock.chat.wire_forms import blocked_part, question_part, question_record
from penstock.core.clock import to_iso
from penstock.core.envelope import ErrorDetail
from penstock.core.errors import (
    BadLastEventId,
    HookFailed,
    HookRefused,
    NotFound,
    StoreCorrupt,
)
from penstock.core.events.events import Record, TaskEnded, TaskStarted
from penstock.core.events.flow_events import FlowNotified, FlowRequested, FlowStarted, StepStarted
from penstock.core.ids import LogId, TaskId
from penstock.core.profile import ADMIN, CHAT, READ, Profile
from penstock.core.task import FLOW, TaskRecord, TaskStatus
from penstock.flows.parsing import MAX_PARALLEL
from penstock.flows.runs.plan import RunStatus
from penstock.flows.starting import VALIDATION_ERROR
from penstock.server.context import ServerContext, allowed, context_of, owned
from penstock.server.openapi import answers, streams, takes
from penstock.server.parameters import Form, PageQuery, key_of, page_of, read_json, sorting
from penstock.server.problem import Json
from penstock.server.routes.flow_results import (
    BEFORE_THE_END,
    StepStates,
    result_of,
    status_of,
)
from penstock.server.routes.flows import flows_of
from penstock.server.routes.session_stream import NO_CONTENT
from penstock.server.routing import Router
from penstock.server.streams.flow_wire import RunFrames
from penstock.server.streams.frame import Position
from penstock.server.streams.sse import EventStream
from penstock.store.projections import TasksOf

log = logging.getLogger(__name__)

router = Router(prefix="/api/flows/{name}/runs", tags=["flows"])

NEW_RUN = Form(
    {
        "task": {"type": ["string", "null"]},
        "inputs": {"type": ["object", "null"]},
        "autonomous": {"type": ["boolean", "null"]},
        "maxConcurrent": {"type": ["integer", "null"], "minimum": 1, "maximum": MAX_PARALLEL},
    }
)
SORTS = ("startedAt",)
"""The orders of runs."""
REFUSED = {HookRefused.code: 409, HookFailed.code: 409, NotFound.code: 404}
"""Status codes of rejected runs by the code of their error; others are 422."""
_POLL_SECONDS = 1.0
_REJECTED_SECONDS = 300
"""How long to wait until a run that will be rejected is stored."""
_START_SECONDS = 10
"""How long to wait until a run starts; one that takes longer waits for a slot."""
_FAILED = (RunStatus.ERROR.value, RunStatus.REJECTED.value)
_PAGE_SIZE = 200
_OUTCOMES = answers("RunBegun", 202, s200="FlowResult", s409="RunRejected", s422="RunRejected")

RunState = Literal[
    "queued", "blocked", "running", "suspended", "success", "error", "aborted", "rejected"
]
Wait = Annotated[float, Query(ge=0, le=300)]


class RunQuery(PageQuery):
    """The query of a list of runs."""

    sort: str = sorting(SORTS)
    status: RunState | None = None


@router.post(
    "",
    status_code=202,
    responses=_OUTCOMES,
    openapi_extra=takes(NEW_RUN, required=False),
    response_class=Json,
)
async def start_run(name: str, request: Request, wait: Wait = 0) -> Response:
    """Start a run, and wait up to `wait` seconds for its end; the run continues after that.

    A repeated `Idempotency-Key` returns the same run. If the run waits for a person, the response
    comes at once, with its questions.
    """
    context, profile = context_of(request), allowed(request, CHAT)
    body, raw = await read_json(request, context.limits.request_bytes, empty={})
    asked = NEW_RUN.read(body)
    run = NewRun(
        command=name,
        task=asked.get("task"),
        inputs=asked.get("inputs", {}),
        autonomous=asked.get("autonomous"),
        max_concurrent=asked.get("maxConcurrent"),
        idempotency=key_of(request, raw),
    )
    is_refused = await _is_refused(context.flows, run, profile)
    run_id = await context.runtime.start_flow(run, profile=profile)
    work = context.flows.work
    if not is_refused and work.asks_hooks and not work.slots.are_taken:
        is_refused = await _is_stopped(context, run_id)
    reply = await _ended(context, run_id, _REJECTED_SECONDS if is_refused else wait)
    return await _answer(context.storage, name, run_id, reply)


@router.get("", responses=answers("FlowRuns"), response_class=Json)
async def list_runs(name: str, request: Request, query: Annotated[RunQuery, Query()]) -> Response:
    """Return the runs of a flow, newest first; `sort` is startedAt."""
    context, profile = context_of(request), allowed(request, READ)
    query.sorted_by(SORTS)
    tasks, total = await _runs(context.storage, name, profile, query)
    if not total and query.status is None:
        await asyncio.to_thread(flows_of(context.flows).find, name)
    return page_of(
        "runs", [await _listed(context.storage, each) for each in tasks], query.page, total
    )


@router.get("/{run_id}", responses=answers("FlowRun"), response_class=Json)
async def read_run(name: str, run_id: str, request: Request) -> Response:
    """Return a run: its status, the state of each step, its open questions and its result."""
    context, profile = context_of(request), allowed(request, READ)
    task = await _own(context.storage, profile, name, run_id)
    asked = await context.storage.projections.open_questions(task.log_id, task.task_id)
    records = await records_of(context.storage.log, task)
    notices = [each.event for each in records if isinstance(each.event, FlowNotified)]
    started = next((each.body for each in notices if each.kind == "flow_started"), {})
    if not started and any(isinstance(each.event, StepStarted) for each in records):
        raise unfit(task)
    states = StepStates(task.task_id, started.get("steps", ()))
    for record in records:
        states.apply(record)
    states.wait(asked)
    result = result_of(task)
    more = {
        "steps": states.to_wire(),
        "questions": [question_record(each) for each in asked],
        **({} if result is None else {"result": result}),
    }
    return Json(await _part(context.storage, task) | more)


@router.get(
    "/{run_id}/events",
    responses=streams(answers(None, NO_CONTENT), "RunFrame"),
    response_class=Response,
)
async def follow_run(name: str, run_id: str, request: Request) -> Response:
    """Follow a run from its start, or after `Last-Event-ID`."""
    context, profile = context_of(request), allowed(request, READ)
    task = await _own(context.storage, profile, name, run_id)
    last = request.headers.get("last-event-id") or request.query_params.get("lastEventId")
    shown = Position.parse(last) if last else Position(0)
    if shown.seq > await context.storage.log.head(task.log_id):
        raise BadLastEventId(f"this run has not reached event {last}")
    if task.ended_seq is not None and shown >= Position(task.ended_seq):
        return Response(status_code=NO_CONTENT)
    slot = context.streams.enter(profile)
    tail = LogTail(context.source, task.log_id, after=max(task.first_seq - 1, 0))
    frames = RunFrames(task.task_id, name, shown)
    return EventStream(tail, frames, slot, headers={"x-task-id": task.task_id})


@router.post(
    "/{run_id}/abort", status_code=202, responses=answers("RunBegun", 202), response_class=Json
)
async def abort_run(name: str, run_id: str, request: Request) -> Response:
    """Abort a run, whatever its status."""
    context, profile = context_of(request), allowed(request, CHAT)
    await _own(context.storage, profile, name, run_id)
    task = await context.runtime.requests.cancel(TaskId(run_id), profile=profile)
    return Json(_accepted(task.task_id, status_of(task)), 202)


async def _is_refused(flows: FlowParts, run: NewRun, profile: Profile) -> bool:
    """Whether a run would be rejected at once. Raises NotFound for an unknown flow."""
    await asyncio.to_thread(flows_of(flows).find, run.command)
    asked = FlowRequested(
        command=run.command,
        profile_id=profile.profile_id,
        task=run.task,
        inputs=run.inputs,
        autonomous=run.autonomous,
    )
    return await flows.work.refusal(asked) is not None


async def _is_stopped(context: ServerContext, run_id: TaskId) -> bool:
    """Wait until hooks have decided whether a run starts; return whether they refused it.

    A run that does not start within some seconds waits for a slot; its hooks are asked later.
    """
    with suppress(TimeoutError):
        async with (
            asyncio.timeout(_START_SECONDS) as waiting,
            aclosing(context.runtime.requests.follow(LogId(run_id))) as items,
        ):
            async for item in items:
                match item.event if isinstance(item, Record) else None:
                    case TaskStarted():
                        waiting.reschedule(asyncio.get_running_loop().time() + _REJECTED_SECONDS)
                    case FlowStarted():
                        return False
                    case TaskEnded():
                        return True
                    case _:
                        pass
    return False


async def _ended(context: ServerContext, run_id: TaskId, seconds: float) -> TaskReply | None:
    """Wait until a run has ended or waits for a person, up to a number of seconds."""
    clock, reply = context.world.clock, None
    until = clock.monotonic() + seconds
    while reply is None and not context.is_draining and (left := until - clock.monotonic()) > 0:
        reply = await context.runtime.requests.wait(run_id, seconds=min(left, _POLL_SECONDS))
    return reply


async def _answer(storage: Storage, name: str, run_id: TaskId, reply: TaskReply | None) -> Response:
    headers: dict[str, str] = {"x-task-id": run_id}
    if reply is None:
        task = await storage.projections.find_task(run_id)
        status = status_of(task) if task is not None else TaskStatus.QUEUED.value
        return Json(_accepted(run_id, status), 202, headers)
    if not reply.status.is_final:
        asked = [question_part(each.question) for each in reply.questions]
        state = _accepted(run_id, reply.status.value) | blocked_part(reply.blocked_on)
        return Json(state | {"questions": asked}, 202, headers)
    result = run_result(run_id, name, reply)
    if result["status"] == RunStatus.REJECTED.value and reply.error is not None:
        return _rejection(run_id, reply.error, headers)
    return Json(result, 200, headers)


def _rejection(run_id: TaskId, error: ErrorDetail, headers: dict[str, str]) -> Json:
    """Return the error of a rejected run, with the id of the run."""
    problem: dict[str, Any] = {"code": error.code, "message": error.message}
    details: Any = error.details
    if error.code == VALIDATION_ERROR and details:
        problems = details.get("problems", ())
        details = [{"field": e["path"], "issue": e["message"]} for e in problems]
    body = {"error": problem | ({"details": details} if details else {}), "runId": run_id}
    return Json(body, REFUSED.get(error.code, 422), headers)


def _accepted(run_id: TaskId, status: str) -> dict[str, Any]:
    return {"runId": run_id, "taskId": run_id, "status": status}


async def _runs(
    storage: Storage, name: str, profile: Profile, query: RunQuery
) -> tuple[list[TaskRecord], int]:
    """Return a page of the runs of a flow that are this profile's, and how many there are."""
    owner = None if profile.holds(ADMIN) else profile.profile_id
    tasks, status = storage.projections.tasks, query.status
    of = TasksOf(kind=FLOW, agent=name, status=_task_status(status))
    if status not in _FAILED:
        records, total = await tasks(profile_id=owner, of=of, page=query.page)
        return list(records), total
    matching: list[TaskRecord] = []
    offset, total = 0, 1
    while offset < total:
        page = replace(query.page, limit=_PAGE_SIZE, offset=offset)
        records, total = await tasks(profile_id=owner, of=of, page=page)
        matching += [each for each in records if status_of(each) == status]
        offset += _PAGE_SIZE
    part = matching[query.offset : query.offset + query.limit]
    return part, len(matching)


def _task_status(run_status: str | None) -> TaskStatus | None:
    """Return the task status of a run status."""
    if run_status is None or run_status in BEFORE_THE_END:
        return None if run_status is None else TaskStatus(run_status)
    ended = (status for status, run in STATUS.items() if run.value == run_status)
    return next(ended, TaskStatus.FAILED)


async def _listed(storage: Storage, task: TaskRecord) -> dict[str, Any]:
    """Return a run for a list, with less detail if its log is corrupt."""
    try:
        return await _part(storage, task)
    except StoreCorrupt as error:
        log.warning("a list shows a run without its task and steps: %s", error)
        return _shown(task, "", 0)


async def _part(storage: Storage, task: TaskRecord) -> dict[str, Any]:
    """Return a run. Raises StoreCorrupt."""
    asked = (await first_record(storage.log, task)).event
    text = asked.task if isinstance(asked, FlowRequested) else None
    return _shown(task, text or "", await _step_count(storage, task))


def _shown(task: TaskRecord, text: str, steps: int) -> dict[str, Any]:
    part: dict[str, Any] = {
        "runId": task.task_id,
        "status": status_of(task),
        "task": text,
        "startedAt": None if task.started_at is None else to_iso(task.started_at),
        "stepCount": steps,
    }
    part |= blocked_part(task.blocked_on)
    return part | ({} if task.ended_at is None else {"endedAt": to_iso(task.ended_at)})


async def _step_count(storage: Storage, task: TaskRecord) -> int:
    """Return how many visits of steps were started."""
    if (result := result_of(task)) is not None:
        return int(result["stepCount"])
    records = await records_of(storage.log, task)
    return sum(isinstance(each.event, StepStarted) for each in records)


async def _own(storage: Storage, profile: Profile, name: str, run_id: str) -> TaskRecord:
    """Return a run of this flow. Raises NotFound, also for a run of another profile."""
    task = await storage.projections.find_task(TaskId(run_id))
    if task is None or task.kind != FLOW or task.agent != name:
        raise NotFound(f'the flow "/{name}" has no run {run_id!r}')
    owned(profile, task.profile_id, f"run {run_id!r}", task.log_id)
    return task
