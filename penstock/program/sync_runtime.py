"""The runtime of a program without async: the methods of Runtime, without `await`.

How: a project is opened in a thread with an event loop of its own; see
`program/sync_run`. Shown by tests/program/test_sync_runtime.py.
"""

import atexit
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar, Unpack, overload

from typing_extensions import TypeForm

from penstock.agents.agent import Agent, AnyAgent
from penstock.agents.attachments.content import Content
from penstock.app.runtime import Runtime
from penstock.chat.python.message_options import MessageOptions
from penstock.core.envelope import Envelope
from penstock.core.errors import RuntimeMisuse
from penstock.core.ids import ASSISTANT
from penstock.core.reply import Reply
from penstock.program.sync_answering import SyncAnswering
from penstock.program.sync_run import LoopThread, SyncRun, each_in

OutputT = TypeVar("OutputT")
Value = TypeVar("Value")


class SyncRuntime(SyncAnswering):
    """One open project, for scripts, notebooks and frameworks without async.

    `penstock.open_sync` makes one. Its methods are those of Runtime, without `await`: they may be
    called from any thread, also inside a running event loop, and wait for the result. Use it in
    `with`, or call `close`; at the latest it is closed when the program ends.

    Example:
        >>> from penstock import open_sync
        >>> with open_sync(":memory:") as runtime:
        ...     reply = runtime.chat("Hello")
        ...     print(reply.status)
        succeeded
    """

    def __init__(self, opening: Awaitable[Runtime]) -> None:
        thread = LoopThread()
        try:
            super().__init__(thread.do(_opened(opening)), thread)
        except BaseException:
            thread.close()
            raise
        atexit.register(self.close)

    def __enter__(self) -> Self:
        """Return the runtime."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    async def __aenter__(self) -> NoReturn:
        """Refuse `async with`, and close it."""
        self.close()
        raise RuntimeMisuse(
            "write `with penstock.open_sync() as runtime: ...`, or `async with penstock.open() as "
            "runtime: ...` in async code"
        )

    async def __aexit__(self, *_: object) -> None:
        """Do nothing."""

    @overload
    def chat(
        self,
        content: Content,
        *,
        output: type[OutputT],
        agent: str | AnyAgent = ...,
        **options: Unpack[MessageOptions],
    ) -> Reply[OutputT]: ...
    @overload
    def chat(
        self,
        content: Content,
        *,
        output: TypeForm[OutputT],
        agent: str | AnyAgent = ...,
        **options: Unpack[MessageOptions],
    ) -> Reply[OutputT]: ...
    @overload
    def chat(
        self, content: Content, *, agent: Agent[Any, OutputT], **options: Unpack[MessageOptions]
    ) -> Reply[OutputT]: ...
    @overload
    def chat(
        self, content: Content, *, agent: str = ..., **options: Unpack[MessageOptions]
    ) -> Reply[str]: ...
    def chat(
        self,
        content: Content,
        *,
        agent: str | AnyAgent = ASSISTANT,
        output: Any = None,
        **options: Unpack[MessageOptions],
    ) -> Reply[Any]:
        """Send a message to an agent, and wait for its answer or its question.

        Args:
            content: The message: a text, or a list of texts, `Image`, `Document` and `Audio`.
            agent: An agent, or the name of one that the runtime knows.
            output: The type of the output for this message, instead of the agent's.
            **options: See MessageOptions: `session`, `model`, `model_settings`,
                `profile`, `metadata`, `key`.

        Returns:
            The reply.

        Raises:
            PenstockError: The message was refused; see `Runtime.chat`.
        """
        chat: Any = self._runtime.chat
        reply: Reply[Any] = self._thread.do(chat(content, agent=agent, output=output, **options))
        return reply

    @overload
    def start(
        self,
        content: Content,
        *,
        output: type[OutputT],
        agent: str | AnyAgent = ...,
        **options: Unpack[MessageOptions],
    ) -> SyncRun[OutputT]: ...
    @overload
    def start(
        self,
        content: Content,
        *,
        output: TypeForm[OutputT],
        agent: str | AnyAgent = ...,
        **options: Unpack[MessageOptions],
    ) -> SyncRun[OutputT]: ...
    @overload
    def start(
        self, content: Content, *, agent: Agent[Any, OutputT], **options: Unpack[MessageOptions]
    ) -> SyncRun[OutputT]: ...
    @overload
    def start(
        self, content: Content, *, agent: str = ..., **options: Unpack[MessageOptions]
    ) -> SyncRun[str]: ...
    def start(
        self,
        content: Content,
        *,
        agent: str | AnyAgent = ASSISTANT,
        output: Any = None,
        **options: Unpack[MessageOptions],
    ) -> SyncRun[Any]:
        """Send a message to an agent without waiting for its answer; it is on disk then.

        Args:
            content: The message: a text, or a list of texts, `Image`, `Document` and `Audio`.
            agent: An agent, or the name of one that the runtime knows.
            output: The type of the output for this message, instead of the agent's.
            **options: See MessageOptions: `session`, `model`, `model_settings`,
                `profile`, `metadata`, `key`.

        Returns:
            The run: iterate over its events, or call its `reply`.

        Raises:
            PenstockError: The message was refused; see `Runtime.chat`.
        """
        start: Any = self._runtime.start
        work = start(content, agent=agent, output=output, **options)
        return SyncRun(self._thread.do(work), self._thread)

    @overload
    def attach(self, task_id: str, *, output: type[OutputT]) -> SyncRun[OutputT]: ...
    @overload
    def attach(self, task_id: str, *, output: TypeForm[OutputT]) -> SyncRun[OutputT]: ...
    @overload
    def attach(self, task_id: str, *, agent: Agent[Any, OutputT]) -> SyncRun[OutputT]: ...
    @overload
    def attach(self, task_id: str) -> SyncRun[Any]: ...
    def attach(
        self, task_id: str, *, agent: AnyAgent | None = None, output: Any = None
    ) -> SyncRun[Any]:
        """Return a run of a task that was started elsewhere: before a restart, or over HTTP.

        Args:
            task_id: The task.
            agent: Its agent, for the type of the output.
            output: The type of the output; without both, a typed output is read as JSON.

        Returns:
            The run. An unknown task raises NotFound when something is read of it.
        """
        attach: Any = self._runtime.attach
        return SyncRun(attach(task_id, agent=agent, output=output), self._thread)

    @overload
    def map(
        self,
        inputs: Iterable[Content],
        *,
        agent: Agent[Any, OutputT],
        key: str | None = None,
        concurrency: int = 10,
        progress: bool = False,
    ) -> Iterator[Reply[OutputT]]: ...
    @overload
    def map(
        self,
        inputs: Iterable[Content],
        *,
        agent: str = ...,
        key: str | None = None,
        concurrency: int = 10,
        progress: bool = False,
    ) -> Iterator[Reply[str]]: ...
    def map(
        self,
        inputs: Iterable[Content],
        *,
        agent: str | AnyAgent = ASSISTANT,
        key: str | None = None,
        concurrency: int = 10,
        progress: bool = False,
    ) -> Iterator[Reply[Any]]:
        """Send each input in a conversation of its own, and yield the replies in their order.

        Args:
            inputs: The messages.
            agent: An agent, or the name of one that the runtime knows.
            key: A name of the whole work: finished inputs are not repeated; see `Runtime.map`.
            concurrency: How many inputs are worked on at once.
            progress: Whether a bar shows on the terminal how many are done.

        Yields:
            The replies, also of tasks that failed or wait.
        """
        replies: Any = self._runtime.map
        options = {"key": key, "concurrency": concurrency, "progress": progress}
        return each_in(replies(inputs, agent=agent, **options), self._thread)

    def call(self, tool_id: str, input: dict[str, Any]) -> Envelope:
        """Call a tool that allows direct calls, and wait for its outcome.

        Args:
            tool_id: The tool.
            input: The input; it must match `input_schema`.

        Returns:
            The outcome; failures are envelopes, too.
        """
        return self._thread.do(self._runtime.call(tool_id, input))

    def do(self, work: Callable[[Runtime], Coroutine[Any, Any, Value]]) -> Value:
        """Run async code with the runtime, in its loop, and wait for the result.

        Args:
            work: Takes the runtime; for all that a SyncRuntime has no method for.

        Returns:
            The result of the work.
        """
        return self._thread.do(work(self._runtime))

    def close(self) -> None:
        """Close the runtime and end its thread. Unfinished tasks resume at the next start."""
        with suppress(RuntimeError):  # at the exit of the interpreter no thread can start
            self._thread.close(self._runtime.close)
        self._thread.close()
        atexit.unregister(self.close)  # last: a call from inside is refused, and closes nothing


async def _opened(opening: Awaitable[Runtime]) -> Runtime:
    return await opening
