"""A system that starts no more processes: calls report it and leave nothing open."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.programs

ROOT = Path(__file__).parents[2]
PROGRAM = """
import asyncio, os, sys, tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from penstock.core.errors import OutOfResources
from penstock.core.exhaustion import exhaustion_of
from penstock.resources.project.search import SearchQuery, search
from penstock.sandbox.processes.process import found_layers
from penstock.sandbox.processes.process import Command, Process
from penstock.sandbox.processes.shell import Enclosure, ShellCommand, run_shell
from penstock.sandbox.processes.process_sandbox import WarmProcesses
from tests.kit.exhausted_process import allow_no_process

COMMAND = Command(argv=["/bin/true"], folder=Path("/"))
SHELL = dict(text="true", folder=Path("/"), seconds=1, max_bytes=100)

async def script(): Process(COMMAND, ThreadPoolExecutor(1))
async def taken(): await WarmProcesses(lambda _: COMMAND, lambda _: None).take(8)
async def free(): await run_shell(ShellCommand(**SHELL, enclosure=None))
async def enclosed(): await run_shell(ShellCommand(**SHELL, enclosure=Enclosure()))
async def grep(): await search(Path("/"), [], SearchQuery(pattern="x"))
async def probe(): found_layers()

async def main():
    before = len(os.listdir("/proc/self/fd"))
    try:
        await globals()[sys.argv[1]]()
    except OutOfResources as error:
        print(type(exhaustion_of(error)).__name__, type(error.__cause__).__name__)
    print(len(os.listdir("/proc/self/fd")) - before, os.listdir(tempfile.gettempdir()))

with tempfile.TemporaryDirectory() as folder:
    os.chmod(folder, 0o777)
    tempfile.tempdir = folder
    pid = os.fork()
    if not pid:
        allow_no_process()
        asyncio.run(main())
        os._exit(0 if not sys.stdout.flush() else 1)
    os.waitpid(pid, 0)
"""


@pytest.mark.parametrize("starts", ["script", "taken", "free", "enclosed", "grep", "probe"])
def test_a_call_that_needs_a_process_reports_that_none_can_start(starts: str) -> None:
    """The kernel says EAGAIN, which counted as a fault of the tool; a lack may be tried again."""
    command = [sys.executable, "-c", PROGRAM, starts]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("OutOfResources BlockingIOError\n0 []\n", "")
