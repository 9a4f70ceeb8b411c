"""Opens a project for a program: in `async with`, awaited, or without async."""

from collections.abc import Generator, Sequence
from contextlib import AbstractAsyncContextManager
from os import PathLike
from types import TracebackType
from typing import Any, NoReturn, TypeVar, Unpack, cast, overload

from penstock.agents.agent import Agent, AnyAgent
from penstock.agents.attachments.content import Content
from penstock.app.opening import OpenOptions, ProgramOptions, open_for_program
from penstock.app.runtime import Runtime
from penstock.chat.python.message_options import MessageOptions
from penstock.core.errors import RuntimeMisuse
from penstock.core.reply import Reply
from penstock.program.sync_runtime import SyncRuntime
from penstock.resources.dependencies import DepsFactory

DepsT = TypeVar("DepsT")
OutputT = TypeVar("OutputT")
MISSING: Any = object()


class OpeningRuntime(AbstractAsyncContextManager[Runtime, None]):
    """A project that is about to be opened, as `penstock.open` returns it."""

    def __init__(self, opening: AbstractAsyncContextManager[Runtime, bool | None]) -> None:
        self._opening = opening

    def __await__(self) -> Generator[Any, None, Runtime]:
        """Open the project until `Runtime.close`."""
        return self._opened().__await__()

    async def __aenter__(self) -> Runtime:
        """Open the project until the block ends."""
        return await self._opening.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        await self._opening.__aexit__(kind, error, trace)

    def __enter__(self) -> NoReturn:
        """Refuse a `with` without `async`."""
        raise RuntimeMisuse(
            "write `async with penstock.open() as runtime: ...`, or `with penstock.open_sync() as "
            "runtime: ...` in a program without async"
        )

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    async def _opened(self) -> Runtime:
        runtime = await self._opening.__aenter__()
        runtime.close_with(self._opening)
        return runtime


@overload
def open_async(
    path: str | PathLike[str] = ".",
    *,
    agents: Sequence[Agent[object, Any]] = (),
    **options: Unpack[OpenOptions],
) -> OpeningRuntime: ...
@overload
def open_async(
    path: str | PathLike[str] = ".",
    *,
    agents: Sequence[Agent[DepsT, Any]],
    deps: DepsT,
    **options: Unpack[OpenOptions],
) -> OpeningRuntime: ...
@overload
def open_async(
    path: str | PathLike[str] = ".",
    *,
    agents: Sequence[Agent[DepsT, Any]],
    deps_factory: DepsFactory[DepsT],
    **options: Unpack[OpenOptions],
) -> OpeningRuntime: ...
def open_async(
    path: str | PathLike[str] = ".",
    *,
    agents: Sequence[AnyAgent] = (),
    **options: Any,
) -> OpeningRuntime:
    """Open the project in a folder as one Runtime.

    Use it in `async with`, which closes the runtime at the end of the block; or await it, and await
    `Runtime.close` at the end. Tasks that were left unfinished resume at once. What is unfinished
    at the end resumes when the project is opened again.

    Args:
        path: The folder with `penstock.toml`; an empty folder is a project, too. `":memory:"` is a
            project that keeps nothing.
        agents: Agents in addition to those of the project. A task that a crash has cut resumes only
            in a runtime that knows its agent.
        **options: `deps` or `deps_factory`, and those of OpenOptions: `model`, `models`, `tools`,
            `plugins`, `settings`, `overrides`, `resume`.

    Returns:
        The runtime, once it is entered or awaited.

    Raises:
        RuntimeMisuse: An option is unknown.
        ConfigError: A setting, a plugin, or a dependency of an agent is wrong or missing.
        DeclarationError: A file of the project is wrong and `[tools] strict` is set.
        StoreError: The database cannot be opened.
        TypeError: `tools` contains something that is neither a function nor a tool.

    Example:
        >>> import asyncio
        >>> import penstock
        >>> async def main() -> None:
        ...     async with penstock.open(":memory:") as runtime:
        ...         reply = await runtime.chat("Hello")
        ...         print(reply.status)
        >>> asyncio.run(main())
        succeeded
    """
    return OpeningRuntime(open_for_program(path, agents, cast("ProgramOptions", options)))


open = open_async  # noqa: A001  a program opens a project as it opens a file


@overload
def open_sync(
    path: str | PathLike[str] = ".",
    *,
    agents: Sequence[Agent[object, Any]] = (),
    **options: Unpack[OpenOptions],
) -> SyncRuntime: ...
@overload
def open_sync(
    path: str | PathLike[str] = ".",
    *,
    agents: Sequence[Agent[DepsT, Any]],
    deps: DepsT,
    **options: Unpack[OpenOptions],
) -> SyncRuntime: ...
@overload
def open_sync(
    path: str | PathLike[str] = ".",
    *,
    agents: Sequence[Agent[DepsT, Any]],
    deps_factory: DepsFactory[DepsT],
    **options: Unpack[OpenOptions],
) -> SyncRuntime: ...
def open_sync(
    path: str | PathLike[str] = ".", *, agents: Sequence[AnyAgent] = (), **options: Any
) -> SyncRuntime:
    """Open the project in a folder as one SyncRuntime, as `penstock.open` does for async programs.

    Args:
        path: The folder with `penstock.toml`; `":memory:"` is a project that keeps nothing.
        agents: Agents in addition to those of the project.
        **options: `deps` or `deps_factory`, and those of OpenOptions, as `penstock.open` has them.

    Returns:
        The runtime: use it in `with`, or call its `close`.

    Raises:
        PenstockError: The project cannot be opened; see `penstock.open`.

    Example:
        >>> from penstock import open_sync
        >>> with open_sync(":memory:") as runtime:
        ...     for text in runtime.start("Hello").text():
        ...         assert text
    """
    return SyncRuntime(open_async(path, agents=agents, **options))


@overload
def chat_sync(
    content: Content,
    *,
    agent: Agent[object, OutputT],
    path: str | PathLike[str] = ...,
    **options: Unpack[MessageOptions],
) -> Reply[OutputT]: ...
@overload
def chat_sync(
    content: Content,
    *,
    agent: Agent[DepsT, OutputT],
    deps: DepsT,
    path: str | PathLike[str] = ...,
    **options: Unpack[MessageOptions],
) -> Reply[OutputT]: ...
def chat_sync(
    content: Content,
    *,
    agent: Agent[Any, OutputT],
    path: str | PathLike[str] = ".",
    deps: Any = MISSING,
    **options: Unpack[MessageOptions],
) -> Reply[OutputT]:
    """Open a project for one message, and wait for its answer: a script of two lines.

    The runtime works only on this task, so tasks of a server in the same folder stay with it.

    Args:
        content: The message: a text, or a list of texts, `Image`, `Document` and `Audio`.
        agent: The agent.
        path: The folder of the project, which keeps the conversation.
        deps: What the tools of the agent need.
        **options: See MessageOptions: `session`, `model`, `model_settings`,
            `profile`, `metadata`, `key`.

    Returns:
        The reply; its `session` continues the conversation, also in another process.

    Raises:
        PenstockError: The project cannot be opened, or the message was refused.

    Example:
        >>> from penstock import Agent, chat_sync
        >>> guide = Agent("guide", instructions="You know Oslo.")
        >>> chat_sync("Hello", agent=guide, path=":memory:").status
        'succeeded'
    """
    given = {} if deps is MISSING else {"deps": deps}
    with open_sync(path, agents=[agent], resume=False, **given) as runtime:
        return runtime.chat(content, agent=agent, **options)
