"""Calls one tool with its scripts under a debugger, which DevTools of a browser attach to."""

import asyncio
from dataclasses import replace
from typing import Annotated

import typer

from penstock.app.opening import open_project
from penstock.app.project import Project
from penstock.cli.call import not_direct
from penstock.cli.completion import direct_tools
from penstock.cli.exit_codes import FAILED, OF_CALLS
from penstock.cli.findings import tell_findings
from penstock.cli.input import read_object
from penstock.cli.options import AsJson, ProjectFolder
from penstock.cli.output import note, print_json
from penstock.cli.project import ReadProject, find
from penstock.cli.render import clean, envelope_text
from penstock.core.envelope import Envelope, Json
from penstock.sandbox.debugging import PATIENCE
from penstock.sandbox.processes.deno import missing_deno
from penstock.tools.policy import SCRIPT
from penstock.tools.scripts.script import ScriptTool

Name = Annotated[
    str, typer.Argument(metavar="TOOL", help="Which tool.", autocompletion=direct_tools)
]
Input = Annotated[
    str | None, typer.Option("--input", "-i", help="Its input: JSON, @FILE, or - for stdin.")
]
_SAID = """{number}. script waits for a debugger. Open one of these in Chrome or Edge:
   devtools://devtools/bundled/js_app.html?ws={address}&v8only=true
   chrome://inspect, where it stands under "Remote Target"
It stops in front of its first line; its files stand under tool:///."""


def debug(
    tool: Name, *, given: Input = None, project: ProjectFolder = None, as_json: AsJson = False
) -> None:
    """Call one tool that allows direct calls; each script in it waits until DevTools attach.

    The scripts run in the engine deno, whatever they wish for, and no limit of time holds for an
    hour. Exit codes are those of `penstock call`.
    """
    if missing := missing_deno():
        raise typer.BadParameter(missing)
    found = find(project)
    tell_findings(found.project, tool)
    envelope = asyncio.run(_called(found, tool, read_object(given, "--input")))
    if as_json:
        print_json(envelope.to_wire())
    else:
        print(clean(envelope_text(envelope)))
    raise typer.Exit(OF_CALLS.get(envelope.status, FAILED))


async def _called(found: ReadProject, tool: str, given: Json) -> Envelope:
    told: list[str] = []

    def tell(address: str) -> None:
        told.append(address)
        note(_SAID.format(number=len(told), address=address))

    if found.project.sandbox is not None:
        found.project.sandbox.debug(tell)
    _lift_timeouts(found.project)
    async with open_project(found.settings, found.project) as runtime:
        refusal = not_direct(runtime.parts.invoker.registry.find(tool))
        return refusal.envelope() if refusal else await runtime.call(tool, dict(given))


def _lift_timeouts(project: Project) -> None:
    for tool in project.tools:
        if isinstance(tool, ScriptTool) and tool.spec.kind == SCRIPT:
            tool.spec = replace(tool.spec, timeout_ms=int(PATIENCE * 1000))
