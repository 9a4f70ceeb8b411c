"""Script engines: the one chosen with `--engine`, and small programs that imitate one."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core.clock import SystemClock
from penstock.sandbox.processes.deno import open_deno
from penstock.sandbox.processes.process import Command, available_layers, found_layers
from penstock.sandbox.processes.process_sandbox import ProcessSandbox
from penstock.sandbox.processes.wasm_process import open_wasm_process
from penstock.sandbox.script import Sandbox
from penstock.sandbox.wasm.quickjs import QuickJs

ENGINES = ("wasm", "deno", "hardened wasm", "hardened deno")
BEGIN = """
import os, struct
def say(*parts):
    head = struct.pack(f"<{len(parts) + 1}I", len(parts), *map(len, parts))
    os.write(1, head + b"".join(parts))
say(b"ready")
os.read(0, 1)
"""
SPARES = 3


def engine(program: str, folder: Path, begin: str = BEGIN) -> Command:
    """Return the command of an engine that reports ready and then runs this program."""
    argv = [sys.executable, "-I", "-S", "-c", begin + program]
    return Command(argv=argv, folder=folder)


@pytest.fixture(scope="module")
def opened_engine(request: pytest.FixtureRequest, machine_code: Path) -> Iterator[Sandbox]:
    """The engine that this run is about."""
    clock, name = SystemClock(), request.config.getoption("--engine")
    engine: QuickJs | ProcessSandbox
    match name:
        case "wasm":
            engine = QuickJs(clock, machine_code)
            engine.warm()
        case "deno":
            engine = open_deno(clock, machine_code)
        case "hardened deno":
            engine = open_deno(clock, machine_code, available_layers(found_layers()))
        case _:
            engine = open_wasm_process(clock, machine_code, available_layers(found_layers()))
    yield engine
    asyncio.run(engine.close())


@pytest.fixture
async def sandbox(opened_engine: Sandbox) -> Sandbox:
    """The engine with its processes started, so that tests time only the script."""
    if isinstance(opened_engine, ProcessSandbox):
        await opened_engine.warm(64, SPARES)
    return opened_engine


@pytest.fixture(scope="module")
def threaded_engine(opened_engine: Sandbox, machine_code: Path) -> Iterator[Sandbox]:
    """An engine that computes in threads alone; what is computed in a process needs none."""
    if not isinstance(opened_engine, QuickJs):
        yield opened_engine
        return
    engine = QuickJs(SystemClock(), machine_code, inline_seconds=0, linger=1)
    engine.warm()
    yield engine
    asyncio.run(engine.close())


@pytest.fixture
def threaded(threaded_engine: Sandbox, sandbox: Sandbox) -> Sandbox:
    """The same, ready."""
    return threaded_engine
