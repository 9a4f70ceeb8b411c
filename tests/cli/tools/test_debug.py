"""`penstock debug`: the note, and a stop at a line of the source."""

import asyncio
import json
import re
import signal
import sys
from pathlib import Path

import pytest

from penstock.cli.tools.debug import where
from tests.kit.devtools import DevTools
from tests.kit.project import ProjectFolder

pytestmark = pytest.mark.programs
SOURCE = """type Input = { n: number };

export async function run({ n }: Input) {
  const doubled: number = n * 2;
  return doubled;
}
"""


@pytest.mark.slow("a process of Deno begins, with an inspector, in one of the command line")
async def test_devtools_stop_a_tool_at_a_line_of_its_file(
    tmp_path: Path, machine_code: Path
) -> None:
    """Attaches DevTools to the Deno engine: prints the URL to open."""
    project = ProjectFolder(tmp_path, machine_code)
    project.tool("double", SOURCE, timeout_ms=100)
    project.write("penstock.toml", f'cache_dir = "{project.cache}"\n')
    options = ["--port", "0", "--project", str(project.root)]
    command = ["debug", "double", "--input", '{"n": 21}', "--json", *options]
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "penstock", *command),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert child.stderr is not None
    note = (await child.stderr.readuntil(b"v8only")).decode()
    result = re.search(r"devtools://devtools/bundled/js_app\.html\?ws=(\S+)&v8only", note)
    assert result is not None, note
    devtools = await DevTools.attach(result[1])
    await devtools.ask("Debugger.enable")
    await devtools.ask("Debugger.setBreakpointByUrl", url="tool:///double.mts", lineNumber=4)
    await devtools.ask("Runtime.runIfWaitingForDebugger")
    await devtools.event("Debugger.paused")
    await devtools.ask("Debugger.resume")
    frame = (await devtools.event("Debugger.paused"))["callFrames"][0]
    assert (frame["functionName"], frame["location"]["lineNumber"]) == ("run", 4)
    seen = await devtools.ask(
        "Debugger.evaluateOnCallFrame", callFrameId=frame["callFrameId"], expression="doubled"
    )
    assert seen["result"]["value"] == 42
    await devtools.ask("Debugger.resume")
    out, _ = await child.communicate()
    await devtools.close()
    assert json.loads(out)["output"] == 42


@pytest.mark.slow("a process of Deno begins, with an inspector, in one of the command line")
async def test_ctrl_c_cancels_a_call_that_waits_for_a_debugger(
    tmp_path: Path, machine_code: Path
) -> None:
    project = ProjectFolder(tmp_path, machine_code)
    project.tool("double", SOURCE)
    project.write("penstock.toml", f'cache_dir = "{project.cache}"\n')
    options = ["--port", "0", "--project", str(project.root)]
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "penstock", "debug", "double", "--json", *options),
        "--input",
        '{"n": 21}',
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert child.stderr is not None
    await child.stderr.readuntil(b"Ctrl-C cancels the call.")
    child.send_signal(signal.SIGINT)
    out, err = await child.communicate()
    assert (child.returncode, json.loads(out)["error"]["code"]) == (130, "CANCELLED")
    assert b"Cancelling" in err
    shown = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "penstock", "tasks", "list", "--json", *options[2:]),
        stdout=asyncio.subprocess.PIPE,
    )
    (task,) = json.loads((await shown.communicate())[0])["tasks"]
    assert task["status"] == "cancelled"


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:9229/x-1", "if it is not listed, add 127.0.0.1:9229 under Configure…"),
        ("127.0.0.1:9230/x-2", "first add 127.0.0.1:9230 under Configure…"),
    ],
)
def test_the_note_shows_where_to_attach(address: str, message: str) -> None:
    result = where(1, address)
    assert f"devtools://devtools/bundled/js_app.html?ws={address}&v8only=true" in result
    assert message in result
