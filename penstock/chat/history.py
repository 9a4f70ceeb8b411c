"""The history of a conversation as messages of the API: what people see, or what the model saw."""

from collections.abc import AsyncIterator, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from penstock.chat.recorded.task_records import first_record, records_of
from penstock.chat.wire_forms import (
    Attachments,
    LinkTo,
    attached_part,
    call_part,
    output_part,
    result_part,
)
from penstock.core.clock import Moment, to_iso
from penstock.core.errors import NotFound
from penstock.core.events.events import (
    CallSettled,
    MessageReceived,
    Record,
    ReplyReceived,
    TaskEnded,
    TaskStarted,
)
from penstock.core.events.flow_events import HandedOff
from penstock.core.events.roles import SubagentFilter
from penstock.core.ids import CallId, LogId, MessageId, SessionId, TaskId
from penstock.core.messages import ToolMessage, UserMessage
from penstock.core.task import TaskRecord
from penstock.engine.dialogue import SUMMARY, MessageList
from penstock.engine.session_state import SessionState, catch_up
from penstock.store.logs.log import Log
from penstock.store.projections import Page, Projections

_PAGE_SIZE = 50
_EVENTS = 1_000
"""Events that are read at once to find out what the model reads."""
Message = dict[str, Any]


class HistoryView(StrEnum):
    """How a history shows messages."""

    CHAT = "chat"
    """Messages of people, one answer each."""
    FULL = "full"
    """Every message as the model reads it now: shortened, after a summary."""


class HistoryRange(Struct, frozen=True, kw_only=True):
    """The part of a history that is requested."""

    view: HistoryView = HistoryView.CHAT
    limit: int = 50
    before: MessageId | None = None
    """Only messages that are older than this one."""
    search: str = ""
    """Only messages that contain this text; case is ignored."""


class HistoryPart(Struct, frozen=True):
    """A part of a history, oldest first."""

    messages: Sequence[Message]
    total: int
    has_more: bool


class SeenByModel(Struct, frozen=True):
    """How the model reads a conversation now, where that is not what its events have."""

    gone: frozenset[TaskId] = frozenset()
    """The tasks that were left out, or that a summary replaces."""
    summarised: tuple[TaskId, ...] = ()
    """Those that the summary replaces."""
    summary: str = ""
    asked: dict[TaskId, str] = field(default_factory=dict)
    """The message of each task, as hooks and commands left it."""
    results: dict[CallId, str] = field(default_factory=dict)
    """The result of each call, whole or as a preview."""

    @classmethod
    def from_messages(cls, messages: MessageList) -> "SeenByModel":
        """Return how a model reads these messages."""
        entries, boundaries = messages.entries, messages.boundaries
        firsts = [(each, entries[each.index]) for each in boundaries if each.index < len(entries)]
        texts = {
            each.task_id: first.content for each, first in firsts if isinstance(first, UserMessage)
        }
        results = {each.call_id: each.content for each in entries if isinstance(each, ToolMessage)}
        summary = texts.pop(SUMMARY, "")
        return cls(messages.gone, messages.summarised, summary, texts, results)


AS_STORED = SeenByModel()


class TaskMessages(Struct):
    """The messages of one task of a conversation so far."""

    task: TaskRecord
    brief: MessageReceived | None = None
    supersedes: TaskId | None = None
    """The task that it replaced. It stays replaced when its message is erased."""
    model: str | None = None
    agent: str = ""
    """The agent that answers; empty for the one that the conversation started with."""
    is_command: bool = False
    replies: list[ReplyReceived] = field(default_factory=list)
    settled: dict[CallId, CallSettled] = field(default_factory=dict)
    attachments: Attachments = field(default_factory=Attachments)
    end: TaskEnded | None = None
    asked_at: Moment | None = None
    ended_at: Moment | None = None
    subagents: SubagentFilter = field(default_factory=SubagentFilter)

    def add(self, record: Record) -> None:
        """Add one event of the task; events of subagents are not the chat's."""
        if self.subagents.has(record.event, record.path):
            return
        match record.event:
            case MessageReceived() as brief:
                self.supersedes = brief.supersedes
                if brief.message_id:
                    self.brief, self.asked_at = brief, record.at
            case ReplyReceived() as reply:
                self.replies.append(reply)
            case CallSettled(call_id=call_id) as settled:
                self.attachments.add(settled)
                if call_id is not None:
                    self.settled[call_id] = settled
            case TaskEnded() as end:
                self.end, self.ended_at = end, record.at
            case TaskStarted(model=model, command=command, agent=agent):
                self.model, self.is_command = model or self.model, bool(command)
                self.agent = agent
            case HandedOff(agent=agent, model=model):
                self.agent, self.model = agent, model or self.model
            case _:
                self.model = getattr(record.event, "model", None) or self.model


class History:
    """The messages of conversations, newest pages first."""

    def __init__(self, log: Log, projections: Projections, link_to: LinkTo) -> None:
        self._log = log
        self._projections = projections
        self._link_to = link_to

    async def page(self, session_id: SessionId, requested: HistoryRange) -> HistoryPart:
        """Return the newest messages of the requested part.

        The chat view without a search reads back only as far as the page needs; the others read
        every task, to count. A gap among the events that were read, or a missing first event of the
        log, raises StoreCorrupt: a part is never shown as the whole. Raises NotFound for an unknown
        `before`.
        """
        oldest = head = await self._log.head(LogId(session_id))
        await self._log.check(LogId(session_id), after=0, until=min(head, 1))
        backwards: list[Message] = []
        total, is_reached = 0, requested.before is None
        counts, seen = await self._count(session_id, requested), AS_STORED
        if requested.view is HistoryView.FULL:
            seen = SeenByModel.from_messages((await self._folded(LogId(session_id))).messages)
        async for task_messages in self._tasks(session_id):
            messages = self._fitting(task_messages, requested, seen)
            total += len(messages)
            for message in reversed(messages):
                if is_reached:
                    backwards.append(message)
                is_reached = is_reached or message.get("id") == requested.before
            oldest = min(oldest, task_messages.task.first_seq)
            if counts is not None and is_reached and len(backwards) > requested.limit:
                break
        if seen.summary and _has(seen.summary, requested.search):
            total += 1
            metadata = {"summaryOf": list(seen.summarised)}
            summary = {"role": "user", "content": seen.summary, "metadata": metadata}
            backwards += [summary] if is_reached else []
        await self._log.check(LogId(session_id), after=oldest - 1, until=head)
        if not is_reached:
            raise NotFound(f"there is no message {requested.before!r} in {session_id!r}")
        newest = backwards[: requested.limit]
        return HistoryPart(
            newest[::-1], total if counts is None else counts, len(backwards) > requested.limit
        )

    async def of_task(self, task: TaskRecord) -> TaskMessages:
        """Return the messages of a task so far; a message that is answered again keeps its time."""
        task_messages = await self._read(task)
        replaced = task_messages.supersedes
        while (
            replaced is not None
            and (before := await self._projections.find_task(replaced)) is not None
        ):
            first = await first_record(self._log, before)
            task_messages.asked_at, replaced = first.at, getattr(first.event, "supersedes", None)
        return task_messages

    def user(self, task_messages: TaskMessages) -> Message | None:
        """Return the person's message, or None if it was erased."""
        brief, end = task_messages.brief, task_messages.end
        if brief is None:
            return None
        metadata: dict[str, Any] = {"taskId": task_messages.task.task_id}
        if end is not None and end.error is not None:
            metadata["error"] = {"code": end.error.code, "message": end.error.message}
        return {
            "id": brief.message_id,
            "role": "user",
            "content": brief.content,
            "conversationId": task_messages.task.log_id,
            "createdAt": to_iso(task_messages.asked_at or task_messages.task.created_at),
            "toolCalls": None,
            "toolResults": None,
            "metadata": metadata,
            **self._attached(brief),
        }

    def _attached(self, brief: MessageReceived) -> Message:
        attached = [attached_part(each, self._link_to) for each in brief.attachments]
        return {"attachments": attached} if attached else {}

    def answer(self, task_messages: TaskMessages) -> Message | None:
        """Return the answer, if there is one."""
        end = task_messages.end
        if end is None or end.message_id is None:
            return None
        calls = [call for reply in task_messages.replies for call in reply.calls]
        attached = task_messages.attachments.parts(self._link_to)
        settled = [
            task_messages.settled[each.call_id]
            for each in calls
            if each.call_id in task_messages.settled
        ]
        return {
            "id": end.message_id,
            "role": "assistant",
            "content": end.content,
            "conversationId": task_messages.task.log_id,
            "createdAt": to_iso(task_messages.ended_at or task_messages.task.created_at),
            "toolCalls": [call_part(each) for each in calls] or None,
            "toolResults": [result_part(each, self._link_to) for each in settled] or None,
            **output_part(end),
            "metadata": {
                "model": task_messages.model,
                **({"agentId": task_messages.agent} if task_messages.agent else {}),
                "taskId": task_messages.task.task_id,
                "finishReason": end.finish_reason,
                "iterations": end.iterations,
                "usage": end.usage.to_wire(),
                **({"attachments": attached} if attached else {}),
            },
        }

    async def _tasks(self, session_id: SessionId) -> AsyncIterator[TaskMessages]:
        """Yield the tasks of a conversation, newest first, without those that were superseded."""
        log_id, offset = LogId(session_id), 0
        replaced: TaskId | None = None
        while True:
            page = Page(limit=_PAGE_SIZE, offset=offset)
            tasks, _ = await self._projections.tasks(log_id=log_id, page=page)
            for task in tasks:
                if replaced is None and task.kind == "message":
                    task_messages = await self.of_task(task)
                    replaced = task_messages.supersedes
                    yield task_messages
                elif task.task_id == replaced:
                    replaced = (await self._read(task)).supersedes
            if len(tasks) < _PAGE_SIZE:
                return
            offset += _PAGE_SIZE

    async def _read(self, task: TaskRecord) -> TaskMessages:
        task_messages = TaskMessages(task)
        for record in await records_of(self._log, task):
            task_messages.add(record)
        return task_messages

    async def _folded(self, log_id: LogId) -> SessionState:
        """Return the state after all events of a log."""
        state = SessionState(log_id)
        while records := await self._log.read(log_id, after=state.seq, limit=_EVENTS):
            catch_up(state, records)
        return state

    async def _count(self, session_id: SessionId, requested: HistoryRange) -> int | None:
        """Return the number of messages, or None if they must be read to count them."""
        if requested.view is HistoryView.FULL or requested.search:
            return None
        session = await self._projections.find_session(session_id)
        return session.message_count if session else 0

    def _fitting(
        self, task_messages: TaskMessages, requested: HistoryRange, seen: SeenByModel
    ) -> list[Message]:
        if requested.view is HistoryView.FULL:
            messages = self._full(task_messages, seen)
        else:
            both = (self.user(task_messages), self.answer(task_messages))
            messages = [each for each in both if each is not None]
        return [each for each in messages if _has(each["content"] or "", requested.search)]

    def _full(self, task_messages: TaskMessages, seen: SeenByModel) -> list[Message]:
        messages: list[Message] = []
        task_id = task_messages.task.task_id
        if task_id in seen.gone:
            return messages
        if (user := self.user(task_messages)) is not None:
            messages.append(_plain(user) | {"content": seen.asked.get(task_id, user["content"])})
        for reply in () if task_messages.is_command else task_messages.replies:
            if reply.calls:
                calls = [call_part(each) for each in reply.calls]
                content = reply.text or None
                messages.append({"role": "assistant", "content": content, "toolCalls": calls})
            for call in reply.calls:
                if settled := task_messages.settled.get(call.call_id):
                    content = seen.results.get(call.call_id, settled.context or "")
                    tool = {"role": "tool", "toolCallId": call.call_id, "content": content}
                    messages.append(tool)
        if (answer := self.answer(task_messages)) is not None:
            messages.append(_plain(answer))
        return messages


def _has(text: str, search: str) -> bool:
    return search.casefold() in text.casefold()


def _plain(message: Message) -> Message:
    """Return a message as the model saw it, without its calls."""
    names = ("id", "role", "content", "createdAt", "attachments")
    return {key: message[key] for key in names if key in message}
