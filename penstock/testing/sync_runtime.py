"""A complete runtime in memory for tests without async."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Self, TypedDict, TypeVar, Unpack, overload

from penstock.agents.agent import Agent, AnyAgent
from penstock.app.runtime import Runtime
from penstock.models.model import Model
from penstock.program.opening import OpeningRuntime
from penstock.program.sync_runtime import SyncRuntime
from penstock.testing.runtime import MemoryRuntime, MemoryStorage, memory_runtime
from penstock.tools.hooks.hooks import Hooks
from penstock.tools.policy import Rule
from penstock.tools.python.given_tools import ToolLike
from penstock.tools.skills import Skills

DepsT = TypeVar("DepsT")


class MemoryOptions(TypedDict, total=False):
    """Options of `memory_runtime_sync`, as `memory_runtime` has them."""

    model: Model | None
    tools: Iterable[ToolLike]
    rules: Iterable[Rule]
    skills: Skills
    place: MemoryStorage | None
    hooks: Iterable[Hooks[Any]]
    overrides: Mapping[Callable[..., Any], Any]


class SyncMemoryRuntime(SyncRuntime):
    """A runtime in memory without async, as `memory_runtime_sync` opens it.

    A test can kill it and open it again, as MemoryRuntime shows.
    """

    def __init__(self, opening: Awaitable[Runtime]) -> None:
        super().__init__(opening)
        assert isinstance(self._runtime, MemoryRuntime)  # noqa: S101  memory_runtime yields it
        self._killable = self._runtime

    def kill(self, *, after: int = 0) -> None:
        """Abandon the runtime, as the death of its process does; see `MemoryRuntime.kill`.

        Args:
            after: How many more of its writes to the log succeed before that; 0 kills it now. Those
                of other runtimes to logs that they hold do not count.
        """
        self._killable.kill(after=after)

    def reopen(self) -> Self:
        """Open the runtime again on the same storage, as the next process does.

        Returns:
            The runtime itself.
        """
        self._thread.do(self._killable.reopen())
        return self


@overload
def memory_runtime_sync(
    *, agents: Sequence[Agent[object, Any]] = (), **options: Unpack[MemoryOptions]
) -> SyncMemoryRuntime: ...
@overload
def memory_runtime_sync(
    *, agents: Sequence[Agent[DepsT, Any]], deps: DepsT, **options: Unpack[MemoryOptions]
) -> SyncMemoryRuntime: ...
def memory_runtime_sync(*, agents: Sequence[AnyAgent] = (), **options: Any) -> SyncMemoryRuntime:
    """Open a runtime in memory for tests without async; see `memory_runtime`.

    Args:
        agents: Agents in addition to the default one.
        **options: `model`, `tools`, `place` and the others of `memory_runtime`.

    Returns:
        The runtime: use it in `with`.

    Example:
        >>> from penstock.testing import ScriptedModel, memory_runtime_sync, say
        >>> with memory_runtime_sync(model=ScriptedModel([say("Good morning.")])) as runtime:
        ...     print(runtime.chat("Hello").output)
        Good morning.
    """
    return SyncMemoryRuntime(OpeningRuntime(memory_runtime(agents=agents, **options)))
