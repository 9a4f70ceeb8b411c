"""Commands for authors of flows: check flows, agents and handbooks; draft missing modules."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct, field

from penstock.agents import agent_folders as agents
from penstock.app.flows import dry_runs_of, faults_beside, project_flows
from penstock.app.project import HANDBOOK_FOLDERS
from penstock.cli.completion import flows as flow_names
from penstock.cli.flow.run import FlowName
from penstock.cli.options import ProjectFolder, Strict
from penstock.cli.project import ReadProject, find
from penstock.cli.terminal.exit_codes import FAILED, FINE
from penstock.cli.terminal.output import AsJson, pasted, print_json, say
from penstock.core.diagnostics import Diagnostic, errors_of, has_error, in_file_order
from penstock.core.errors import NotFound
from penstock.core.text import count
from penstock.flows.checks.context import CheckContext
from penstock.flows.dry_run.outcome import DryRun
from penstock.flows.project import files as flows
from penstock.flows.project.authoring import DRAFT, check_local, missing_drafts
from penstock.flows.project.files import FlowFile, FlowRoot, file_at, local_by_path
from penstock.flows.project.flows import CONSTANTS_FILE, ProjectFlows
from penstock.flows.project.library import SUFFIXES, unknown_flow
from penstock.resources.project.files import ProjectFiles

Paths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATH",
        help="Check only these: commands of flows, files, or folders.",
        autocompletion=flow_names,
    ),
]
Dry = Annotated[
    bool,
    typer.Option("--dry-run", help="Also simulate each flow on every path, without side effects."),
]
_PLACES = (*flows.FOLDERS, *agents.FOLDERS, *HANDBOOK_FOLDERS)


def check(
    names: Paths = None,
    *,
    strict: Strict = False,
    dry: Dry = False,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """Report the errors and warnings in flows, agents and handbooks: in all, or the named ones."""
    read_project = find(project)
    library = project_flows(read_project.settings, read_project.project)
    chosen = _wanted(read_project, library, names)
    diagnostics = list(dict.fromkeys(chosen.diagnostics))
    runs: dict[str, DryRun] = {}
    for file in chosen.flows.values():
        read, findings = library.check(file)
        if dry and not has_error(findings):
            runs[file.command], more = dry_runs_of(read_project.settings, read_project.project).run(
                read, file
            )
            findings = in_file_order([*findings, *more])
        diagnostics += findings
    errors = len(errors_of(diagnostics))
    counts = {"flows": len(chosen.flows), "errors": errors, "warnings": len(diagnostics) - errors}
    if as_json:
        _print_found(diagnostics, counts, runs if dry else None)
    else:
        for diagnostic in diagnostics:
            say(str(diagnostic))
        for command, run in runs.items():
            say(_walked(command, run))
        say(", ".join(count(number, name.removesuffix("s")) for name, number in counts.items()))
    raise typer.Exit(FAILED if errors or (strict and counts["warnings"]) else FINE)


class _Wanted(Struct, frozen=True, kw_only=True):
    flows: dict[str, FlowFile] = field(default_factory=dict)
    """By file name, because a file without a command, or a shadowed one, can be checked too."""
    diagnostics: list[Diagnostic] = field(default_factory=list)
    """Findings in other files than flows."""


def _wanted(
    read_project: ReadProject, library: ProjectFlows, names: Sequence[str] | None
) -> _Wanted:
    """Return the flows and findings to report. Raises NotFound for an unknown name."""
    files = library.files()
    beside = [*read_project.project.agent_files.diagnostics]
    beside += faults_beside(read_project.settings, read_project.project, files)
    if not names:
        every = {each.name: each for _, each in sorted(files.files.items())}
        return _Wanted(flows=every, diagnostics=beside)
    chosen = _Wanted()
    for name in names:
        file = files.files.get(name.removeprefix("/"))
        if file is not None:
            chosen.flows[file.name] = file
            continue
        place = _place(read_project.settings.root, name)
        if place is None:
            raise _unknown(name, files.files)
        by_path = local_by_path(files)
        chosen.flows.update((path, by_path[path]) for path in by_path if _is_of(path, place))
        if place.endswith(SUFFIXES) and place not in by_path and place != CONSTANTS_FILE:
            chosen.flows[place] = file_at(place, read_project.settings.root, "")
        chosen.diagnostics.extend(each for each in beside if _is_of(each.file, place))
    return chosen


def _place(root: Path, name: str) -> str | None:
    """Return the project path of a file or folder that can be checked; None for any other name."""
    for whole in (root / name, Path.cwd() / name):
        path = whole.resolve()
        if not os.access(path, os.F_OK) or not path.is_relative_to(root):
            continue
        place = path.relative_to(root).as_posix()
        inside = any(_is_of(place, each) for each in _PLACES)
        if inside or (path.is_file() and place.endswith(SUFFIXES)):
            return place
    return None


def _is_of(path: str, place: str) -> bool:
    return path == place or path.startswith(f"{place}/")


def _unknown(name: str, known: Mapping[str, FlowFile]) -> NotFound:
    if "/" in name.removeprefix("/") or "." in name:
        missing = f"there is no flow, agent or handbook at {name!r}"
        return NotFound(f"{missing}: give a path in the project folder, or a flow's command")
    return unknown_flow(name.removeprefix("/"), known)


def _print_found(
    diagnostics: Sequence[Diagnostic],
    counts: Mapping[str, int],
    runs: Mapping[str, DryRun] | None,
) -> None:
    problems = [each.to_wire() for each in diagnostics]
    dry = [{"flow": name, **each.to_wire()} for name, each in (runs or {}).items()]
    print_json({"problems": problems, **counts} | ({} if runs is None else {"dryRuns": dry}))


def _walked(command: str, run: DryRun) -> str:
    taken = sum(each.is_walked for each in run.branches)
    steps = f"{count(len(run.reached), 'step')} reached"
    branches = f"{taken} of {len(run.branches)} branches taken"
    end = "" if run.is_complete else "; not every path was tried"
    runs = f"{count(run.runs, 'dry run')}, {count(run.starts, 'start')}"
    return f"/{command}: {runs}, {steps}, {branches}{end}"


PrintOnly = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be written, and write nothing.")
]


def generate(
    name: FlowName,
    *,
    dry: PrintOnly = False,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """Write a draft of each missing module of the flow's code steps. Overwrites nothing.

    The file name of a draft ends in .default, so no flow runs it. Edit it, then remove the suffix.
    """
    read_project = find(project)
    texts = _texts(
        project_flows(read_project.settings, read_project.project), name.removeprefix("/")
    )
    files = ProjectFiles(read_project.settings.root)
    places = {path: files.at(path) for path in texts}
    root = FlowRoot(files.root)
    written = [path for path, place in places.items() if not root.has_file(place.real)]
    for path in written if not dry else ():
        files.write(places[path], texts[path].encode())
    kept = [path for path in texts if path not in written]
    if as_json:
        print_json({"written": written, "kept": kept, "dryRun": dry})
        return
    for path in texts:
        verb = "kept" if path in kept else "would write" if dry else "wrote"
        say(f"{verb} {path}")
    if not texts:
        say("nothing is missing")
    elif written and not dry:
        say(f"edit each file, then remove {DRAFT} from its name")


def _texts(library: ProjectFlows, command: str) -> Mapping[str, str]:
    """Return the drafts by path. Raises NotFound, or ReadOnly for a flow of a plugin."""
    files: Mapping[str, FlowFile] = library.files().files
    if command not in files:
        raise unknown_flow(command, files)
    file = files[command]
    check_local(file)
    flow = library.check(file)[0].flow
    if flow is None:
        raise NotFound(
            f'"/{command}" has errors: {pasted("penstock", "flow", "check", command)} shows them'
        )
    return missing_drafts(flow, FlowRoot(file.root).check_context(file, CheckContext()))
