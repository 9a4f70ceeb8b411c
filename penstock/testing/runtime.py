"""A complete runtime in memory, for tests of programs that are built on penstock."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self, Unpack

from msgspec.structs import replace

from penstock.agents.agent import AnyAgent
from penstock.agents.catalog import Catalog, listed
from penstock.agents.definition.tools import (
    check_tool_ids,
    with_inner,
)
from penstock.app.runtime import Runtime
from penstock.app.runtime_parts import (
    DeclaredAgents,
    DeclaredFlows,
    DeclaredTools,
    ProjectParts,
    Storage,
)
from penstock.app.wiring import assemble
from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import ConfigError
from penstock.core.events.events import Record
from penstock.core.ids import new_id
from penstock.core.limits import Limits, World
from penstock.flows.project.library import FlowLibrary, NoFlows
from penstock.flows.steps.kind import CodeEnvironment
from penstock.manifest.handbook import HandbookCatalog
from penstock.models.model import Model, ModelCard
from penstock.models.providers import OFFLINE, ModelConfig
from penstock.models.resolve import ModelRegistry, RegistryWithoutProviders
from penstock.resources.dependencies import DepsOptions, GivenDeps, given_deps
from penstock.resources.egress import Egress
from penstock.resources.signed_links import Links
from penstock.store.blobs import open_blobs
from penstock.store.logs.owners import this_process
from penstock.testing.clock import FakeClock, follow_threads
from penstock.testing.log import MemoryLog
from penstock.testing.resources import MemoryFiles, MemoryMedia, MemoryState, MemoryVault
from penstock.tools.hooks.hooks import HookRegistry, Hooks
from penstock.tools.policy import Rule, RuleSet
from penstock.tools.python.given_tools import ToolLike, all_as_tools, check_reverts
from penstock.tools.python.needs import AgentNeeds, check_needs, needs_of_agent
from penstock.tools.resources import ProjectFolder
from penstock.tools.skills import NO_SKILLS, Skills
from penstock.tools.tool import Registry, Tool

KEY = bytes(range(32))


class MemoryStorage:
    """The storage of runtimes in memory. A second runtime on it resumes the tasks of the first.

    A crash is `MemoryRuntime.kill`. A second runtime beside a living one is another process: it
    takes over after `limits.lease_seconds`, because the first one still holds its leases.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        limits: Limits | None = None,
        log: MemoryLog | None = None,
        egress: Egress | None = None,
        flows: FlowLibrary | None = None,
        code_environment: CodeEnvironment | None = None,
    ) -> None:
        self.clock = clock or SystemClock()
        self.limits = limits or Limits()
        self.log = log or MemoryLog(self.clock, self.limits)
        self.blobs = open_blobs("memory:///")
        self.vault = MemoryVault(self.clock)
        self.egress = egress
        self.flows = flows or NoFlows()
        self.code_environment = code_environment
        self.handbooks = HandbookCatalog()
        self.project: ProjectFolder | None = None
        """A project folder, for tools that need one."""

    def project_parts(self, tools: DeclaredTools, agents: DeclaredAgents) -> ProjectParts:
        """Return the parts of a project with these tools and agents."""
        return ProjectParts(
            tools=replace(tools, egress=self.egress),
            agents=agents,
            flows=DeclaredFlows(
                library=self.flows,
                code_environment=self.code_environment,
                handbooks=self.handbooks,
            ),
            folder=self.project,
        )

    def assembled(self, parts: ProjectParts) -> Runtime:
        """Return one more runtime on this storage, for the loop that runs."""
        if isinstance(self.clock, FakeClock):
            follow_threads()
        return assemble(World(self.clock, self.limits, new_id), self.storage(), parts)

    def storage(self) -> Storage:
        """Return the storage for one runtime."""
        return Storage(
            log=self.log,
            projections=self.log,
            blobs=self.blobs,
            key=KEY,
            links=Links(KEY, self.clock),
            owner=this_process(new_id("run")),
            files=MemoryFiles(self.log.changes, self.clock),
            state=MemoryState(self.log.changes, self.clock),
            media=MemoryMedia(self.log.changes, self.clock),
            vault=self.vault,
        )


class MemoryParts(DepsOptions, total=False):
    """Dependencies and hooks of `memory_runtime`, as `penstock.open` takes them."""

    hooks: Iterable[Hooks[Any]]
    """Hooks for all agents."""


class MemoryRuntime(Runtime):
    """A runtime in memory, as `memory_runtime` yields it. A test can kill it and open it again.

    Example:
        >>> import asyncio
        >>> from penstock import ToolReturned
        >>> from penstock.testing import ScriptedModel, call, memory_runtime, say
        >>> def pay(order: int) -> str:
        ...     '''Pay for an order.'''
        ...     print("paying", order)
        ...     return "paid"
        >>> model = ScriptedModel({"": [call("pay", order=7), say("It is paid.")]})
        >>> async def main() -> None:
        ...     async with memory_runtime(model=model, tools=[pay]) as runtime:
        ...         run = await runtime.start("Pay for order 7")
        ...         async for event in run:
        ...             if isinstance(event, ToolReturned):
        ...                 break
        ...         runtime.kill()
        ...         await runtime.reopen()
        ...         print((await runtime.attach(run.task_id).reply()).content)
        >>> asyncio.run(main())
        paying 7
        It is paid.
    """

    def __init__(self, assembled: Callable[[], Runtime], log: MemoryLog) -> None:
        first = assembled()
        super().__init__(first.parts, first.requests)
        self._assembled = assembled
        self._log = log
        self._writes_left = 0
        self._end: asyncio.Task[None] | None = None
        """Cancels what was running; None while the runtime is alive."""
        self._home = asyncio.get_running_loop()
        log.listen(self._count)

    def kill(self, *, after: int = 0) -> None:
        """Abandon the runtime, as the death of its process does.

        From this moment nothing that runs can write to the log. It is cancelled; a function in a
        thread cannot be stopped, but what it returns is lost. What waits for a task raises
        PenstockError. Tools, hooks and other threads may call this, too.

        Args:
            after: How many more of its writes to the log succeed before that; 0 kills it now. Those
                of other runtimes to logs that they hold do not count.

        Raises:
            ConfigError: `after` is not a number of writes.
        """
        if type(after) is not int or after < 0:
            raise ConfigError(f"after= takes a number of writes, 0 or more, found {after!r}")
        if after > 0:
            self._writes_left = after
        elif _running_loop() is self._home:
            self._die()
        else:
            self._home.call_soon_threadsafe(self._die)

    async def reopen(self) -> Self:
        """Open the runtime again on the same storage, as the next process does.

        It takes over unfinished tasks at once. A runtime that was not killed is closed first. Runs
        of the killed runtime show no more events: `attach` to their tasks.

        Returns:
            The runtime itself.
        """
        opening = self._opening
        await self.end()
        again = self._assembled()
        super().__init__(again.parts, again.requests)
        self._writes_left, self._end, self._opening = 0, None, opening
        await self.parts.engine.launcher.open()
        return self

    async def end(self) -> None:
        """Close what is open: the runtime, or what is left of a killed one."""
        self._writes_left = 0  # what it writes to close is not counted
        if self._end is None:
            await self.close_parts()
        if self._end is not None:  # also if it was killed meanwhile
            await self._end

    def _count(self, records: Sequence[Record]) -> None:
        own = (None, self.parts.storage.owner)
        if self._writes_left and self._log.writer_of(records[0].log_id) in own:
            self._writes_left -= 1
            if not self._writes_left:
                self._die()

    def _die(self) -> None:
        if self._end is None:
            self._log.bury(self.parts.storage.owner)
            self._loop = None
            self._end = self._home.create_task(self._abandon())

    async def _abandon(self) -> None:
        await self.parts.engine.launcher.close(seconds=0)
        await self.close_parts()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@asynccontextmanager
async def memory_runtime(
    *,
    model: Model | None = None,
    tools: Iterable[ToolLike] = (),
    agents: Iterable[AnyAgent] = (),
    rules: Iterable[Rule] = (),
    skills: Skills = NO_SKILLS,
    place: MemoryStorage | None = None,
    **parts: Unpack[MemoryParts],
) -> AsyncIterator[MemoryRuntime]:
    """Open a runtime in memory until the block ends. It needs no project and no network.

    Args:
        model: The model of agents without a model object; None is the offline model. No provider is
            ever asked.
        tools: Functions with `@tool`, plain functions and other tools.
        agents: Agents in addition to the default one.
        rules: Rules for calls, as `[[rules]]` of a project.
        skills: The skills of the project.
        place: The storage of logs, files and state, for several runtimes; None makes a new one.
        **parts: `deps`, `deps_factory`, `overrides` and `hooks`, as for `penstock.open`.

    Yields:
        The runtime. Its `kill` and `reopen` simulate a crash.

    Example:
        >>> import asyncio
        >>> from penstock.testing import ScriptedModel, memory_runtime, say
        >>> async def main() -> None:
        ...     async with memory_runtime(model=ScriptedModel([say("Good morning.")])) as runtime:
        ...         print((await runtime.chat("Hello")).content)
        >>> asyncio.run(main())
        Good morning.
    """
    place = place or MemoryStorage()
    hooks, own, chosen = HookRegistry(parts.pop("hooks", ())), listed(agents), all_as_tools(tools)
    _check(own, chosen, given := given_deps(parts), hooks)
    declared = DeclaredTools(registry=Registry(chosen), rules=RuleSet(rules), skills=skills)

    def assembled() -> Runtime:
        models, catalog = _models(model, own, place.limits), Catalog(own, given=given)
        known = DeclaredAgents(catalog=catalog, models=models, deps=given, hooks=hooks)
        return place.assembled(place.project_parts(declared, known))

    runtime = MemoryRuntime(assembled, place.log)
    await runtime.parts.engine.launcher.open()
    try:
        yield runtime
    finally:
        await runtime.end()


def _models(model: Model | None, agents: Iterable[AnyAgent], limits: Limits) -> ModelRegistry:
    """Return a registry in which one model answers for every name that an agent uses."""
    if model is not None and not isinstance(getattr(model, "card", 0), ModelCard):
        raise ConfigError(
            "model= takes a model object, such as ScriptedModel([say('Hello.')]), found "
            f"{model!r}; one with a name needs penstock.open"
        )
    named = {agent.model for agent in agents if isinstance(agent.model, str)} - {OFFLINE}
    configs = [] if model is None else [ModelConfig(name=name, provider="") for name in named]
    default = OFFLINE if model is None else model.card.model_id
    models = RegistryWithoutProviders(configs, default=default, limits=limits)
    if model is not None:
        models.add(model)
    return models


def allow_models(allowed: bool) -> None:  # noqa: FBT001  as a switch reads
    """Allow or refuse models of providers in this process, whatever runtime asks for one.

    Call `allow_models(False)` once in `conftest.py`: a test that would ask a real model fails with
    a ConfigError then. Model objects of the program and the offline model still answer.

    Args:
        allowed: Whether they may be asked.

    Example:
        >>> from penstock.testing import allow_models
        >>> allow_models(False)
        >>> allow_models(True)
    """
    ModelRegistry.allow_providers(allowed=allowed)


def _check(
    agents: Sequence[AnyAgent], tools: Sequence[Tool], given: GivenDeps, hooks: HookRegistry
) -> None:
    """Raise ConfigError if an agent, a tool or a hook needs something that is missing."""
    needs = map(needs_of_agent, with_inner(agents))
    check_needs([AgentNeeds(agent="", tools=tools), *needs], given, hooks.project)
    check_tool_ids(agents, registry := Registry(tools))
    check_reverts(tools, with_inner(agents), registry)
    for agent in agents:
        hooks.select(agent.name, agent.hooks)
