"""Conversations of a program with agents: send messages, wait for replies, attach to tasks."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, TypedDict, Unpack

from msgspec.structs import replace

from penstock.agents.agent import AnyAgent
from penstock.agents.attachments.content import Content
from penstock.chat.python.answering import Answering
from penstock.chat.python.recorded_task import RecordedTask
from penstock.chat.python.run import Run
from penstock.chat.requests import NewMessage, RequestKey, reply_of
from penstock.chat.task_requests import Requests
from penstock.core.diagnostics import did_you_mean
from penstock.core.errors import RuntimeMisuse
from penstock.core.events.events import MessageReceived, Record, TaskResumed
from penstock.core.ids import ASSISTANT, TaskId
from penstock.core.json_values.json_text import compact
from penstock.core.profile import Profile
from penstock.core.reply import Reply


class MessageOptions(TypedDict, total=False):
    """Options of one message: data only, because a restart must know them.

    Example:
        >>> from penstock import MessageOptions
        >>> options: MessageOptions = {"model": "openai:gpt-5", "key": "order-7"}
        >>> options["key"]
        'order-7'
    """

    session: str | None
    """The conversation to continue; None starts one."""
    model: str | None
    """`provider:model` or a configured name, for this message; None means the agent's model."""
    profile: Profile | None
    """The profile that the work is for; None means `runtime.local`."""
    key: str
    """An idempotency key: the same message with the same key is the same task."""


_OPTIONS = MessageOptions.__optional_keys__


class Conversations(Answering):
    """Sends messages to agents."""

    def __init__(self, requests: Requests, new_id: Callable[[str], str]) -> None:
        super().__init__(requests)
        self._new_id = new_id

    async def chat(
        self,
        content: Content,
        *,
        agent: str | AnyAgent = ASSISTANT,
        **options: Unpack[MessageOptions],
    ) -> Reply[str]:
        """Send a message to an agent, and wait for its answer or its question.

        Cancelling the wait does not cancel the task; `Runtime.cancel` does. A task that failed or
        waits is a Reply, too: its `output` raises.

        Args:
            content: The message: a text, or a list of texts, `Image`, `Document` and `Audio`.
            agent: An agent, or the name of one that the runtime knows.
            **options: See MessageOptions: `session`, `model`, `profile`, `key`.

        Returns:
            The reply.

        Raises:
            NotFound: There is no such agent or conversation.
            InvalidRequest: The content is blank or too long, or a file of it is refused.
            ConfigError: The model is unknown, or its key or library is missing.
            QuestionOpen: The conversation waits for an answer that this message is not.
            SessionBusy: Too many messages wait in the conversation.
            IdempotencyConflict: The key was used for another message.
            NameTaken: The runtime has another agent of this name.
        """
        message = await self._message(content, agent, options)
        requests, records = self.requests, list[Record]()
        task_id, profile = TaskId(self._new_id("task")), options.get("profile") or requests.local
        request = requests.inbox.request_reply(message, profile, task_id)
        reply = await requests.waiter.reply_to(task_id, request, records)
        if _is_whole(records):
            return reply_of(reply, message.agent, RecordedTask(records))
        return await self._replies.read(reply)

    async def start(
        self,
        content: Content,
        *,
        agent: str | AnyAgent = ASSISTANT,
        **options: Unpack[MessageOptions],
    ) -> Run[str]:
        """Send a message to an agent without waiting for its answer.

        The message is on disk when this returns: from now on the task runs, also if the process
        dies.

        Args:
            content: The message: a text, or a list of texts, `Image`, `Document` and `Audio`.
            agent: An agent, or the name of one that the runtime knows.
            **options: See MessageOptions: `session`, `model`, `profile`, `key`.

        Returns:
            The run: iterate over its events, or await its `reply`.

        Raises:
            PenstockError: The message was refused; see `chat`.

        Example:
            >>> import asyncio
            >>> from penstock.models.scripted import ScriptedModel, say
            >>> from penstock.testing.runtime import memory_runtime
            >>> async def main() -> None:
            ...     async with memory_runtime(model=ScriptedModel([say("Hi.")])) as runtime:
            ...         run = await runtime.start("Hello")
            ...         async for text in run.text():
            ...             print(text)
            >>> asyncio.run(main())
            Hi.
        """
        message = await self._message(content, agent, options)
        sent = await self.requests.inbox.send(
            message, options.get("profile") or self.requests.local
        )
        return Run(self, self._replies, sent.task_id, sent.session_id)

    def attach(self, task_id: str, *, agent: AnyAgent | None = None) -> Run[Any]:
        """Return a run of a task that was started elsewhere: before a restart, or over HTTP.

        Args:
            task_id: The task.
            agent: Its agent, for the type of the output.

        Returns:
            The run. An unknown task raises NotFound when something is read of it.
        """
        return Run(self, self._replies, task_id)

    def _agent(self, agent: str | AnyAgent) -> str:
        """Return the name of an agent that the runtime knows from now on."""
        agents = self.requests.known.agents
        return agents.get(agent).name if isinstance(agent, str) else agents.add(agent).name

    async def _message(
        self, content: Content, agent: str | AnyAgent, options: MessageOptions
    ) -> NewMessage:
        if not options and isinstance(content, str):
            return NewMessage(content=content, agent=self._agent(agent))
        if unknown := options.keys() - _OPTIONS:
            name = min(unknown)
            near = did_you_mean(name, [*_OPTIONS, "agent"])
            raise RuntimeMisuse(f"there is no option {name!r} of a message.{near}")
        model, key = options.get("model"), options.get("key")
        if model is not None:
            await self.requests.check_model(model)
        profile = options.get("profile") or self.requests.local
        kept = await self.requests.known.attachments.keep(content, profile)
        message = NewMessage(
            content=kept.text,
            attachments=kept.files,
            agent=self._agent(agent),
            session_id=options.get("session"),
            model=model,
        )
        if key is None:
            return message
        return replace(message, idempotency=RequestKey(key, _hash_of(message)))


def _hash_of(message: NewMessage) -> str:
    """Return the hash of a message: the same key with another hash is a mistake."""
    said = [message.content, message.agent, message.session_id, message.model]
    said += [file.blob_id for file in message.attachments]
    return sha256(compact(said).encode()).hexdigest()


def _is_whole(records: Sequence[Record]) -> bool:
    """Whether collected events are all of their task: no other process can have added any.

    Each activation begins with an event. So if the task started here and never resumed, this
    process has committed every event of it.
    """
    has_start = len(records) > 1 and type(records[0].event) is MessageReceived
    return has_start and not any(type(record.event) is TaskResumed for record in records)
