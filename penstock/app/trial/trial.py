"""A trial: one tool runs for real, except for what a mocks file replaces."""

import math
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.app.opening import open_storage, project_parts_of
from penstock.app.project import Project, load_project, sandbox_of
from penstock.app.protected_files import protect
from penstock.app.runtime import Runtime
from penstock.app.runtime_parts import Storage
from penstock.app.settings import Settings, load
from penstock.app.settings_sections import Engine, in_engine
from penstock.app.trial.mocks import MockedEgress, MockedTool, MockedVault, Mocks
from penstock.app.wiring import assemble
from penstock.core.clock import SystemClock
from penstock.core.envelope import Json
from penstock.core.ids import TaskId, new_id
from penstock.core.limits import World
from penstock.core.profile import LOCAL
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.stored.changes import StateChange, StateVerb
from penstock.resources.state import entry_to_wire
from penstock.tools.scripts.script import ScriptTool
from penstock.tools.tool import Registry, Tool

LOCAL_ID = "local"
"""The name of a scope in the resulting mocks file if the given one named none."""
_PAGE = 1000


class TrialPlan(Struct, frozen=True, kw_only=True):
    """The tool to try, and what replaces its surroundings."""

    tool_id: str
    mocks: Mocks = field(default_factory=Mocks)
    keeps: bool = False
    """Whether the trial uses the project's own database instead of a temporary one."""


class Trial:
    """A runtime for one tool call, with the state of a mocks file."""

    def __init__(
        self, runtime: Runtime, storage: Storage, plan: TrialPlan, shared: set[str]
    ) -> None:
        self.runtime = runtime
        self.task_id = TaskId(new_id("task"))
        self._storage = storage
        self._mocks = plan.mocks
        self._shared = sorted(shared | set(plan.mocks.state.get(ScopeKind.SHARED, ())))
        """The ids of shared scopes that manifests and mocks name."""

    async def begin(self) -> None:
        """Write the values of the mocks into the State."""
        assert self._storage.state is not None  # noqa: S101  open_storage gives one
        now = SystemClock().now()
        for scope, _, key, entry in self._entries():
            ttl = None
            if "expires_at" in entry:
                expires = datetime.fromisoformat(entry["expires_at"]).timestamp()
                ttl = math.ceil(expires - now / 1000)
            if ttl is None or ttl > 0:
                change = StateChange(
                    verb=StateVerb.PUT,
                    scope=scope,
                    key=key,
                    revision=entry["revision"],
                    value=entry["value"],
                    ttl_seconds=ttl,
                )
                await self._storage.state.make(change)

    async def state(self) -> dict[str, Any]:
        """Return the State in the format of a mocks file."""
        state: dict[str, Any] = {}
        for scope, name in self._scopes():
            entries = {each["key"]: _entry(each) async for each in self._stored(scope)}
            if entries or name in self._mocks.state.get(scope.kind, {}):
                state.setdefault(scope.kind.value, {})[name] = entries
        return state

    async def _stored(self, scope: Scope) -> AsyncIterator[dict[str, Any]]:
        assert self._storage.state is not None  # noqa: S101
        cursor: str | None = ""
        while cursor is not None:
            page = await self._storage.state.page(scope, "", limit=_PAGE, cursor=cursor)
            for entry in page.entries:
                yield entry_to_wire(entry)
            cursor = page.next_cursor

    def _entries(self) -> Iterator[tuple[Scope, str, str, Any]]:
        for scope, name in self._scopes():
            for key, entry in self._mocks.state.get(scope.kind, {}).get(name, {}).items():
                yield scope, name, key, entry

    def _scopes(self) -> Iterator[tuple[Scope, str]]:
        """Yield every scope of the call with its name in the mocks."""
        own = {
            ScopeKind.PROFILE: LOCAL,
            ScopeKind.SESSION: self.task_id,
            ScopeKind.TASK: self.task_id,
        }
        for kind, scope_id in own.items():
            yield Scope(kind, scope_id), next(iter(self._mocks.state.get(kind, ())), LOCAL_ID)
        for name in self._shared:
            yield Scope(ScopeKind.SHARED, name), name


@asynccontextmanager
async def open_trial(settings: Settings, project: Project, plan: TrialPlan) -> AsyncIterator[Trial]:
    """Open a runtime in which one tool can be called directly, until the block ends.

    It resumes no other tasks, even if the trial uses the project's own database.
    """
    world = World(SystemClock(), settings.limits, new_id)
    async with AsyncExitStack() as closing:
        folder = closing.enter_context(TemporaryDirectory(prefix="penstock-trial-"))
        temporary = load(
            settings.root, data_dir=folder, database_url="", blobs="", synchronous="NORMAL"
        )
        alone = await closing.enter_async_context(open_storage(temporary, project, world))
        storage = alone
        if plan.keeps:
            storage = await closing.enter_async_context(open_storage(settings, project, world))
        await _fill_vault(alone, plan.mocks)
        if plan.mocks.has_vault or not plan.keeps:
            assert alone.vault is not None  # noqa: S101  open_storage gives one
            storage = replace(storage, vault=MockedVault(alone.vault, keeps=plan.keeps))
        project_parts = project_parts_of(settings, project, world)
        declared = project_parts.tools
        assert declared.egress is not None  # noqa: S101  project_parts_of gives one
        mocked = replace(
            declared,
            registry=Registry(_mocked(tool, plan) for tool in declared.registry),
            egress=MockedEgress(plan.mocks.fetch, declared.egress),
        )
        project_parts = replace(project_parts, tools=mocked)
        runtime = assemble(world, storage, project_parts)
        protect(runtime, project)
        if project.sandbox is not None:
            closing.push_async_callback(project.sandbox.close)
        closing.push_async_callback(runtime.close)
        trial = Trial(runtime, storage, plan, _shared_ids(project))
        await trial.begin()
        yield trial


def load_for_trial(
    root: Path, texts: Json, engine: Engine | None = None
) -> tuple[Settings, Project]:
    """Read a project with the runtime config of the mocks; `engine` overrides every script's."""
    overrides: dict[str, Any] = {"runtime_config": dict(texts)} if texts else {}
    settings = load(root, **overrides, **in_engine(engine))
    sandbox = sandbox_of(settings, engine)
    return settings, load_project(settings, sandbox=sandbox)


async def _fill_vault(storage: Storage, mocks: Mocks) -> None:
    assert storage.vault is not None  # noqa: S101
    scopes = {Scope(ScopeKind.PROFILE, LOCAL): mocks.secrets}
    scopes |= {Scope(ScopeKind.SHARED, name): each for name, each in mocks.shared_secrets.items()}
    for scope, secrets in scopes.items():
        for key, value in secrets.items():
            await storage.vault.set(scope, key, value)


def _mocked(tool: Tool, plan: TrialPlan) -> Tool:
    if isinstance(tool, ScriptTool) and plan.mocks.context:
        tool = tool.with_context(plan.mocks.context)
    if tool.spec.tool_id == plan.tool_id:
        tool = _Direct(tool)
    if tool.spec.tool_id in plan.mocks.tools:
        tool = MockedTool(tool, plan.mocks.tools[tool.spec.tool_id])
    return tool


class _Direct:
    """A tool that can be called directly, even if its manifest does not allow it."""

    def __init__(self, tool: Tool) -> None:
        self.spec = replace(tool.spec, direct_call=True)
        self.run = tool.run
        self.preview = tool.preview


def _shared_ids(project: Project) -> set[str]:
    bindings = (each for tool in project.bundle.tools.values() for each in tool.state)
    return {each.scope_id for each in bindings if each.scope_id is not None}


def _entry(wire: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in wire.items() if name != "key"}
