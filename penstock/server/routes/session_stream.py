"""Where a stream of a conversation begins: after a message, or where a reader left it."""

from collections.abc import Sequence

from msgspec import Struct
from starlette.responses import Response

from penstock.agents.settings import DEFAULTS
from penstock.chat.follow import LogTail
from penstock.chat.message import SentMessage
from penstock.core.errors import BadLastEventId, NotFound
from penstock.core.events.events import (
    CancelRequested,
    MessageReceived,
    Record,
    ReplyReceived,
    TaskEnded,
)
from penstock.core.ids import LogId, SessionId, TaskId
from penstock.core.task import TaskRecord
from penstock.engine.bus import LiveReply
from penstock.server.context import ServerContext
from penstock.server.streams.frame import Frame, Position
from penstock.server.streams.sse import EventStream, StreamSlot
from penstock.server.streams.wire import ChatFrames, StreamView
from penstock.store.projections.projections import Page

NO_CONTENT = 204
_NEWEST = Page(limit=1)
_HANDED_IN = (MessageReceived, CancelRequested)
"""Events without a frame, which may come while a reply is on its way."""
_NEXT = 100
"""So many events are looked through for the reply that follows another event."""


class ResumePosition(Struct, frozen=True, kw_only=True):
    """Where a reader wants to go on."""

    session_id: SessionId
    agent: str
    last: str | None = None
    """The id of the last frame it has."""
    from_now: bool = False
    """Without an id: only what is to come."""
    task_id: TaskId | None = None
    follow: bool = False


class _Beginning(Struct, frozen=True):
    """After which frame a stream shows, and after which event it reads."""

    shown: Position
    read: int
    task_id: TaskId | None
    """The task that it is in."""


async def stream_of_sent(
    context: ServerContext, agent: str, sent: SentMessage, slot: StreamSlot, *, is_new: bool
) -> EventStream:
    """Return the stream of the task that a message began, or goes on with.

    A new conversation holds nothing that is not known here, so nothing is read.
    """
    log_id = LogId(sent.session_id)
    frames = ChatFrames(
        _view(context, agent, sent.session_id, task_id=sent.task_id), Position(sent.seq)
    )
    first: list[Frame] = []
    if sent.records:
        first = frames.feed(sent.records)
        tail = LogTail(context.source, log_id, after=sent.records[-1].seq, stored=False)
    elif is_new:
        frames.expect(sent.task_id, sent.message_id)
        tail = LogTail(context.source, log_id, after=sent.seq, stored=False)
    else:
        task = await context.runtime.parts.projections.find_task(sent.task_id)
        begin = sent.seq if task is None else task.first_seq
        tail = LogTail(context.source, log_id, after=begin - 1)
    headers = {"x-conversation-id": sent.session_id, "x-task-id": sent.task_id}
    return EventStream(tail, frames, slot, headers=headers, first=first)


async def stream_of_session(
    context: ServerContext, resume: ResumePosition, slot: StreamSlot
) -> Response:
    """Return the stream of a conversation from where a reader left it; 204 if all is said.

    Raises BadLastEventId, and NotFound for a task of another conversation.
    """
    log_id = LogId(resume.session_id)
    beginning = await _beginning(context, log_id, resume)
    view = _view(
        context, resume.agent, resume.session_id, task_id=resume.task_id, follows=resume.follow
    )
    frames = ChatFrames(view, beginning.shown)
    tail = LogTail(context.source, log_id, after=beginning.read)
    first: list[Frame] = []
    try:
        while tail.is_stored and not first:
            first += frames.feed(await tail.catch_up())
    except BaseException:
        tail.close()
        raise
    if not (first or frames.is_at_work or resume.follow):
        tail.close()
        slot.leave()
        return Response(status_code=NO_CONTENT)
    task_id = frames.task_id or beginning.task_id
    headers: dict[str, str] = {"x-conversation-id": resume.session_id}
    if task_id:
        headers["x-task-id"] = task_id
    return EventStream(tail, frames, slot, headers=headers, first=first)


async def _beginning(context: ServerContext, log_id: LogId, resume: ResumePosition) -> _Beginning:
    parts = context.runtime.parts
    task = None
    if resume.task_id is not None:
        task = await parts.projections.find_task(resume.task_id)
        if task is None or task.log_id != log_id:
            raise NotFound(f"the conversation {log_id!r} has no task {resume.task_id!r}")
    head = await parts.log.head(log_id)
    if resume.last is not None:
        shown = Position.parse(resume.last)
        if shown.seq > head:
            raise BadLastEventId(f"this conversation has come to {head}, not yet to {resume.last}")
        if not shown.is_whole:
            following = await parts.log.read(log_id, after=shown.seq, limit=_NEXT)
            _check_units(shown, following, parts.bus.reply(log_id))
        task = task or await parts.projections.task_at(log_id, shown.seq)
    elif resume.from_now:
        newest = Position(await _before_handed_in(context, log_id, head))
        reply = parts.bus.reply(log_id)
        shown = newest if reply is None else Position(reply.base, reply.units)
        task = task or await parts.projections.task_at(log_id, head)
    elif task is not None:
        shown = Position(task.first_seq)
    else:
        task = await parts.projections.task_at(log_id, head)
        shown = await _start(context, log_id, task)
    if task is None:
        return _Beginning(shown, 0, None)
    return _Beginning(shown, task.first_seq - 1, task.task_id)


def _check_units(shown: Position, following: Sequence[Record], live: LiveReply | None) -> None:
    """Raise BadLastEventId for a place behind the end of a reply, or behind what it has said yet.

    How far a reply has come that another process writes is not known here: any place in it will do.
    """
    units = _end_of(shown.seq, following)
    if units is None and live is not None and live.base == shown.seq:
        units = live.units
    if units is not None and shown.units > units:
        raise BadLastEventId(f"what follows {shown.seq} has come to {shown.seq}.{units}")


def _end_of(seq: int, following: Sequence[Record]) -> int | None:
    """Return how many units follow an event, unless their reply is not whole yet."""
    for record in following:
        match record.event:
            case ReplyReceived() as reply if reply.base == seq:
                return len(reply.reasoning) + len(reply.text) + max(len(reply.calls) - 1, 0)
            case TaskEnded(content=content) if record.seq == seq + 1:
                return len(content)
            case _:
                pass
    return None


async def _before_handed_in(context: ServerContext, log_id: LogId, head: int) -> int:
    """Return the newest event before what people handed in: a model may have been asked there."""
    newest = await context.runtime.parts.log.read(log_id, after=max(head - _NEXT, 0), limit=_NEXT)
    inside = (each.seq for each in reversed(newest) if not isinstance(each.event, _HANDED_IN))
    return next(inside, head)


async def _start(context: ServerContext, log_id: LogId, task: TaskRecord | None) -> Position:
    """Return the place before the newest task, which has started or will."""
    if task is None or task.started_seq is None:
        return Position(0)
    newest, _ = await context.runtime.parts.projections.tasks(log_id=log_id, page=_NEWEST)
    is_newest = not newest or newest[0].task_id == task.task_id
    if task.ended_seq is None or is_newest:
        return Position(task.started_seq - 1)
    return Position(task.ended_seq)


def _view(
    context: ServerContext,
    agent: str,
    session_id: SessionId,
    *,
    task_id: TaskId | None,
    follows: bool = False,
) -> StreamView:
    found = context.runtime.parts.agents.look_up(agent)
    most = (DEFAULTS if found is None else found.settings).max_iterations
    return StreamView(
        session_id=session_id,
        link_to=context.links.of,
        max_iterations=most,
        argument_chars=context.limits.argument_chars,
        only=task_id,
        follows=follows,
    )
