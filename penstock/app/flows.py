"""The flows of a project: the library that runs use, and their checks."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from penstock.agents.catalog import Catalog
from penstock.app.agent_warnings import check_thinking, model_ignoring
from penstock.app.authoring import DryRuns
from penstock.app.project import HANDBOOK_FOLDERS, Project
from penstock.app.settings import Settings
from penstock.core.clock import SystemClock
from penstock.core.diagnostics import Diagnostic
from penstock.core.ids import new_id
from penstock.core.limits import World
from penstock.flows.checks.context import CheckContext, cards_of
from penstock.flows.project.files import FlowIndex
from penstock.flows.project.flows import ProjectFlows, read_constants
from penstock.flows.project.modules import ModuleLoader, module_loader
from penstock.flows.steps.kind import CodeEnvironment
from penstock.manifest.handbook_checks import check_handbooks
from penstock.tools.scripts.bindings import Bindings


def flows_of(settings: Settings, agents: Catalog, packages: Sequence[Path] = ()) -> ProjectFlows:
    """Return the library of a project; each lookup sees the current agents."""
    unheeding = partial(model_ignoring, settings)

    def check_context() -> CheckContext:
        return CheckContext(
            agents=cards_of(agents.list_from_files()),
            broken_agents=agents.broken,
            has_shell=settings.flows.shell,
            unheeding=unheeding,
        )

    return ProjectFlows(
        settings.root, check_context, packages=packages, modules=modules_of(settings)
    )


def modules_of(settings: Settings) -> ModuleLoader:
    """Return the reader of code steps' modules."""
    return module_loader(settings.cache_path)


def code_environment_of(settings: Settings, project: Project) -> CodeEnvironment | None:
    """Return the environment of a project's code steps."""
    if project.sandbox is None:
        return None
    usual = Bindings(runtime_config=settings.runtime_config)
    return CodeEnvironment(sandbox=project.sandbox, load=modules_of(settings).load, usual=usual)


def project_flows(settings: Settings, project: Project) -> ProjectFlows:
    """Return the library of a project that was read but not opened."""
    agents = Catalog()
    agents.replace_files(project.agent_files)
    return flows_of(settings, agents, project.plugins.flows_dirs)


def dry_runs_of(settings: Settings, project: Project) -> DryRuns:
    """Return the dry runs for a project that was read but not opened."""
    agents = Catalog()
    agents.replace_files(project.agent_files)
    return DryRuns(
        agents=agents,
        flows=flows_of(settings, agents, project.plugins.flows_dirs),
        world=World(SystemClock(), settings.limits, new_id),
        config=constants_of(settings),
    )


def constants_of(settings: Settings) -> Mapping[str, Any]:
    """Return the values of `${{config.KEY}}` in a project; `[flows.config]` wins."""
    return {**read_constants(settings.root).values, **settings.flows.config}


def faults_beside(settings: Settings, project: Project, files: FlowIndex) -> Iterator[Diagnostic]:
    """Yield the errors outside of flow files: names, constants, handbooks and models."""
    yield from read_constants(settings.root).diagnostics
    yield from check_handbooks(settings.root, HANDBOOK_FOLDERS)
    yield from check_thinking(settings, project)
    yield from files.diagnostics


def check_flows(settings: Settings, project: Project) -> Iterator[Diagnostic]:
    """Yield the errors in the flows and handbooks of a project."""
    library = project_flows(settings, project)
    files = library.files()
    yield from faults_beside(settings, project, files)
    for file in files.files.values():
        yield from library.check(file)[1]
