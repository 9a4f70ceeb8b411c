"""Calls one tool under a debugger: told where to attach, stopped at a line of its source."""

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest

from tests.kit.devtools import DevTools
from tests.kit.project import ProjectFolder

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
    command = ["debug", "double", "--input", '{"n": 21}', "--json", "--project", str(project.root)]
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "penstock", *command),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert child.stderr is not None
    said = (await child.stderr.readuntil(b"v8only")).decode()
    found = re.search(r"devtools://devtools/bundled/js_app\.html\?ws=(\S+)&v8only", said)
    assert found is not None, said
    devtools = await DevTools.attach(found[1])
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
