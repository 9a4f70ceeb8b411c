"""The start of a conversation's stream: after a message, or after the reader's last frame.

Guarantees that a reader that resumes with any id it received misses no frame and gets none twice.
Frames are a fold from the start of a task (`wire.ChatFrames`), so the stream is read from the first
event of the task that contains the position, and shown from the position. An id that the
conversation has not reached yet is refused (BadLastEventId): it would hide frames until then.

Tests: tests/server/routes/test_session_stream.py.
"""

from collections.abc import Sequence

from msgspec import Struct
from starlette.responses import Response

from penstock.app.runtime_parts import Storage
from penstock.chat.log_follower import LogTail
from penstock.chat.requests import SentMessage
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
from penstock.store.projections import Page

NO_CONTENT = 204
_NEWEST = Page(limit=1)
_WITHOUT_FRAMES = (MessageReceived, CancelRequested)
"""Events without a frame that can arrive while the model replies."""
_SEARCHED = 100
"""How many events are searched for the reply that follows an event."""


class ResumePosition(Struct, frozen=True, kw_only=True):
    """The position from which a reader resumes."""

    session_id: SessionId
    agent: str
    last: str | None = None
    """The id of the last frame that the reader has."""
    from_now: bool = False
    """Without an id: only future frames."""
    task_id: TaskId | None = None
    follow: bool = False


class _Beginning(Struct, frozen=True):
    """The frame after which a stream shows, and the event after which it reads."""

    shown: Position
    read: int
    task_id: TaskId | None
    """The task that contains the position."""


async def stream_of_sent(
    context: ServerContext, agent: str, sent: SentMessage, slot: StreamSlot, *, is_new: bool
) -> EventStream:
    """Return the stream of the task that a message started or continues.

    For a new conversation nothing is read: the message is its only event.
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
        task = await context.storage.projections.find_task(sent.task_id)
        begin = sent.seq if task is None else task.first_seq
        tail = LogTail(context.source, log_id, after=begin - 1)
    headers = {"x-conversation-id": sent.session_id, "x-task-id": sent.task_id}
    return EventStream(tail, frames, slot, headers=headers, first=first)


async def stream_of_session(
    context: ServerContext, resume: ResumePosition, slot: StreamSlot
) -> Response:
    """Return the stream of a conversation from a position; 204 if nothing is left to show.

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
    storage, bus = context.storage, context.engine.bus
    task = None
    if resume.task_id is not None:
        task = await storage.projections.find_task(resume.task_id)
        if task is None or task.log_id != log_id:
            raise NotFound(f"the conversation {log_id!r} has no task {resume.task_id!r}")
    head = await storage.log.head(log_id)
    if resume.last is not None:
        shown = Position.parse(resume.last)
        if shown.seq > head:
            raise BadLastEventId(f"this conversation is at event {head}, before {resume.last}")
        if not shown.is_whole:
            following = await storage.log.read(log_id, after=shown.seq, limit=_SEARCHED)
            _check_units(shown, following, bus.reply(log_id))
        task = task or await storage.projections.task_at(log_id, shown.seq)
    elif resume.from_now:
        newest = Position(await _newest_with_frames(context.storage, log_id, head))
        reply = bus.reply(log_id)
        shown = newest if reply is None else Position(reply.base, reply.units)
        task = task or await storage.projections.task_at(log_id, head)
    elif task is not None:
        shown = Position(task.first_seq)
    else:
        task = await storage.projections.task_at(log_id, head)
        shown = await _start(context.storage, log_id, task)
    if task is None:
        return _Beginning(shown, 0, None)
    return _Beginning(shown, task.first_seq - 1, task.task_id)


def _check_units(shown: Position, following: Sequence[Record], live: LiveReply | None) -> None:
    """Raise BadLastEventId for a position after the end of a reply, or after its newest text.

    The progress of a reply that another process writes is unknown: every position is accepted.
    """
    units = _end_of(shown.seq, following)
    if units is None and live is not None and live.base == shown.seq:
        units = live.units
    if units is not None and shown.units > units:
        raise BadLastEventId(f"the reply after {shown.seq} is at {shown.seq}.{units}")


def _end_of(seq: int, following: Sequence[Record]) -> int | None:
    """Return how many units the reply after an event has; None while it is incomplete."""
    for record in following:
        match record.event:
            case ReplyReceived() as reply if reply.base == seq:
                return len(reply.reasoning) + len(reply.text) + max(len(reply.calls) - 1, 0)
            case TaskEnded(content=content) if record.seq == seq + 1:
                return len(content)
            case _:
                pass
    return None


async def _newest_with_frames(storage: Storage, log_id: LogId, head: int) -> int:
    """Return the newest event with frames: a model's reply may follow it."""
    newest = await storage.log.read(log_id, after=max(head - _SEARCHED, 0), limit=_SEARCHED)
    inside = (each.seq for each in reversed(newest) if not isinstance(each.event, _WITHOUT_FRAMES))
    return next(inside, head)


async def _start(storage: Storage, log_id: LogId, task: TaskRecord | None) -> Position:
    """Return the position before the newest task, started or queued."""
    if task is None or task.started_seq is None:
        return Position(0)
    newest, _ = await storage.projections.tasks(log_id=log_id, page=_NEWEST)
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
    iterations_of = context.chat.agents.iterations_of
    return StreamView(
        session_id=session_id,
        link_to=context.links.to_file,
        max_iterations=iterations_of(agent),
        only=task_id,
        follows=follows,
        iterations_of=iterations_of,
    )
