"""Writes drafts of missing modules for a flow's code steps."""

from collections.abc import Mapping
from typing import Annotated

import typer

from penstock.app.flows import project_flows
from penstock.cli.arguments.options import AsJson, ProjectFolder
from penstock.cli.arguments.project import find
from penstock.cli.flow.run import FlowName
from penstock.cli.terminal.output import print_json, say
from penstock.cli.terminal.plain import pasted
from penstock.core.errors import NotFound
from penstock.flows.checks.context import CheckContext
from penstock.flows.code.templates import DRAFT, missing_drafts
from penstock.flows.project.authoring import check_local
from penstock.flows.project.files import FlowFile, FlowRoot
from penstock.flows.project.flows import ProjectFlows
from penstock.flows.project.library import unknown_flow
from penstock.resources.project.files import ProjectFiles

Dry = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be written, and write nothing.")
]


def generate(
    name: FlowName, *, dry: Dry = False, project: ProjectFolder = None, as_json: AsJson = False
) -> None:
    """Write a draft of each missing module of the flow's code steps. Overwrites nothing.

    The file name of a draft ends in .default, so no flow runs it. Edit it, then remove the suffix.
    """
    found = find(project)
    texts = _texts(project_flows(found.settings, found.project), name.removeprefix("/"))
    files = ProjectFiles(found.settings.root)
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
    return missing_drafts(flow, FlowRoot(file.root).around(file, CheckContext()))
