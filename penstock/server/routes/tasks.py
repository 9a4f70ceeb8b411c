"""Tasks: lists and trees of them, their status and events, cancelling, forking, undoing."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from penstock.app.runtime_parts import Storage
from penstock.chat.children.tree import MAX_DEPTH, MAX_TASKS, tree_of
from penstock.chat.log_follower import LogTail
from penstock.chat.recorded.fork import ForkRequest
from penstock.chat.recorded.task_records import records_of, spent_on
from penstock.chat.task_waiter import awaited_runs
from penstock.chat.wire_forms import (
    envelope_part,
    event_part,
    fork_part,
    task_part,
)
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope, Status
from penstock.core.errors import BadLastEventId, NotFound
from penstock.core.events.events import (
    Record,
    TaskEnded,
)
from penstock.core.ids import LogId, TaskId
from penstock.core.profile import CHAT, READ, Profile
from penstock.core.task import TaskRecord, TaskStatus
from penstock.engine.bus import Live
from penstock.server.context import (
    ServerContext,
    admitted,
    allowed,
    context_of,
    listed_for,
    owned,
)
from penstock.server.openapi import answers, streams, takes
from penstock.server.parameters import (
    NO_NUL,
    NOT_BLANK,
    Form,
    PageQuery,
    page_of,
    read_json,
    sorting,
)
from penstock.server.problem import Json
from penstock.server.routes.session_stream import NO_CONTENT
from penstock.server.routing import Router
from penstock.server.streams.frame import Frame, Position
from penstock.server.streams.sse import EventStream
from penstock.store.projections import NO_PARENT, TasksOf

router = Router(prefix="/api/tasks", tags=["tasks"])

_STREAM = "text/event-stream"
_NAMED = {"type": ["string", "null"], "minLength": 1, "maxLength": 200, "pattern": NO_NUL}
UNDO = Form({"callId": {"type": ["string", "null"]}, "dryRun": {"type": ["boolean", "null"]}})
FORK = Form(
    {
        "seq": {"type": "integer", "minimum": 1, "maximum": 2**53},
        "agent": _NAMED,
        "title": _NAMED,
        "content": {"type": ["string", "null"], "minLength": 1, "pattern": NOT_BLANK},
    },
    required=("seq",),
)
"""The keys of a fork."""


TASK_SORTS = ("createdAt",)
"""The orders of tasks."""
TaskKind = Literal["chat", "call", "direct", "flow", "child"]
STORED_KINDS = {"chat": "message", "direct": "call"}
"""Names of kinds in queries that differ from those in lists."""


class EventQuery(BaseModel):
    """The query of a task's events."""

    after: int = Field(default=0, ge=0, le=2**53)
    limit: int = Field(default=50, ge=1, le=200)
    last: str | None = Field(default=None, alias="lastEventId")


class TaskFrames:
    """Converts every event of one task to a frame."""

    def __init__(self, task_id: TaskId, last: int) -> None:
        self._task_id = task_id
        self._is_over = False
        self._last = last

    @property
    def task_id(self) -> TaskId | None:
        """The id of the task."""
        return self._task_id

    @property
    def is_over(self) -> bool:
        """Whether the task has ended."""
        return self._is_over

    @property
    def is_at_work(self) -> bool:
        """Whether the task has not ended."""
        return not self._is_over

    def feed(self, items: Iterable[Live]) -> list[Frame]:
        """Fold events; return the frames that the reader has not seen."""
        frames: list[Frame] = []
        for item in items:
            if not isinstance(item, Record) or item.task_id != self._task_id:
                continue
            self._is_over = self._is_over or isinstance(item.event, TaskEnded)
            if item.seq > self._last:
                frames.append((Position(item.seq), event_part(item)))
        return frames


class TasksQuery(PageQuery):
    """The query of a list of tasks."""

    sort: str = sorting(TASK_SORTS)
    agent: str | None = Field(default=None, max_length=200, pattern=NO_NUL)
    status: list[TaskStatus] = Field(default=[], max_length=len(TaskStatus))
    kind: TaskKind | None = None
    parent: str | None = Field(default=None, max_length=200, pattern=NO_NUL)
    session_id: LogId | None = Field(default=None, alias="conversationId")
    since: datetime | None = None
    until: datetime | None = None

    @property
    def of(self) -> TasksOf:
        """The filter."""
        return TasksOf(
            kind=None if self.kind is None else STORED_KINDS.get(self.kind, self.kind),
            agent=self.agent,
            statuses=tuple(self.status),
            parent_id=None if self.parent is None else _parent(self.parent),
            since=_moment(self.since),
            until=_moment(self.until),
        )


class TreeQuery(BaseModel):
    """The query of a tree of tasks."""

    depth: int = Field(default=MAX_DEPTH, ge=0, le=MAX_DEPTH)
    limit: int = Field(default=MAX_TASKS, ge=1, le=MAX_TASKS)


@router.get("", responses=answers("TaskList"), response_class=Json)
async def list_tasks(request: Request, query: Annotated[TasksQuery, Query()]) -> Response:
    """Return tasks, newest first; `sort` is createdAt. Children are among them."""
    context, profile = context_of(request), admitted(request, READ)
    query.sorted_by(TASK_SORTS)
    owner, session_id = listed_for(profile, query.session_id)
    records, total = await context.storage.projections.tasks(
        profile_id=owner,
        log_id=session_id,
        of=query.of,
        page=query.page,
    )
    return page_of("tasks", [task_part(each) for each in records], query.page, total)


@router.get("/{task_id}/tree", responses=answers("TaskTree"), response_class=Json)
async def read_tree(
    task_id: str, request: Request, query: Annotated[TreeQuery, Query()]
) -> Response:
    """Return a task and the tasks below it, with the usage of each and of all below it."""
    context, profile = context_of(request), admitted(request, READ)
    storage, task = context.storage, await _own(context.storage, profile, task_id)
    depth, limit = query.depth, query.limit
    tree = await tree_of(storage.log, storage.projections, task, depth=depth, limit=limit)
    return Json(tree.to_wire())


@router.get("/{task_id}", responses=answers("Task"), response_class=Json)
async def read_task(task_id: str, request: Request) -> Response:
    """Return the status of a task, its usage, its questions and its result."""
    context, profile = context_of(request), admitted(request, READ)
    return Json(await _described(context.storage, await _own(context.storage, profile, task_id)))


@router.post(
    "/{task_id}/cancel", status_code=202, responses=answers("TaskState", 202), response_class=Json
)
async def cancel_task(task_id: str, request: Request) -> Response:
    """Cancel a task, whatever its status."""
    context, profile = context_of(request), admitted(request, CHAT)
    task = await context.runtime.requests.cancel(TaskId(task_id), profile=profile)
    return Json({"id": task.task_id, "status": task.status.value}, 202)


@router.post(
    "/{task_id}/fork",
    status_code=201,
    responses=answers("Fork", 201),
    openapi_extra=takes(FORK),
    response_class=Json,
)
async def fork_task(task_id: str, request: Request) -> Response:
    """Continue a copy of a task from an event in its middle; the task itself stays as it is."""
    context, profile = context_of(request), allowed(request, CHAT)
    body, _ = await read_json(request, context.limits.request_bytes)
    wanted = ForkRequest(**FORK.read(body))
    fork = await context.runtime.requests.fork(task_id, wanted, profile=profile)
    return Json(fork_part(fork), 201)


@router.post(
    "/{task_id}/undo",
    responses=answers("Undo", s202="Undo"),
    openapi_extra=takes(UNDO, required=False),
    response_class=Json,
)
async def undo_task(task_id: str, request: Request) -> Response:
    """Take back what a task did, in a task of its own; with `dryRun`, return the plan.

    A task that has not ended is cancelled first. A repeated request returns the same undo.
    """
    context, profile = context_of(request), allowed(request, CHAT)
    body, _ = await read_json(request, context.limits.request_bytes, empty={})
    asked, undos = UNDO.read(body), context.runtime.requests.undos
    call_id = asked.get("callId")
    if asked.get("dryRun"):
        return Json((await undos.plan(task_id, call_id, profile)).to_wire())
    undo_id = await undos.start(task_id, call_id, profile)
    undo = await undos.result(task_id, undo_id, profile, seconds=0)
    return Json(undo.to_wire(), 202 if undo.status == "running" else 200)


@router.get(
    "/{task_id}/events",
    responses=streams(answers("TaskEvents") | answers(None, NO_CONTENT), "TaskEvent"),
    response_class=Json,
)
async def read_events(
    task_id: str, request: Request, query: Annotated[EventQuery, Query()]
) -> Response:
    """Return the events of a task with nested calls; as a stream if `Accept` allows one."""
    context, profile = context_of(request), admitted(request, READ)
    task = await _own(context.storage, profile, task_id)
    if _STREAM in request.headers.get("accept", ""):
        last = request.headers.get("last-event-id") or query.last
        return await _follow(context, profile, task, last)
    records: list[Record] = []
    after = max(query.after, task.first_seq - 1)
    while len(records) <= query.limit and (task.ended_seq is None or after < task.ended_seq):
        page = await context.storage.log.read(task.log_id, after=after, limit=200)
        records += [each for each in page if each.task_id == task.task_id]
        if not page:
            break
        after = page[-1].seq
    meta = {"limit": query.limit, "hasMore": len(records) > query.limit}
    return Json({"events": [event_part(each) for each in records[: query.limit]], "meta": meta})


async def _follow(
    context: ServerContext, profile: Profile, task: TaskRecord, last: str | None
) -> Response:
    shown = Position.parse(last).seq if last else 0
    if shown > await context.storage.log.head(task.log_id):
        raise BadLastEventId(f"this task has not reached event {last}")
    if task.ended_seq is not None and shown >= task.ended_seq:
        return Response(status_code=NO_CONTENT)
    slot = context.streams.enter(profile)
    tail = LogTail(context.source, task.log_id, after=max(task.first_seq - 1, 0))
    headers = {"x-task-id": task.task_id}
    return EventStream(tail, TaskFrames(task.task_id, shown), slot, headers=headers)


async def _own(storage: Storage, profile: Profile, task_id: str) -> TaskRecord:
    task = await storage.projections.find_task(TaskId(task_id))
    if task is None:
        raise NotFound(f"there is no task {task_id!r}")
    owned(profile, task.profile_id, f"task {task_id!r}", task.log_id)
    return task


async def _described(storage: Storage, task: TaskRecord) -> dict[str, Any]:
    iterations, usage, end = await spent_on(storage.log, task)
    asked = await storage.projections.open_questions(task.log_id, task.task_id)
    described = task_part(task) | {
        "iterations": iterations,
        "usage": usage.to_wire(),
        "questions": [each.question.question_id for each in asked],
        "runs": await _awaited(storage, task),
    }
    if end is not None and end.error is not None:
        described["error"] = end.error.to_wire()
    described["result"] = None if end is None else _result(task, end)
    return described


def _result(task: TaskRecord, end: TaskEnded) -> dict[str, Any] | None:
    """Return the outcome of a direct call; None for other tasks."""
    envelope = end.envelope
    if envelope is None and task.kind == "call" and end.error is not None:
        envelope = Envelope(Status.FAILED, None, end.error)
    return None if envelope is None else envelope_part(envelope)


async def _awaited(storage: Storage, task: TaskRecord) -> Sequence[TaskId]:
    """Return the flow runs that a task waits for."""
    if task.status is not TaskStatus.SUSPENDED:
        return ()
    records = await records_of(storage.log, task)
    return awaited_runs([each.event for each in records])


def _parent(name: str) -> TaskId:
    return NO_PARENT if name == "none" else TaskId(name)


def _moment(time: datetime | None) -> Moment | None:
    """Return a time of a query; one without an offset is UTC."""
    if time is None:
        return None
    zoned = time if time.tzinfo else time.replace(tzinfo=UTC)
    return Moment(round(1000 * zoned.timestamp()))
