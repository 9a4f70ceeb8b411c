"""The conversations that are on disk: list them, read, import and delete them.

An import writes a whole conversation at once, and holds its lease meanwhile: a message without its
end would be work for the next process. A program that is killed in it leaves either all messages or
an empty conversation.

Shown by tests/chat/python/test_archive.py.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from penstock.agents.agent import AnyAgent
from penstock.agents.catalog import name_of
from penstock.chat.python.answering import Answering
from penstock.chat.python.imported_turns import read_turns
from penstock.chat.python.recorded_task import RecordedTask
from penstock.chat.recorded.fork import Fork, ForkRequest
from penstock.chat.recorded.task_records import records_of
from penstock.chat.requests import title_of
from penstock.chat.task_requests import Requests
from penstock.core.clock import Moment
from penstock.core.errors import ConfigError, NotFound, SessionBusy
from penstock.core.events.events import Entry, MessageReceived, Record, SessionOpened, TaskStarted
from penstock.core.ids import ASSISTANT, LogId, MessageId, NewId, SessionId, TaskId
from penstock.core.json_values.json_text import parse_json
from penstock.core.reply import Message, ToolCall
from penstock.core.task import SessionRecord, TaskRecord
from penstock.store.logs.log import Lease
from penstock.store.projections import Page

_PAGE = Page(limit=500)
_OPENED = 1
"""The number of the event that opens a conversation."""


class Session(Struct, frozen=True, kw_only=True):
    """A conversation as `Runtime.sessions` lists it.

    Example:
        >>> from datetime import UTC, datetime
        >>> from penstock import Session
        >>> now = datetime(2026, 11, 23, tzinfo=UTC)
        >>> Session(id="conv_1", agent="clerk", title="Hello", created_at=now, updated_at=now).title
        'Hello'
    """

    id: str
    """`conv_…`; pass it to `Runtime.chat` to continue."""
    agent: str
    """The name of its agent."""
    title: str
    """The beginning of its first message."""
    created_at: datetime
    """When it began."""
    updated_at: datetime
    """When something last happened in it."""
    messages: int = 0
    """How many messages it has, answers included."""


class Archive(Answering):
    """Lists, reads, imports and deletes conversations."""

    def __init__(self, requests: Requests, new_id: NewId) -> None:
        super().__init__(requests)
        self._new_id = new_id
        self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        """None once the runtime is closed."""

    async def sessions(
        self, *, agent: str | AnyAgent | None = None, limit: int = 100
    ) -> Sequence[Session]:
        """Return the conversations of the runtime's profile, the newest first.

        Args:
            agent: Only those with this agent.
            limit: At most so many.

        Returns:
            The conversations.
        """
        name = agent if agent is None else name_of(agent)
        records, _ = await self.requests.known.projections.sessions(
            profile_id=self.requests.local.profile_id, agent=name, page=Page(limit=limit)
        )
        return [_shown(each) for each in records]

    async def history(self, session: str) -> Sequence[Message]:
        """Return the messages of a conversation, the oldest first.

        Messages that were answered again are returned once, with the newest answer; erased ones are
        left out.

        Args:
            session: The conversation.

        Returns:
            Each message of a person, and each answer with its calls.

        Raises:
            NotFound: There is no such conversation.
        """
        await self._session(session)
        projections, log = self.requests.known.projections, self.requests.source.log
        tasks, page = list[TaskRecord](), _PAGE
        while True:
            found, _ = await projections.tasks(log_id=LogId(session), page=page)
            tasks += found
            if len(found) < page.limit:
                break
            page = Page(limit=page.limit, offset=page.offset + page.limit)
        shown: dict[TaskId, tuple[Message, ...]] = {}
        for task in sorted(tasks, key=lambda each: each.first_seq):
            records = await records_of(log, task)
            brief = records[0].event if records else None
            if isinstance(brief, MessageReceived):
                while brief.supersedes in shown:
                    shown.popitem()
                shown[task.task_id] = RecordedTask(records).messages()
        return [message for messages in shown.values() for message in messages]

    async def read_output(self, call: ToolCall) -> Any:
        """Return the whole output of a call, also of one that is too long to be in a reply.

        Args:
            call: A call of `Reply.calls` or of a `ToolReturned`.

        Returns:
            Its output; None if it failed.

        Raises:
            NotFound: The output was erased.
        """
        if (stored := call.stored) is None:
            return call.output
        text = (await self.requests.known.blobs.get(stored.blob_id)).decode()
        return text if stored.is_text else parse_json(text)

    async def fork(
        self,
        task_id: str,
        *,
        at: int,
        agent: str | None = None,
        title: str | None = None,
        content: str | None = None,
    ) -> Fork:
        """Continue a copy of a task from an event in its middle; the task itself stays as it is.

        Calls with an outcome do not run again, and an open question is asked again. The files and
        values of the conversation and the task are not copied.

        Args:
            task_id: The task.
            at: The number of the newest event that the copy has; `penstock tasks show` lists them.
            agent: Another agent that continues; only if `at` is the task's message.
            title: The title of the new conversation.
            content: Another text of the message; only if `at` is the task's message.

        Returns:
            The new task, which runs: `attach` to it. It does not undo the writes in `effects`.

        Raises:
            NotFound: There is no such task or agent.
            InvalidRequest: The event is not one of the task, or a change does not fit it.
            TextErased: Something of the conversation was erased.
        """
        wanted = ForkRequest(seq=at, agent=agent, title=title, content=content)
        return await self.requests.fork(task_id, wanted)

    async def retry(self, task_id: str, *, resume: bool = False) -> str:
        """Start a task again that failed or was cancelled.

        Args:
            task_id: The task.
            resume: Continue a copy of the task before its failure: calls with an outcome do not run
                again. Otherwise nothing is taken over.

        Returns:
            The id of the new task, which runs: `attach` to it. The same request again returns the
            same task, unless that failed, too.

        Raises:
            NotFound: There is no such task.
            TaskRunning: The task has not ended.
            TaskOver: The task succeeded.
            SessionBusy: The conversation went on after the task.
            TextErased: Something of the task was erased.
            InvalidRequest: The task is an undo, or `resume` is given for a child.
        """
        return (await self.requests.retry(task_id, resumes=resume)).task_id

    async def hand_back(self, session: str) -> str:
        """Give a conversation back to the agent that handed it off.

        Args:
            session: The conversation. None of its tasks may be running.

        Returns:
            The name of the agent that answers the next message. Without a hand-off nothing changes.

        Raises:
            NotFound: There is no such conversation.
            SessionBusy: A task of the conversation has not ended.
        """
        return await self.requests.hand_back(session)

    async def delete(self, session: str) -> None:
        """Delete a conversation: its work is cancelled, and its contents are erased from the disk.

        Args:
            session: The conversation.

        Raises:
            NotFound: There is no such conversation.
            ConfigError: The runtime has no database, as in tests in memory.
        """
        record, known = await self._session(session), self.requests.known
        if known.erasure is None:
            raise ConfigError("conversations in memory cannot be deleted: open a project instead")
        await known.directory.delete(record, known.erasure)

    async def import_history(
        self,
        messages: Iterable[Message | Mapping[str, Any]],
        *,
        agent: str | AnyAgent = ASSISTANT,
    ) -> str:
        """Begin a conversation with messages of another system, or of another conversation.

        Args:
            messages: Messages of `history`, or of the chat API of OpenAI: `{"role": "user",
                "content": "…"}`, with calls and their results. Messages with the role `system` are
                left out, because an agent has its own instructions.
            agent: The agent that continues.

        Returns:
            The conversation; pass it to `Runtime.chat` as `session`.

        Raises:
            InvalidRequest: A message has another shape, or a call has no result.
            NotFound: There is no such agent.
        """
        known, local = self.requests.known, self.requests.local
        name = known.agents.get(agent).name if isinstance(agent, str) else name_of(agent)
        turns = read_turns(messages)
        session, log = LogId(self._new_id("conv")), self.requests.source.log
        title = title_of(turns[0].text)
        opened = SessionOpened(profile_id=local.profile_id, agent=name, title=title)
        entries: list[Entry] = []
        for turn in turns:
            task_id, message_id = TaskId(self._new_id("task")), MessageId(self._new_id("msg"))
            received = MessageReceived(
                message_id=message_id, content=turn.text, permissions=local.noted
            )
            entries += [Entry(received, task_id), Entry(TaskStarted(), task_id)]
            entries += turn.entries(task_id, _OPENED + len(entries), self._new_id)
        lease = await self._begin(session, opened)
        written: Sequence[Record] = ()
        try:
            # One write: a message without its end would be work for the next process.
            written = await log.append(lease, entries)
            await log.release(lease, head=written[-1].seq)
        finally:
            if not written:
                await log.surrender(lease)
        return session

    async def _begin(self, session: LogId, opened: SessionOpened) -> Lease:
        """Create the log of an imported conversation, and hold it. Raises SessionBusy."""
        log, owner = self.requests.source.log, self.requests.known.owner
        started = await log.begin(session, [Entry(opened)], owner, head=0)
        if started is None:
            raise SessionBusy("the conversation could not be written: try again")
        return started[0]

    async def _session(self, session: str) -> SessionRecord:
        """Return the record of a conversation. Raises NotFound."""
        record = await self.requests.known.projections.find_session(SessionId(session))
        if record is None:
            raise NotFound(f"there is no conversation {session!r}")
        return record


def _shown(record: SessionRecord) -> Session:
    return Session(
        id=record.session_id,
        agent=record.agent,
        title=record.title,
        created_at=_time(record.created_at),
        updated_at=_time(record.updated_at),
        messages=record.message_count,
    )


def _time(moment: Moment) -> datetime:
    return datetime.fromtimestamp(moment / 1000, UTC)
