"""Calls one tool with its scripts under a debugger. DevTools of a browser attach to it."""

import sys
from typing import Annotated

import typer
from msgspec.structs import replace

from penstock.app.opening import open_project
from penstock.app.project import Project
from penstock.chat.requests import NewCall
from penstock.cli.completion import direct_tools
from penstock.cli.interaction.loop_thread import Background
from penstock.cli.options import ProjectFolder, ToolInput, read_object
from penstock.cli.project import ReadProject, find, print_findings
from penstock.cli.terminal.output import AsJson, note, print_json, say
from penstock.cli.terminal.render import envelope_text
from penstock.cli.tools.call import WatchedCall, not_direct
from penstock.core.envelope import Envelope, Json
from penstock.sandbox.processes.deno import PATIENCE, missing_deno
from penstock.tools.policy import SCRIPT
from penstock.tools.scripts.script import ScriptTool

DEFAULT_PORT = 9229
"""The port that DevTools search by default."""
Name = Annotated[
    str, typer.Argument(metavar="TOOL", help="The tool's id.", autocompletion=direct_tools)
]
Port = Annotated[
    int,
    typer.Option(
        min=0, max=65535, help="The port for DevTools; if in use, the next one. 0: any free port."
    ),
]
_ATTACH = """Script {number} waits for a debugger at {place}. In Chrome or Edge, either open
   devtools://devtools/bundled/js_app.html?ws={address}&v8only=true
   or chrome://inspect, and choose "inspect" below the script under "Remote Target";
   {port_advice}
The script stops before its first line; its files are under tool:///. Ctrl-C cancels the call."""
_IS_FOUND = "if it is not listed, add {place} under Configure…"
_IS_TO_ADD = "first add {place} under Configure…, because it is not the default port"


def debug(
    tool: Name,
    *,
    input_text: ToolInput = None,
    port: Port = DEFAULT_PORT,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """Call one tool that allows direct calls. Each of its scripts waits until DevTools attach.

    All scripts run in the deno engine, and every time limit is raised to one hour. Ctrl-C cancels
    the call. Exit codes are those of `penstock call`.
    """
    if missing := missing_deno():
        raise typer.BadParameter(missing)
    read = find(project)
    print_findings(read.project, tool)
    addresses: list[str] = []

    def announce(address: str) -> None:
        addresses.append(address)
        note(where(len(addresses), address))

    if read.project.sandbox is not None:
        read.project.sandbox.debug(announce, port)
    _lift_timeouts(read.project)
    envelope, code = _called(read, tool, read_object(input_text, "--input"), is_asking=not as_json)
    if as_json:
        print_json(envelope.to_wire())
    else:
        say(envelope_text(envelope))
    raise typer.Exit(code)


def _called(
    read: ReadProject, tool: str, tool_input: Json, *, is_asking: bool
) -> tuple[Envelope, int]:
    """Call the tool; return the outcome and the exit code."""
    context = open_project(read.settings, read.project, resumes=False)
    with Background() as background:
        runtime = background.enter(context)
        try:
            watched = WatchedCall(runtime, background, is_asking=sys.stdin.isatty() and is_asking)
            refusal = not_direct(runtime.parts.tools.invoker.registry.by_id.get(tool))
            if refusal is not None:
                envelope = refusal.envelope()
                note("Run `penstock tools list --direct` to see the tools that you can call.")
            else:
                request = NewCall(tool_id=tool, input=dict(tool_input))
                envelope = watched.outcome(watched.requested(request))
                watched.show_waiting(envelope)
            return envelope, watched.code(envelope)
        finally:
            background.leave(context)


def where(number: int, address: str) -> str:
    """Return how to attach to a script that waits at `HOST:PORT/ID`."""
    place = address.partition("/")[0]
    is_usual = place.endswith(f":{DEFAULT_PORT}")
    advice = (_IS_FOUND if is_usual else _IS_TO_ADD).format(place=place)
    return _ATTACH.format(number=number, place=place, address=address, port_advice=advice)


def _lift_timeouts(project: Project) -> None:
    for tool in project.tools:
        if isinstance(tool, ScriptTool) and tool.spec.kind == SCRIPT:
            tool.spec = replace(tool.spec, timeout_ms=int(PATIENCE * 1000))
