"""Opens a project as one Runtime: settings, database, agents and tools.

Order matters. Settings and files are read first, so that a mistake in them opens nothing.
Unfinished tasks resume last, when all that they may need is there. Everything is closed in the
opposite order: the runtime before plugins and the sandbox, which its tasks still use, and the
database at the end.

Shown by tests/app/test_opening.py.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypedDict, cast

from msgspec import Struct
from msgspec.structs import replace

from penstock.agents.agent import AnyAgent
from penstock.agents.catalog import Catalog, check_names, listed, with_handoffs
from penstock.agents.definition.tools import check_tool_ids, with_inner
from penstock.app.authoring import DryRuns, ProjectAgents, ProjectAuthoring
from penstock.app.background.work import background_work
from penstock.app.flows import code_environment_of, constants_of, flows_of
from penstock.app.global_tools import with_global_tools
from penstock.app.plugins.api import Plugin, load_plugins
from penstock.app.plugins.runs import RunFollower
from penstock.app.project import Project, check_root, load_project
from penstock.app.reload import ProjectReloader
from penstock.app.runtime import Runtime
from penstock.app.runtime_parts import (
    NO_DEPS,
    DatabaseParts,
    DeclaredAgents,
    DeclaredFlows,
    DeclaredTools,
    ProjectParts,
    Storage,
)
from penstock.app.settings import Settings, load
from penstock.app.wiring import assemble
from penstock.core.clock import Clock, SystemClock
from penstock.core.diagnostics import did_you_mean, errors_of, sort
from penstock.core.errors import ConfigError, DeclarationError, RuntimeMisuse
from penstock.core.ids import new_id
from penstock.core.limits import World
from penstock.flows.starting import FlowSettings
from penstock.models.model import Model, ModelCard
from penstock.models.names import ModelNames
from penstock.resources.cipher import KEY_FILE, open_cipher
from penstock.resources.dependencies import DepsFactory, DepsOptions, GivenDeps, given_deps
from penstock.resources.egress import Egress
from penstock.resources.project.access import LoadedFiles
from penstock.resources.signed_links import Links
from penstock.resources.sql_stores import SqlFiles, SqlMedia, SqlState
from penstock.sandbox.processes.process_slots import ProcessSlots
from penstock.store.blobs import open_blobs
from penstock.store.database import open_database
from penstock.store.logs.log import Log
from penstock.store.logs.owners import this_process
from penstock.store.logs.sql_log import SqlLog
from penstock.store.sql_projections import SqlProjections
from penstock.tools.hooks.hooks import Hooks
from penstock.tools.policy import RuleSet
from penstock.tools.python.given_tools import ToolLike, all_as_tools, check_reverts
from penstock.tools.python.needs import AgentNeeds, check_needs, needs_of_agent
from penstock.tools.resources import ProjectFolder
from penstock.tools.skills import Skills
from penstock.tools.tool import Registry, Tool

_SQLITE = "sqlite:///"
_SQLITE_FILES = ("", "-wal", "-shm")
"""Endings of the files that SQLite keeps for one database."""


class Additions(Struct, frozen=True, kw_only=True):
    """Tools, agents and models of the embedding program, in addition to the project's."""

    tools: tuple[Tool, ...] = ()
    agents: tuple[AnyAgent, ...] = ()
    models: tuple[Model, ...] = ()
    deps: GivenDeps = NO_DEPS
    clock: Clock = SystemClock()
    """The clock of this process; every process on one database must agree on the time."""

    def check(self, hooks: Sequence[Hooks[Any]]) -> None:
        """Raise ConfigError if a tool, an agent or a hook needs dependencies that it does not get.

        `hooks` are those of the project.
        """
        needs = map(needs_of_agent, with_inner(self.agents))
        check_needs([AgentNeeds(agent="", tools=self.tools), *needs], self.deps, hooks)


NOTHING_ADDED = Additions()


_DEPS = DepsOptions.__optional_keys__
MEMORY = ":memory:"
"""The path of a project that keeps nothing."""


class OpenOptions(TypedDict, total=False):
    """Options of `penstock.open` and `penstock.open_sync`.

    Example:
        >>> from penstock import OpenOptions
        >>> options: OpenOptions = {"resume": False}
        >>> options["resume"]
        False
    """

    model: str | Model
    """The default model instead of the project's: its name, or an object."""
    models: Iterable[Model]
    """Models in addition to those of the project."""
    tools: Iterable[ToolLike]
    """Functions with `@tool`, plain functions, which count as writes, and other tools, in addition
    to those of the project."""
    plugins: Iterable[Plugin]
    """Plugins that are called before the installed ones."""
    hooks: Iterable[Hooks[Any]]
    """Code that sees, changes or stops what all agents do, before the hooks of each agent."""
    settings: Mapping[str, Any]
    """Settings that win over the file, such as `{"synchronous": "NORMAL"}`."""
    overrides: Mapping[Callable[..., Any], Any]
    """Functions or values that replace functions of `Depends`, for tests."""
    resume: bool
    """Whether tasks that were left unfinished resume; else the runtime works on its own only."""


class ProgramOptions(OpenOptions, total=False):
    """All options of `penstock.open`: its signatures check the types of these two."""

    deps: Any
    deps_factory: DepsFactory[Any]


@asynccontextmanager
async def open_for_program(
    path: str | PathLike[str], agents: Iterable[AnyAgent], options: ProgramOptions
) -> AsyncIterator[Runtime]:
    """Open the project in a folder with the additions of a program, until the block ends.

    Raises RuntimeMisuse for an unknown option, and what `open_project` raises.
    """
    if unknown := options.keys() - ProgramOptions.__optional_keys__:
        name = min(unknown)
        near = did_you_mean(name, [*ProgramOptions.__optional_keys__, "agents"])
        raise RuntimeMisuse(f"there is no option {name!r} of penstock.open.{near}")
    with ExitStack() as closing:
        folder = closing.enter_context(TemporaryDirectory()) if path == MEMORY else path
        settings = load(check_root(Path(folder)), **options.get("settings", {}))
        models, default = [*options.get("models", ())], options.get("model")
        if not (default is None or isinstance(default, str)):
            models.append(default)
        for each in models:
            if not isinstance(getattr(each, "card", None), ModelCard):
                raise ConfigError(
                    "model= takes a name such as 'openai:gpt-5' or an instance of your own model "
                    f"class, models= a list of these instances; found {each!r}"
                )
        if not (default is None or isinstance(default, str)):
            default = default.card.model_id
        if default is not None:
            section = settings.models.model_copy(update={"default": default})
            settings = settings.model_copy(update={"models": section})
        tools = all_as_tools(options.get("tools", ()))
        named = {each: value for each, value in options.items() if each in _DEPS}
        deps = cast("DepsOptions", named)
        added = Additions(
            tools=tools, agents=listed(agents), models=tuple(models), deps=given_deps(deps)
        )
        plugins = load_plugins(options.get("plugins", ()), options.get("hooks", ()))
        added.check(plugins.hooks.project)
        check_names(added.agents)
        names = [each.name for each in with_handoffs(added.agents)]
        project = load_project(settings, tools, plugins=plugins, agents=names)
        resumes = options.get("resume", True)
        async with open_project(settings, project, added, resumes=resumes) as runtime:
            if path != MEMORY:
                runtime.parts.chat.agents.warn_of_added_agents()
            yield runtime


@asynccontextmanager
async def open_project(
    settings: Settings,
    project: Project,
    added: Additions = NOTHING_ADDED,
    *,
    resumes: bool = True,
) -> AsyncIterator[Runtime]:
    """Open a project whose settings and files were read, and resume its unfinished tasks.

    With `resumes=False` it works only on tasks of this runtime: a process that ends soon would only
    interrupt the others again. Raises DeclarationError if a file has an error and `[tools] strict`
    is set.
    """
    async with AsyncExitStack() as closing:
        runtime = await closing.enter_async_context(_prepared(settings, project, added))
        if resumes:
            web_url = settings.server.web_url
            work = background_work(runtime, egress_of(settings), web_url)
            await closing.enter_async_context(work)
            await runtime.parts.engine.launcher.open()
            if (ticker := runtime.schedules.ticker) is not None:
                ticker.open()
                closing.push_async_callback(ticker.close)
        else:
            await runtime.parts.engine.launcher.attend()
        yield runtime


@asynccontextmanager
async def _prepared(
    settings: Settings, project: Project, added: Additions
) -> AsyncIterator[Runtime]:
    check_strict(settings, project)
    world = World(added.clock, settings.limits, new_id)
    project_parts = project_parts_of(settings, project, world, added)
    check_tool_ids(added.agents, project_parts.tools.registry)
    check_reverts(added.tools, with_inner(added.agents), project_parts.tools.registry)
    async with AsyncExitStack() as closing:
        storage = await closing.enter_async_context(open_storage(settings, project, world))
        runtime = assemble(world, storage, project_parts)
        if project.sandbox is not None:
            project.sandbox.check()
            closing.push_async_callback(project.sandbox.close)
        reloader = ProjectReloader(
            runtime=runtime, settings=settings, first=project, added=added.tools
        )
        follower = open_plugins(reloader, storage.log)
        closing.push_async_callback(follower.close)
        reloader.protect(project)
        closing.push_async_callback(runtime.close)
        await reloader.follow(project)
        yield runtime


@asynccontextmanager
async def open_storage(
    settings: Settings, project: Project, world: World
) -> AsyncIterator[Storage]:
    """Open the database and the blob store of a project, until the block ends."""
    clock = world.clock
    cipher = open_cipher(settings.secret_key.get_secret_value(), settings.data_path)
    database = await open_database(
        settings.database, synchronous=settings.synchronous, limits=world.limits
    )
    try:
        blobs = open_blobs(settings.blob_place, clock)
        catalog = project.bundle.permissions
        database_parts = DatabaseParts(
            database, blobs, clock, cipher, permissions=catalog, plan=settings.retention.plan
        )
        webhooks = tuple(each.webhook for each in settings.webhooks)
        yield Storage(
            log=SqlLog(database, blobs, clock, webhooks=webhooks),
            projections=SqlProjections(database, blobs),
            blobs=blobs,
            key=database.secret,
            links=Links(database.secret, clock, settings.server.blob_url_seconds),
            owner=this_process(new_id("run")),
            database_parts=database_parts,
            vault=database_parts.vault,
            files=SqlFiles(database, clock),
            state=SqlState(database, clock),
            media=SqlMedia(database, clock),
            folder=settings.data_path,
            webhooks=webhooks,
        )
    finally:
        await database.close()


def open_plugins(reloader: ProjectReloader, log: Log) -> RunFollower:
    """Connect plugins to the open project; they follow its runs until the result is closed."""
    plugins, runtime = reloader.first.plugins, reloader.runtime
    follower = RunFollower(plugins.events, runtime.requests.follow)
    plugins.events.open(partial(log.listen, follower.hear))
    plugins.flows.open(runtime)
    plugins.open(lambda: reloader.take(reloader.read()))
    return follower


def check_strict(settings: Settings, project: Project) -> None:
    """Raise DeclarationError if `[tools] strict` is set and a file has an error."""
    errors = errors_of(project.diagnostics)
    if settings.tools.strict and errors:
        raise DeclarationError(sort(errors))


def project_parts_of(
    settings: Settings, project: Project, world: World, added: Additions = NOTHING_ADDED
) -> ProjectParts:
    """Return the parts that come from the project and from the embedding program."""
    plugins = project.plugins
    agents = _agents_of(settings, project, added)
    flows = flows_of(settings, agents.catalog, plugins.flows_dirs)
    tools = DeclaredTools(
        registry=Registry(
            [*project.every_tool, *with_global_tools(added.tools, settings.global_tools)],
            project.bundle.named_permissions,
            project.broken_tools,
        ),
        rules=RuleSet(entry.rule() for entry in settings.rules),
        skills=Skills(project.every_skill, settings.root),
        egress=egress_of(settings),
        channels=tuple(each.channel(name) for name, each in settings.notifications.items()),
        web_url=settings.server.web_url,
    )
    config, folder = constants_of(settings), folder_of(settings)
    return ProjectParts(
        tools=tools,
        agents=agents,
        flows=DeclaredFlows(
            library=flows,
            files=flows,
            settings=FlowSettings(config=config, is_autonomous=settings.flows.autonomous),
            handbooks=project.handbooks,
            code_environment=code_environment_of(settings, project),
        ),
        folder=folder,
        authoring=ProjectAuthoring(
            folder,
            ProjectAgents(agents.catalog, project.nameable, plugins.agents_dirs),
            flows,
            dry_runs=DryRuns(agents=agents.catalog, flows=flows, world=world, config=config),
            notify=partial(plugins.events.notify, "flow_rediscovered"),
        ),
        confinement=project.sandbox.confinement if project.sandbox else {},
        local=settings.local.profile,
    )


def egress_of(settings: Settings) -> Egress:
    """Return the one way to the network, with the policy of the project."""
    section = settings.egress
    return Egress(settings.limits, allow=section.allow, allow_private=section.allow_private)


def _agents_of(settings: Settings, project: Project, added: Additions) -> DeclaredAgents:
    models, catalog = settings.find_models(), Catalog(given=added.deps)
    for model in added.models:
        models.add(model)
    models.get()  # a wrong default is reported when the project is opened
    catalog.replace_files(project.agent_files)
    hooks = project.plugins.hooks
    for agent in added.agents:
        catalog.check_free(agent)
        hooks.select(catalog.add(agent).name, agent.hooks)
    return DeclaredAgents(
        catalog=catalog,
        models=models,
        model_names=ModelNames(roles=settings.models.roles),
        prompt_prefix=project.prompt_prefix,
        hooks=hooks,
        deps=added.deps,
    )


def folder_of(settings: Settings) -> ProjectFolder:
    """Return the project's folder; agents cannot see the runtime's own files in it.

    The runtime's own files are the data folder, the key, the blobs and the database.
    """
    root, limits = settings.root.resolve(), settings.limits
    paths = [settings.data_path, settings.data_path / KEY_FILE, Path(settings.blob_place)]
    if settings.database.startswith(_SQLITE):
        database = settings.database.removeprefix(_SQLITE)
        paths += [Path(f"{database}{ending}") for ending in _SQLITE_FILES]
    inside = [path for path in paths if path != root and path.is_relative_to(root)]
    private = dict.fromkeys(path.relative_to(root).as_posix() for path in inside)
    return ProjectFolder(
        root=root,
        private=tuple(private),
        loaded=LoadedFiles(),
        shell=replace(
            settings.flows.shell_settings,
            slots=ProcessSlots(limits.shell_commands),
            processes=limits.shell_processes,
            memory_mb=limits.shell_memory_mb,
        ),
    )
