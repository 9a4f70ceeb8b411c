"""Loads a project: the folder with the files of its authors."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.agents.agent import Agent
from penstock.agents.agent_file import NOTHING_KNOWN, KnownNames
from penstock.agents.agent_folders import HANDBOOKS, AgentFiles, load_agents
from penstock.agents.prompt import PromptPrefix, PromptScript
from penstock.app.global_tools import (
    check_families,
    check_global_tools,
    check_reverts,
    with_global_tools,
)
from penstock.app.plugins.api import PluginApi, load_plugins
from penstock.app.script_sandbox import ProjectSandbox, with_engines
from penstock.app.settings import FILE, Settings
from penstock.app.settings_sections import Engine
from penstock.builtins import TOOLS
from penstock.builtins.families import FAMILIES, ProjectFeatures, offer_builtins
from penstock.builtins.skill_manifests import SKILLS
from penstock.builtins.skills import with_handbooks
from penstock.builtins.workflow import with_seconds
from penstock.core.diagnostics import Diagnostic, errors_of, sort
from penstock.core.errors import ConfigError
from penstock.core.ids import ASSISTANT
from penstock.core.late import is_installed, late
from penstock.flows.project.files import find_flows, read_flow_file
from penstock.manifest.bundle import Bundle, load_bundle
from penstock.manifest.handbook import HandbookCatalog, find_handbooks
from penstock.manifest.references import Definition, ProjectNames
from penstock.manifest.skill import SkillManifest
from penstock.models.names import ModelNames
from penstock.resources.hosts import read_patterns
from penstock.sandbox.script import Sandbox
from penstock.tools.policy import PLUGIN, SCRIPT
from penstock.tools.python.load import FOLDER, LoadedTools, PythonTool, load_tools
from penstock.tools.scripts.bindings import Bindings
from penstock.tools.tool import Tool

HANDBOOK_FOLDERS = ("handbooks", ".pi/flows/skills")
"""The folders of a project's handbooks; an earlier folder wins."""
MARKS = (FILE, ".penstock")
"""The names that mark a folder as a project, for `find_root`."""


class Project(Struct, frozen=True, kw_only=True):
    """Everything loaded from a folder. A broken file is in `diagnostics` and nowhere else."""

    root: Path
    agent_files: AgentFiles = field(default_factory=AgentFiles)
    """The agents of its files and packages, and the built-in agents."""
    nameable: KnownNames = NOTHING_KNOWN
    """The names that agent files can refer to."""
    handbooks: HandbookCatalog = field(default_factory=HandbookCatalog)
    tools: tuple[Tool, ...] = ()
    broken_tools: Mapping[str, str] = field(default_factory=dict)
    """Python tools that failed to load, by id, with the error and its line."""
    builtin_tools: tuple[Tool, ...] = TOOLS
    """The built-in tools as configured: `global_tools` can make some global."""
    bundle: Bundle = field(default_factory=Bundle)
    """The contents of its manifests."""
    sandbox: ProjectSandbox | None = None
    """The sandbox of its scripts; the opener of the project must close it."""
    prompt_prefix: PromptPrefix | None = None
    """The beginning of every system prompt."""
    plugins: PluginApi = field(default_factory=PluginApi)
    """Everything that plugins have registered."""
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def agents(self) -> tuple[Agent, ...]:
        """Return the project's own agents."""
        return tuple(self.agent_files.agents)

    @property
    def every_tool(self) -> tuple[Tool, ...]:
        """Return the built-in tools, the project's and those of plugins."""
        return (*self.builtin_tools, *self.tools, *self.plugins.tools.values())

    @property
    def every_skill(self) -> Mapping[str, SkillManifest]:
        """Return the built-in skills and the project's, by id; broken ones are not among them."""
        return {**SKILLS, **self.bundle.skills}


class ProjectCheck(Struct, frozen=True, kw_only=True):
    """All findings in a project, sorted, with the number of checked files."""

    diagnostics: tuple[Diagnostic, ...]
    tools: int
    skills: int
    flows: int = 0

    @property
    def errors(self) -> int:
        """Return how many errors there are."""
        return len(errors_of(self.diagnostics))

    @property
    def warnings(self) -> int:
        """Return how many warnings there are."""
        return len(self.diagnostics) - self.errors


FurtherCheck = Callable[[Project], Iterable[Diagnostic]]
"""A further check of a project that was loaded."""


def find_root(start: Path) -> Path:
    """Return the nearest project folder at or above a folder."""
    here = start.resolve()
    for folder in (here, *here.parents):
        if any((folder / mark).exists() for mark in MARKS):
            return folder
    raise ConfigError(
        f"There is no project in {here} or above it: no {FILE} was found. "
        "Make one with `penstock init`, or name its folder with --project."
    )


def check_root(folder: Path) -> Path:
    """Return the folder if it exists; any folder that is named can be a project."""
    if folder.is_dir():
        return folder.resolve()
    problem = "is a file" if folder.exists() else "does not exist"
    raise ConfigError(f"The project's folder {str(folder)!r} {problem}: name a folder.")


def load_project(
    settings: Settings,
    added: Iterable[Tool] = (),
    sandbox: ProjectSandbox | None = None,
    *,
    plugins: PluginApi | None = None,
    agents: Collection[str] = (),
) -> Project:
    """Read everything that authors wrote in the project's folder; its Python tools are imported.

    `added` are tools of the program, and `agents` the names of its agents: files can refer to them.
    A reload passes the `sandbox` and the `plugins` of the first edition; else both are loaded.
    """
    root, plugins = settings.root, plugins or load_plugins()
    loaded = load_tools(root, reserved=_reserved(plugins), is_on=settings.tools.python)
    chosen = settings.global_tools
    provided = with_global_tools((*TOOLS, *added, *plugins.tools.values()), chosen)
    python_tools = with_global_tools(loaded.tools, chosen)
    bundle = load_bundle(root, _other_names(loaded, provided, settings))
    sandbox = sandbox or sandbox_of(settings)
    bundle, scripts = _scripts(bundle, settings, sandbox)
    bundle, prompt_script = _prompt_script(bundle, settings, sandbox)
    prompt_prefix = _prompt_prefix(bundle, prompt_script, python_tools)
    loaded_tools = [each for each in python_tools if each.spec.tool_id not in bundle.broken_tools]
    known, handbooks = _ids((*provided, *python_tools, *scripts)), _handbooks(root, plugins)
    tools = {*known, *bundle.broken_tools} if loaded.is_whole else None
    nameable = _known_names(tools, bundle, handbooks, roles=settings.models.roles, agents=agents)
    agent_files = load_agents(root, nameable, plugins.agents_dirs)
    features = _features(settings, plugins, bundle, agents=agent_files, handbooks=handbooks)
    return Project(
        root=root,
        agent_files=agent_files,
        nameable=nameable,
        handbooks=handbooks,
        tools=(*loaded_tools, *with_global_tools(scripts, chosen)),
        broken_tools=loaded.broken,
        builtin_tools=_builtin_tools(settings, features, handbooks),
        bundle=bundle,
        sandbox=sandbox,
        prompt_prefix=prompt_prefix,
        plugins=plugins,
        diagnostics=(
            *agent_files.diagnostics,
            *loaded.diagnostics,
            *_findings(bundle, agent_files, agents),
            *_check_settings(settings, known, features),
            *check_reverts([*loaded_tools, *scripts], provided, bundle),
        ),
    )


def check_project(
    settings: Settings, *further: FurtherCheck, engine: Engine | None = None
) -> ProjectCheck:
    """Return every finding in a project, those of the further checks included.

    With an engine, check as if every script ran in it.
    """
    sandbox = sandbox_of(settings, engine)
    project = load_project(settings, sandbox=sandbox)
    diagnostics = [*project.diagnostics, *(each for check in further for each in check(project))]
    return ProjectCheck(
        diagnostics=tuple(sort(diagnostics)),
        tools=project.bundle.tool_count + sum(each.spec.kind != SCRIPT for each in project.tools),
        skills=project.bundle.skill_count,
        flows=len(find_flows(settings.root).files),
    )


def sandbox_of(settings: Settings, only: Engine | None = None) -> ProjectSandbox:
    """Return the sandbox of a project's scripts; `only` overrides the engine of each."""
    bound = settings.limits.processes
    return ProjectSandbox(settings.cache_path, settings.sandbox, only=only, processes=bound)


def _reserved(plugins: PluginApi) -> dict[str, str]:
    """Return the reserved tool ids, each with what reserves it."""
    reserved = dict.fromkeys((each.spec.tool_id for each in TOOLS), "a built-in tool")
    return reserved | dict.fromkeys(plugins.tools, "a tool of a plugin")


def _check_settings(
    settings: Settings, tools: Collection[str], features: ProjectFeatures
) -> Iterator[Diagnostic]:
    """Yield findings for names in the settings that do not exist or have no effect."""
    file = settings.root / FILE
    yield from check_global_tools(settings.global_tools, tools, file)
    yield from check_families(settings.tools.builtin, features, file)
    yield from check_roles(settings.models.roles, file)


def check_roles(roles: Mapping[str, str], file: Path) -> Iterator[Diagnostic]:
    """Yield a finding for each role of `[models.roles]` that leads to no model.

    `file` is penstock.toml; a role may also come from a variable or from the program.
    """
    names = ModelNames(roles=roles)
    for role, meaning in roles.items():
        try:
            names.model(f"@{role}")
        except ConfigError as error:
            yield Diagnostic(
                code="model-role",
                message=str(error),
                file=file.name,
                line=_line_of_role(file, role),
                suggestion=f'write a model in the place of "{meaning}"',
            )


def _line_of_role(file: Path, role: str) -> int:
    """Return the line that sets a role, or 1 where the file does not set it."""
    key = re.compile(rf"""\s*(models\.|roles\.)*["']?{re.escape(role)}["']?\s*=""")
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    table = next((index for index, line in enumerate(lines) if "roles" in line), 0)
    numbered = enumerate(lines, 1)
    return next((number for number, line in numbered if number > table and key.match(line)), 1)


def _builtin_tools(
    settings: Settings, features: ProjectFeatures, handbooks: HandbookCatalog
) -> tuple[Tool, ...]:
    tools = with_handbooks(with_seconds(TOOLS, settings.limits.workflow_seconds), handbooks)
    offered = offer_builtins(tools, settings.tools.builtin, features)
    return with_global_tools(offered, settings.global_tools)


def _features(
    settings: Settings,
    plugins: PluginApi,
    bundle: Bundle,
    *,
    agents: AgentFiles,
    handbooks: HandbookCatalog,
) -> ProjectFeatures:
    """Return the features of the project that built-in tools need."""
    books = (handbooks.get(name) for name in handbooks.names)
    flows = find_flows(settings.root, plugins.flows_dirs).files.values()
    return ProjectFeatures(
        has_skills=bool(bundle.skills),
        has_handbooks=any(
            book and book.files and book.folder.parent != HANDBOOKS for book in books
        ),
        has_agents=any(each.name != ASSISTANT for each in (*agents.agents, *agents.packaged)),
        has_flows=any(read_flow_file(each).flow for each in flows),
        has_shell=settings.flows.shell,
        has_channels=bool(settings.notifications),
        has_workbooks=is_installed("openpyxl"),
    )


def _handbooks(root: Path, plugins: PluginApi) -> HandbookCatalog:
    own = (root / each for each in HANDBOOK_FOLDERS)
    return find_handbooks([*own, *plugins.skills_dirs, HANDBOOKS], root)


def _known_names(
    tools: Collection[str] | None,
    bundle: Bundle,
    handbooks: HandbookCatalog,
    *,
    roles: Collection[str],
    agents: Collection[str],
) -> KnownNames:
    return KnownNames(
        tools=tools,
        skills={*SKILLS, *bundle.skills, *bundle.broken_skills},
        handbooks=handbooks.names,
        roles=roles,
        agents=agents,
        families=FAMILIES,
    )


def _ids(tools: Iterable[Tool]) -> set[str]:
    return {each.spec.tool_id for each in tools}


def _findings(
    bundle: Bundle, files: AgentFiles, of_program: Collection[str]
) -> Iterator[Diagnostic]:
    """Yield the findings in manifests, with those about the agents that schedules name."""
    # The labels of agents of the program are not known yet.
    labels: dict[str, Sequence[str] | None] = dict.fromkeys((ASSISTANT, *of_program))
    labels |= {each.name: each.settings.labels for each in (*files.agents, *files.packaged)}
    yield from bundle.diagnostics
    yield from bundle.check_agents(labels)


def _permissions(bundle: Bundle, tools: Iterable[Tool]) -> frozenset[str]:
    """Return the permissions that manifests and tools name."""
    return bundle.named_permissions.union(*(each.spec.requires_permissions for each in tools))


def _scripts(
    bundle: Bundle, settings: Settings, sandbox: ProjectSandbox
) -> tuple[Bundle, list[Tool]]:
    """Return the bundle with the findings in its scripts, and its tools.

    The modules that read scripts are loaded only for projects that have some.
    """
    if not (bundle.tools or bundle.broken_tools):
        return bundle, []
    make_loader = late("penstock.tools.scripts.load:ScriptToolLoader")
    read = late("penstock.tools.scripts.load:load_tools")
    usual = Bindings(
        egress=read_patterns(settings.egress.default),
        timeout_ms=settings.limits.timeout_ms,
        runtime_config=settings.runtime_config,
    )
    loader = make_loader(sandbox, usual)
    loaded: tuple[Bundle, list[Tool]] = read(bundle, settings.root, loader, settings.cache_path)
    return with_engines(loaded[0], sandbox), loaded[1]


def _prompt_prefix(
    bundle: Bundle, prompt_script: PromptScript | None, python_tools: Sequence[Tool]
) -> PromptPrefix | None:
    if bundle.prompts is None:
        return None
    return PromptPrefix(bundle.prompts.preamble, prompt_script, _permissions(bundle, python_tools))


def _prompt_script(
    bundle: Bundle, settings: Settings, sandbox: Sandbox
) -> tuple[Bundle, PromptScript | None]:
    """Return the bundle with the findings in its prompt script, and the script if it has one."""
    prompts = bundle.prompts
    if prompts is None or (resolver := prompts.resolver) is None:
        return bundle, None
    read = late("penstock.tools.scripts.load:load_prompt_script")
    script, problems, reached = read(prompts, resolver, settings.root, settings.cache_path)
    diagnostics = sort([*bundle.diagnostics, *problems])
    prompt_script = PromptScript(script or problems, sandbox, resolver.timeout_ms / 1000)
    broken = bundle.broken_nouns if script else bundle.broken_nouns | {"prompts"}
    bundle = replace(
        bundle,
        diagnostics=diagnostics,
        broken_nouns=broken,
        reached=bundle.reached | reached,
    )
    return bundle, prompt_script


def _other_names(
    loaded: LoadedTools, provided: tuple[Tool, ...], settings: Settings
) -> ProjectNames:
    specs, chosen = [each.spec for each in (*provided, *loaded.tools)], settings.global_tools
    return ProjectNames(
        builtin_tools=frozenset(each.spec.tool_id for each in provided),
        plugin_tools=frozenset(each.spec.tool_id for each in provided if each.spec.kind == PLUGIN),
        builtin_skills={name: each.tools for name, each in SKILLS.items()},
        python_tools={each.tool_id: _definition(each) for each in loaded.tools},
        open_tools=frozenset(
            [*(each.tool_id for each in specs if each.is_global or each.direct_call), *chosen]
        ),
        engines=settings.sandbox.allow,
    )


def _definition(tool: PythonTool) -> Definition:
    name = tool.__module__.rpartition(".")[2]
    return Definition(file=f"{FOLDER}/{name}.py", line=tool.line)
