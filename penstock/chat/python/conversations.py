"""Conversations of a program with agents: send messages, wait for replies, attach to tasks."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, TypedDict, Unpack, overload

from msgspec.structs import replace
from typing_extensions import TypeForm

from penstock.agents.agent import Agent, AnyAgent
from penstock.agents.attachments.content import Content
from penstock.agents.output_contract import OutputContract, contract_of
from penstock.chat.python.answering import Answering, OutputT
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

    @overload
    async def chat(
        self,
        content: Content,
        *,
        output: type[OutputT],
        agent: str | AnyAgent = ...,
        **options: Unpack[MessageOptions],
    ) -> Reply[OutputT]: ...
    @overload
    async def chat(
        self,
        content: Content,
        *,
        output: TypeForm[OutputT],
        agent: str | AnyAgent = ...,
        **options: Unpack[MessageOptions],
    ) -> Reply[OutputT]: ...
    @overload
    async def chat(
        self, content: Content, *, agent: Agent[Any, OutputT], **options: Unpack[MessageOptions]
    ) -> Reply[OutputT]: ...
    @overload
    async def chat(
        self, content: Content, *, agent: str = ..., **options: Unpack[MessageOptions]
    ) -> Reply[str]: ...
    async def chat(
        self,
        content: Content,
        *,
        agent: str | AnyAgent = ASSISTANT,
        output: Any = None,
        **options: Unpack[MessageOptions],
    ) -> Reply[Any]:
        """Send a message to an agent, and wait for its answer or its question.

        Cancelling the wait does not cancel the task; `Runtime.cancel` does. A task that failed or
        waits is a Reply, too: its `output` raises.

        Args:
            content: The message: a text, or a list of texts, `Image`, `Document` and `Audio`.
            agent: An agent, or the name of one that the runtime knows.
            output: The type of the output for this message, instead of the agent's.
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
        message, contract = await self._message(content, agent, output, options)
        requests, records = self.requests, list[Record]()
        task_id, profile = TaskId(self._new_id("task")), options.get("profile") or requests.local
        request = requests.inbox.request_reply(message, profile, task_id)
        reply = await requests.waiter.reply_to(task_id, request, records)
        if _is_whole(records):
            return reply_of(reply, message.agent, RecordedTask(records, contract))
        return await self._replies.read(reply, RecordedTask((), contract))

    @overload
    async def start(
        self,
        content: Content,
        *,
        output: type[OutputT],
        agent: str | AnyAgent = ...,
        **options: Unpack[MessageOptions],
    ) -> Run[OutputT]: ...
    @overload
    async def start(
        self,
        content: Content,
        *,
        output: TypeForm[OutputT],
        agent: str | AnyAgent = ...,
        **options: Unpack[MessageOptions],
    ) -> Run[OutputT]: ...
    @overload
    async def start(
        self, content: Content, *, agent: Agent[Any, OutputT], **options: Unpack[MessageOptions]
    ) -> Run[OutputT]: ...
    @overload
    async def start(
        self, content: Content, *, agent: str = ..., **options: Unpack[MessageOptions]
    ) -> Run[str]: ...
    async def start(
        self,
        content: Content,
        *,
        agent: str | AnyAgent = ASSISTANT,
        output: Any = None,
        **options: Unpack[MessageOptions],
    ) -> Run[Any]:
        """Send a message to an agent without waiting for its answer.

        The message is on disk when this returns: from now on the task runs, also if the process
        dies.

        Args:
            content: The message: a text, or a list of texts, `Image`, `Document` and `Audio`.
            agent: An agent, or the name of one that the runtime knows.
            output: The type of the output for this message, instead of the agent's.
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
        message, contract = await self._message(content, agent, output, options)
        sent = await self.requests.inbox.send(
            message, options.get("profile") or self.requests.local
        )
        form = RecordedTask((), contract)
        return Run(self, self._replies, sent.task_id, form, session=sent.session_id)

    @overload
    def attach(self, task_id: str, *, output: type[OutputT]) -> Run[OutputT]: ...
    @overload
    def attach(self, task_id: str, *, output: TypeForm[OutputT]) -> Run[OutputT]: ...
    @overload
    def attach(self, task_id: str, *, agent: Agent[Any, OutputT]) -> Run[OutputT]: ...
    @overload
    def attach(self, task_id: str) -> Run[Any]: ...
    def attach(
        self, task_id: str, *, agent: AnyAgent | None = None, output: Any = None
    ) -> Run[Any]:
        """Return a run of a task that was started elsewhere: before a restart, or over HTTP.

        Args:
            task_id: The task.
            agent: Its agent, for the type of the output.
            output: The type of the output; without both, a typed output is read as JSON.

        Returns:
            The run. An unknown task raises NotFound when something is read of it.
        """
        if output is None and agent is None:
            return Run(self, self._replies, task_id, RecordedTask((), is_json=True))
        contract = agent.contract if agent and output is None else contract_of(output)
        return Run(self, self._replies, task_id, RecordedTask((), contract))

    def _agent(self, agent: str | AnyAgent) -> str:
        """Return the name of an agent that the runtime knows from now on."""
        agents = self.requests.known.agents
        return agents.get(agent).name if isinstance(agent, str) else agents.add(agent).name

    async def _message(
        self, content: Content, agent: str | AnyAgent, output: Any, options: MessageOptions
    ) -> tuple[NewMessage, OutputContract | None]:
        """Return the message, and the form of the output that the program expects."""
        contract = None if isinstance(agent, str) else agent.contract
        if not options and output is None and isinstance(content, str):
            return NewMessage(content=content, agent=self._agent(agent)), contract
        if unknown := options.keys() - _OPTIONS:
            name = min(unknown)
            near = did_you_mean(name, [*_OPTIONS, "agent", "output"])
            raise RuntimeMisuse(f"there is no option {name!r} of a message.{near}")
        if (model := options.get("model")) is not None:
            await self.requests.check_model(model)
        wanted = None if output is None else contract_of(output)
        profile = options.get("profile") or self.requests.local
        kept = await self.requests.known.attachments.keep(content, profile)
        message = NewMessage(
            content=kept.text,
            attachments=kept.files,
            agent=self._agent(agent),
            session_id=options.get("session"),
            model=model,
            output_schema=None if wanted is None else wanted.schema,
        )
        if (key := options.get("key")) is not None:
            message = replace(message, idempotency=RequestKey(key, _hash_of(message)))
        return message, wanted or contract


def _hash_of(message: NewMessage) -> str:
    """Return the hash of a message: the same key with another hash is a mistake."""
    said: list[Any] = [message.content, message.agent, message.session_id, message.model]
    said.append(message.output_schema)
    said += [file.blob_id for file in message.attachments]
    return sha256(compact(said).encode()).hexdigest()


def _is_whole(records: Sequence[Record]) -> bool:
    """Whether collected events are all of their task: no other process can have added any.

    Each activation begins with an event. So if the task started here and never resumed, this
    process has committed every event of it.
    """
    has_start = len(records) > 1 and type(records[0].event) is MessageReceived
    return has_start and not any(type(record.event) is TaskResumed for record in records)
