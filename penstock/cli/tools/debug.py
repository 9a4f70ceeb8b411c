"""Calls one tool with its scripts under a debugger, which DevTools of a browser attach to."""

import sys
from typing import Annotated

import typer
from msgspec.structs import replace

from penstock.app.opening import visit_project
from penstock.app.project import Project
from penstock.chat.message import NewCall
from penstock.cli.arguments.completion import direct_tools
from penstock.cli.arguments.input import read_object
from penstock.cli.arguments.options import AsJson, ProjectFolder, ToolInput
from penstock.cli.arguments.project import ReadProject, find
from penstock.cli.interaction.background import Background
from penstock.cli.terminal.findings import tell_findings
from penstock.cli.terminal.output import note, print_json, say
from penstock.cli.terminal.render import envelope_text
from penstock.cli.tools.call import WatchedCall, not_direct
from penstock.core.envelope import Envelope, Json
from penstock.sandbox.debug_sandbox import PATIENCE
from penstock.sandbox.processes.deno import missing_deno
from penstock.tools.access.policy import SCRIPT
from penstock.tools.scripts.script import ScriptTool

USUAL_PORT = 9229
"""Where DevTools look by themselves."""
Name = Annotated[
    str, typer.Argument(metavar="TOOL", help="The tool's id.", autocompletion=direct_tools)
]
Port = Annotated[
    int,
    typer.Option(
        min=0, max=65535, help="Where DevTools attach; if it is taken the next one, 0 is any."
    ),
]
_SAID = """{number}. script waits for a debugger at {place}. In Chrome or Edge, either open
   devtools://devtools/bundled/js_app.html?ws={address}&v8only=true
   or chrome://inspect, and choose "inspect" where it stands under "Remote Target";
   {found}
It stops in front of its first line; its files stand under tool:///. Ctrl-C cancels the call."""
_IS_FOUND = "if it does not, add {place} there under Configure…"
_IS_TO_ADD = "there, add {place} under Configure… first: it is not the usual port"


def debug(
    tool: Name,
    *,
    given: ToolInput = None,
    port: Port = USUAL_PORT,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """Call one tool that allows direct calls; each script in it waits until DevTools attach.

    The scripts run in the engine deno, whatever they wish for, and no limit of time holds for an
    hour. Ctrl-C cancels the call. Exit codes are those of `penstock call`.
    """
    if missing := missing_deno():
        raise typer.BadParameter(missing)
    found = find(project)
    tell_findings(found.project, tool)
    told: list[str] = []

    def tell(address: str) -> None:
        told.append(address)
        note(where(len(told), address))

    if found.project.sandbox is not None:
        found.project.sandbox.debug(tell, port)
    _lift_timeouts(found.project)
    envelope, code = _called(found, tool, read_object(given, "--input"), is_asking=not as_json)
    if as_json:
        print_json(envelope.to_wire())
    else:
        say(envelope_text(envelope))
    raise typer.Exit(code)


def _called(found: ReadProject, tool: str, given: Json, *, is_asking: bool) -> tuple[Envelope, int]:
    """Call the tool; returns the outcome, and the exit code."""
    context = visit_project(found.settings, found.project)
    with Background() as background:
        runtime = background.enter(context)
        try:
            watched = WatchedCall(runtime, background, is_asking=sys.stdin.isatty() and is_asking)
            refusal = not_direct(runtime.parts.invoker.registry.find(tool))
            if refusal is not None:
                envelope = refusal.envelope()
                note("`penstock tools list --direct` lists the tools that can be called")
            else:
                envelope = watched.outcome(watched.begun(NewCall(tool_id=tool, input=dict(given))))
                watched.show_waiting(envelope)
            return envelope, watched.code(envelope)
        finally:
            background.leave(context)


def where(number: int, address: str) -> str:
    """Return how to attach to a script that waits at `HOST:PORT/ID`."""
    place = address.partition("/")[0]
    is_usual = place.endswith(f":{USUAL_PORT}")
    said = (_IS_FOUND if is_usual else _IS_TO_ADD).format(place=place)
    return _SAID.format(number=number, place=place, address=address, found=said)


def _lift_timeouts(project: Project) -> None:
    for tool in project.tools:
        if isinstance(tool, ScriptTool) and tool.spec.kind == SCRIPT:
            tool.spec = replace(tool.spec, timeout_ms=int(PATIENCE * 1000))
