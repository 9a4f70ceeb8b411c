"""Live objects that a program gives to its tools: pools, clients, functions of `Depends`.

They are never in the log. A value is used as it is. A factory is called once for each activation of
a task, so again after a question and after a restart, and what it made is closed when the
activation ends. Each activation with factories has one asyncio task that makes and closes its
objects, in the runtime's loop: a context manager must be left in the task that entered it, and
tools run in many. Nothing is made before a tool asks for it.

It relies on `Hold.when_left` for the end of an activation, which also comes after a crash of the
body or a lost lease. Proof: tests/resources/test_dependencies.py.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeAlias, TypedDict
from weakref import WeakKeyDictionary

from msgspec import Struct, field
from typing_extensions import TypeVar

from penstock.core.call_errors import ToolNotConfigured
from penstock.core.diagnostics import did_you_mean
from penstock.core.errors import ConfigError
from penstock.core.foreign_code import CaughtError, fits, name_of, returned_type, takes
from penstock.core.profile import Profile

log = logging.getLogger(__name__)

NO_DEPS = "no dependencies were given: pass deps= or deps_factory= to penstock.open"


class TaskScope(Struct, frozen=True, kw_only=True):
    """The task that dependencies are made for: the argument of `deps_factory` and of `Depends`.

    Example:
        >>> from penstock import TaskScope
        >>> def pool_of(scope: TaskScope) -> str:
        ...     return f"pool of {scope.profile.profile_id}"
    """

    profile: Profile
    """The profile that the task works for."""
    session: str
    """The conversation, or the log of a direct call or a run."""
    task_id: str
    """The task."""
    agent: str
    """The name of the agent."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """The metadata of the message."""
    flow: str = ""
    """The command of the flow whose run this is; empty in a conversation."""


DepsT_co = TypeVar("DepsT_co", covariant=True, default=object)
"""The type of `ctx.deps`. A context of a subclass fits where one of its parent is wanted."""
MISSING: Any = object()
"""The value if no dependencies were asked for."""


class AgentContext(Generic[DepsT_co]):
    """The task that a function works for: what instructions, toolsets and hooks receive.

    Example:
        >>> from penstock import Agent, AgentContext
        >>> def rules(ctx: AgentContext[object]) -> str:
        ...     return f"You work for {ctx.profile.profile_id}."
        >>> Agent("clerk", instructions=["Be brief.", rules]).name
        'clerk'
    """

    __slots__ = ("_deps", "_scope")

    def __init__(self, scope: TaskScope, deps: Any = MISSING) -> None:
        self._scope = scope
        self._deps = deps

    @property
    def deps(self) -> DepsT_co:
        """The dependencies of the agent. Raises TypeError if the hint names no type of them."""
        if self._deps is MISSING:
            name = type(self).__name__
            raise TypeError(f"write {name}[Pool] for the context, with the type of its deps")
        deps: DepsT_co = self._deps
        return deps

    @property
    def agent(self) -> str:
        """The name of the agent."""
        return self._scope.agent

    @property
    def session(self) -> str:
        """The conversation."""
        return self._scope.session

    @property
    def task_id(self) -> str:
        """The task."""
        return self._scope.task_id

    @property
    def profile(self) -> Profile:
        """The profile that the task works for."""
        return self._scope.profile

    @property
    def metadata(self) -> Mapping[str, str]:
        """The metadata of the message."""
        return self._scope.metadata

    @property
    def flow(self) -> str:
        """The command of the flow in whose run the agent works; empty in a conversation."""
        return self._scope.flow


D = TypeVar("D")
DepsFactory: TypeAlias = Callable[[TaskScope], D | Awaitable[D] | AbstractAsyncContextManager[D]]
"""Makes dependencies for an activation of a task."""


class Depends:
    """Marks a parameter of a tool as one that a function provides; no model sees it.

    The function is called without arguments, or with a TaskScope, once for each activation of a
    task. It may be async, or return an async context manager, which is closed at the end of the
    activation.

    Args:
        function: The function.

    Raises:
        TypeError: It cannot be called so.

    Example:
        >>> from typing import Annotated
        >>> from penstock import Depends, tool
        >>> def prices() -> dict[str, int]:
        ...     return {"tea": 250}
        >>> @tool(effect="read")
        ... def price(item: str, prices: Annotated[dict[str, int], Depends(prices)]) -> int:
        ...     '''Return a price in cents.'''
        ...     return prices[item]
        >>> list(price.spec.input_schema["properties"])
        ['item']
    """

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any], /) -> None:
        if not _can_be_called(function):
            raise TypeError(
                f"Depends takes a function of a TaskScope or nothing, found {function!r}"
            )
        self.function = function

    def __repr__(self) -> str:
        """Return `Depends(name)`."""
        return f"Depends({name_of(self.function)})"


class DepsSource(Struct, frozen=True):
    """Where the dependencies of agents come from: a value, or a function that makes them."""

    value: Any = None
    factory: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        """Raise ConfigError for a factory that no task could call."""
        if self.factory is not None and not _can_be_called(self.factory):
            raise ConfigError(
                f"deps_factory= takes a function of a TaskScope or nothing, found {self.factory!r}"
            )

    def problem(self, wanted: Any) -> str:
        """Return why it does not give a type, or an empty text if it does or it is not known."""
        if self.factory is not None:
            found = returned_type(self.factory)
            if found is None or fits(found, wanted):
                return ""
            return f"{name_of(self.factory)} returns {name_of(found)}"
        return "" if fits(type(self.value), wanted) else f"deps is a {name_of(type(self.value))}"


def own_source(deps: tuple[Any, ...], factory: Any) -> DepsSource:
    """Return the dependencies of one agent. Raises ConfigError if none or several are given."""
    if len(deps) + (factory is not None) != 1:
        raise ConfigError("with_deps takes the dependencies, or deps_factory=, and nothing else")
    return DepsSource(deps[0] if deps else None, factory)


class DepsOptions(TypedDict, total=False):
    """The arguments of `open` that give dependencies."""

    deps: Any
    """One value for all tasks."""
    deps_factory: DepsFactory[Any]
    """A function that makes them for each activation of a task, instead of one value."""
    overrides: Mapping[Callable[..., Any], Any]
    """Functions or values that replace functions of `Depends`, for tests."""


class GivenDeps(Struct, frozen=True):
    """The dependencies that a program gave to its runtime."""

    shared: DepsSource | None = None
    overrides: Mapping[Callable[..., Any], Any] = MappingProxyType({})


def given_deps(options: DepsOptions) -> GivenDeps:
    """Return the dependencies in the arguments of `open`.

    Raises TypeError for an unknown argument, ConfigError for a value together with a factory or
    for overrides that no task could use.
    """
    for name in options:
        if name not in DepsOptions.__annotations__:
            hint = did_you_mean(name, DepsOptions.__annotations__)
            raise TypeError(f"there is no argument {name!r}.{hint}")
    if "deps" in options and "deps_factory" in options:
        raise ConfigError("give deps= or deps_factory=, not both")
    overrides = options.get("overrides", MappingProxyType({}))
    if not isinstance(overrides, Mapping):
        raise ConfigError(
            f"overrides= takes a mapping, such as {{get_pool: fake_pool}}; found {overrides!r}"
        )
    for function, other in overrides.items():
        if callable(other) and not _can_be_called(other):
            raise ConfigError(
                f"overrides= gives {name_of(function)} a function that takes neither a TaskScope "
                f"nor nothing: {other!r}"
            )
    shared = None
    if "deps" in options or "deps_factory" in options:
        shared = DepsSource(options.get("deps"), options.get("deps_factory"))
    return GivenDeps(shared, overrides)


class Hold(Protocol):
    """An activation, as long as it works on its log."""

    def when_left(self, callback: Callable[[], object]) -> None:
        """Call a function when it ends."""
        ...


class Dependencies:
    """The dependencies of a runtime."""

    def __init__(
        self,
        given: GivenDeps | None = None,
        *,
        of_agent: Callable[[str], DepsSource | None],
    ) -> None:
        self.given = given or GivenDeps()
        self._of_agent = of_agent
        self._workshops: WeakKeyDictionary[Hold, _Workshop] = WeakKeyDictionary()
        self._closing: set[asyncio.Task[None]] = set()

    def source(self, agent: str) -> DepsSource | None:
        """Return where an agent's dependencies come from: its own, or those of the runtime."""
        return self._of_agent(agent) or self.given.shared

    async def deps(self, hold: Hold, scope: TaskScope) -> Any:
        """Return the dependencies of an agent in one activation. Raises ToolNotConfigured."""
        source = self.source(scope.agent)
        if source is None:
            raise ToolNotConfigured(NO_DEPS)
        if source.factory is None:
            return source.value
        return await self._made(hold, source.factory, scope)

    async def injected(self, hold: Hold, scope: TaskScope, depends: Depends) -> Any:
        """Return what a function of `Depends` provides in one activation."""
        function = self.given.overrides.get(depends.function, depends.function)
        if not callable(function):
            return function
        return await self._made(hold, function, scope)

    async def close(self) -> None:
        """Wait until everything that was made is closed."""
        if self._closing:
            await asyncio.wait(self._closing)

    async def _made(self, hold: Hold, function: Callable[..., Any], scope: TaskScope) -> Any:
        workshop = self._workshops.get(hold)
        if workshop is None:
            workshop = self._workshops[hold] = _Workshop()
            hold.when_left(workshop.leave)
            self._closing.add(workshop.task)
            workshop.task.add_done_callback(self._closing.discard)
        return await workshop.get(function, scope)


class _Workshop:
    """Makes and closes the objects of one activation, in an asyncio task of its own."""

    def __init__(self) -> None:
        self._orders: asyncio.Queue[_Order | None] = asyncio.Queue()
        self._made: dict[tuple[Callable[..., Any], str], asyncio.Future[Any]] = {}
        self.task = asyncio.create_task(self._serve(), name="penstock-dependencies")

    async def get(self, function: Callable[..., Any], scope: TaskScope) -> Any:
        key = function, scope.task_id
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = asyncio.get_running_loop().create_future()
            self._orders.put_nowait(_Order(function, scope, made))
        try:
            # Shielded: another tool may wait for the same object when this one is cancelled.
            return await asyncio.shield(made)
        finally:
            if made.done() and made.exception() is not None:
                self._made.pop(key, None)  # the next call tries again

    def leave(self) -> None:
        self._orders.put_nowait(None)

    async def _serve(self) -> None:
        with CaughtError() as closing:
            async with AsyncExitStack() as stack:
                while (order := await self._orders.get()) is not None:
                    with CaughtError() as fault:
                        order.made.set_result(await _entered(stack, order.function, order.scope))
                    if fault.error is not None:
                        order.made.set_exception(fault.error)
        if closing.error is not None:
            log.error("a dependency could not be closed", exc_info=closing.error)


class _Order(Struct):
    function: Callable[..., Any]
    scope: TaskScope
    made: asyncio.Future[Any]


async def _entered(stack: AsyncExitStack, function: Callable[..., Any], scope: TaskScope) -> Any:
    made = function(scope) if _takes_scope(function) else function()
    if isinstance(made, AbstractAsyncContextManager):
        return await stack.enter_async_context(made)
    return await made if inspect.isawaitable(made) else made


def _takes_scope(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some functions in C have no signature
        return True
    positional = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return any(
        each.kind in positional and each.default is inspect.Parameter.empty for each in parameters
    )


def _can_be_called(given: Any) -> bool:
    return callable(given) and takes(given, int(_takes_scope(given)))
