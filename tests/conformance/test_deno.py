"""The engine deno against the list of the engine wasm: what scripts say, how they end, attacks."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core.clock import SystemClock
from penstock.sandbox.deno import open_deno
from penstock.sandbox.separate import Separate
from tests.contracts import test_sandbox
from tests.sandbox import test_entry, test_quickjs, test_steps

LISTS = (test_entry, test_quickjs, test_steps, test_sandbox)
pytestmark = pytest.mark.slow("each script has a process of its own, which takes 0.1 s to begin")


@pytest.fixture(scope="module")
def deno(machine_code: Path) -> Iterator[Separate]:
    found = open_deno(SystemClock(), machine_code)
    yield found
    asyncio.run(found.close())


@pytest.fixture
async def sandbox(deno: Separate) -> Separate:
    """The engine, with processes ready: what is timed is the script."""
    await deno.warm(64, 3)
    return deno


@pytest.fixture
def threaded(sandbox: Separate) -> Separate:
    """What is computed in a process needs no thread."""
    return sandbox


globals().update(
    {
        name: test
        for each in LISTS
        for name, test in vars(each).items()
        if name.startswith("test_") and "machine_code" not in test.__annotations__
    }
)
