"""Conversations of a program with agents: send messages, wait for replies, attach to tasks."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import aclosing
from hashlib import sha256
from typing import Any, Unpack, overload

from msgspec.structs import replace
from typing_extensions import TypeForm

from penstock.agents.agent import Agent, AnyAgent
from penstock.agents.attachments.content import Content
from penstock.agents.catalog import wrong_agent
from penstock.agents.output_contract import contract_of
from penstock.chat.python.answering import OutputT
from penstock.chat.python.archive import Archive
from penstock.chat.python.mapped import checked_inputs, in_order
from penstock.chat.python.message_options import (
    MessageOptions,
    check_options,
    hash_of,
    metadata_of,
    settings_of,
)
from penstock.chat.python.recorded_task import RecordedTask, form_of
from penstock.chat.python.run import Run, StartingRun
from penstock.chat.requests import NewMessage, RequestKey, answered_by, reply_of
from penstock.core.errors import RuntimeMisuse
from penstock.core.events.events import MessageReceived, Record
from penstock.core.ids import ASSISTANT, TaskId
from penstock.core.json_values.json_text import compact
from penstock.core.late import late
from penstock.core.reply import Reply

_OTHER_LOOP = (
    "this runtime belongs to another event loop, whose results would never arrive here: open one "
    "in this loop, or use penstock.open_sync, which works from every thread"
)
CLOSED = "this runtime is closed: write `async with penstock.open() as runtime: ...` around its use"
_TEXT = RecordedTask(())


class Conversations(Archive):
    """Sends messages to agents."""

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
            **options: See MessageOptions: `session`, `model`, `model_settings`,
                `profile`, `metadata`, `key`.

        Returns:
            The reply.

        Raises:
            NotFound: There is no such agent or conversation.
            InvalidRequest: The content is blank or too long, or a file of it is refused.
            ConfigError: The model is unknown, or its key or library is missing; or `agent` is
                neither an Agent nor a name.
            QuestionOpen: The conversation waits for an answer that this message is not.
            SessionBusy: Too many messages wait in the conversation.
            IdempotencyConflict: The key was used for another message.
            NameTaken: The runtime has another agent of this name.
            RuntimeMisuse: The runtime is closed, or was opened in another event loop.
            NotReady: The runtime was closed meanwhile.
        """
        message, form = await self._message(content, agent, output, options)
        requests = self.requests
        records: list[Record] = []
        task_id, profile = TaskId(self._new_id("task")), options.get("profile") or requests.local
        request = requests.inbox.request_reply(message, profile, task_id)
        reply = await requests.waiter.reply_to(task_id, request, records)
        if _is_whole(records):
            agent_name = answered_by(records, message.agent)
            return reply_of(reply, agent_name, replace(form, records=records))
        return await self._replies.read(reply, form)

    @overload
    def start(
        self,
        content: Content,
        *,
        output: type[OutputT],
        agent: str | AnyAgent = ...,
        **options: Unpack[MessageOptions],
    ) -> StartingRun[OutputT]: ...
    @overload
    def start(
        self,
        content: Content,
        *,
        output: TypeForm[OutputT],
        agent: str | AnyAgent = ...,
        **options: Unpack[MessageOptions],
    ) -> StartingRun[OutputT]: ...
    @overload
    def start(
        self, content: Content, *, agent: Agent[Any, OutputT], **options: Unpack[MessageOptions]
    ) -> StartingRun[OutputT]: ...
    @overload
    def start(
        self, content: Content, *, agent: str = ..., **options: Unpack[MessageOptions]
    ) -> StartingRun[str]: ...
    def start(
        self,
        content: Content,
        *,
        agent: str | AnyAgent = ASSISTANT,
        output: Any = None,
        **options: Unpack[MessageOptions],
    ) -> StartingRun[Any]:
        """Send a message to an agent without waiting for its answer.

        The message is on disk when this returns: from now on the task runs, also if the process
        dies.

        Args:
            content: The message: a text, or a list of texts, `Image`, `Document` and `Audio`.
            agent: An agent, or the name of one that the runtime knows.
            output: The type of the output for this message, instead of the agent's.
            **options: See MessageOptions: `session`, `model`, `model_settings`,
                `profile`, `metadata`, `key`.

        Returns:
            Await it for the run: iterate over its events, or await its `reply`.

        Raises:
            PenstockError: The message was refused; see `chat`.

        Example:
            >>> import asyncio
            >>> from penstock.testing import ScriptedModel, memory_runtime, say
            >>> async def main() -> None:
            ...     async with memory_runtime(model=ScriptedModel([say("Hi.")])) as runtime:
            ...         run = await runtime.start("Hello")
            ...         async for text in run.text():
            ...             print(text)
            >>> asyncio.run(main())
            Hi.
        """
        return StartingRun(self._started(content, agent, output, options))

    async def _started(
        self, content: Content, agent: str | AnyAgent, output: Any, options: MessageOptions
    ) -> Run[Any]:
        message, form = await self._message(content, agent, output, options)
        sent = await self.requests.inbox.send(
            message, options.get("profile") or self.requests.local
        )
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
        form = None if agent is None or output is not None else self._form(agent)
        form = form or RecordedTask((), contract_of(output))
        return Run(self, self._replies, task_id, form)

    @overload
    def map(
        self,
        inputs: Iterable[Content],
        *,
        agent: Agent[Any, OutputT],
        key: str | None = None,
        concurrency: int = 10,
        progress: bool = False,
    ) -> AsyncIterator[Reply[OutputT]]: ...
    @overload
    def map(
        self,
        inputs: Iterable[Content],
        *,
        agent: str = ...,
        key: str | None = None,
        concurrency: int = 10,
        progress: bool = False,
    ) -> AsyncIterator[Reply[str]]: ...
    async def map(
        self,
        inputs: Iterable[Content],
        *,
        agent: str | AnyAgent = ASSISTANT,
        key: str | None = None,
        concurrency: int = 10,
        progress: bool = False,
    ) -> AsyncIterator[Reply[Any]]:
        """Send each input in a conversation of its own, and yield the replies in their order.

        Args:
            inputs: The messages.
            agent: An agent, or the name of one that the runtime knows.
            key: A name of the whole work: a program that does it again, after it was killed, gets
                finished replies from the log (for `limits.idempotency_seconds`).
            concurrency: How many inputs are worked on at once.
            progress: Whether a bar shows on the terminal how many are done.

        Yields:
            The replies, also of tasks that failed or wait.

        Raises:
            PenstockError: A message was refused; see `chat`.
            ConfigError: `concurrency` is below 1.

        Example:
            >>> import asyncio
            >>> from penstock.testing import memory_runtime
            >>> async def main() -> None:
            ...     async with memory_runtime() as runtime:
            ...         replies = runtime.map(["One", "Two"], key="monday")
            ...         print([reply.status async for reply in replies])
            >>> asyncio.run(main())
            ['succeeded', 'succeeded']
        """
        asked, slots = checked_inputs(inputs, concurrency), asyncio.Semaphore(concurrency)

        async def reply_to(number: int) -> Reply[Any]:
            async with slots:
                return await self._reply_to(asked[number], agent, key and f"{key}:{number}")

        replies = in_order(reply_to, len(asked), concurrency=concurrency)
        if progress:
            replies = late("penstock.chat.python.progress:with_bar")(replies, len(asked))
        async with aclosing(replies):
            async for reply in replies:
                yield reply

    async def _reply_to(
        self, content: Content, agent: str | AnyAgent, named: str | None
    ) -> Reply[Any]:
        """Send an input of a map; `named` identifies it among those of the same work."""
        options = MessageOptions()
        if named is not None:
            options["key"] = f"{named}:{await self._fingerprint(content)}"
        reply: Reply[Any] = await self.chat(content, agent=agent, **options)
        return reply

    def put_agent(self, agent: AnyAgent) -> None:
        """Add an agent, or replace the one of its name. Tasks that resume from now on use it.

        Args:
            agent: The agent.

        Raises:
            ConfigError: It hands off to an agent that does not exist.
        """
        self.requests.known.agents.put(agent)

    async def _fingerprint(self, content: Content) -> str:
        """Return the hash of a message's text and files."""
        if isinstance(content, str):
            return sha256(content.encode()).hexdigest()
        known, local = self.requests.known, self.requests.local
        kept = await known.attachments.keep(content, local)
        files = [file.blob_id for file in kept.files]
        return sha256(compact([kept.text, *files]).encode()).hexdigest()

    def _agent(self, agent: str | AnyAgent) -> str:
        """Return the name of an agent that the runtime knows from now on."""
        agents = self.requests.known.agents
        return agents.get(agent).name if isinstance(agent, str) else agents.admit(agent).name

    async def _message(
        self, content: Content, agent: str | AnyAgent, output: Any, options: MessageOptions
    ) -> tuple[NewMessage, RecordedTask]:
        """Return the message, and what reads the output as the program expects it."""
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeMisuse(_OTHER_LOOP if self._loop else CLOSED)
        form = _TEXT if isinstance(agent, str) else self._form(agent)
        if not options and output is None and isinstance(content, str):
            return NewMessage(content=content, agent=self._agent(agent)), form
        check_options(options)
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
            model_settings=settings_of(options),
            output_schema=None if wanted is None else wanted.schema,
            metadata=metadata_of(options),
        )
        if (key := options.get("key")) is not None:
            message = replace(message, idempotency=RequestKey(key, hash_of(message)))
        return message, form if wanted is None else RecordedTask((), wanted)

    def _form(self, agent: AnyAgent) -> RecordedTask:
        """Return what reads the outputs of an agent, and of those that it hands off to."""
        if not isinstance(agent, Agent):
            raise wrong_agent(agent)
        if agent.handoffs:
            return form_of(agent, self.requests.known.agents.find)
        return RecordedTask((), agent.contract) if agent.contract else _TEXT


def _is_whole(records: Sequence[Record]) -> bool:
    """Whether collected events are all of their task: no other process can have added any.

    They are if they begin with its message and follow each other in the log without a gap.
    """
    if not (records and type(records[0].event) is MessageReceived):
        return False
    return records[-1].seq - records[0].seq == len(records) - 1
