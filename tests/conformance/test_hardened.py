"""Both engines, confined by the system: the list of entries, and one attack of each kind."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core.clock import SystemClock
from penstock.sandbox.deno import open_deno
from penstock.sandbox.hardening import found_layers, had
from penstock.sandbox.separate import Separate
from penstock.sandbox.wasm_apart import open_wasm_apart
from tests.contracts.test_sandbox import (
    ATTACKS,
    test_an_attack_ends_as_it_should_and_a_canary_does_not_notice,
)
from tests.sandbox import test_entry

OPENINGS = {"deno": open_deno, "wasm": open_wasm_apart}
KINDS = {path.stem.partition("_")[0]: path for path in reversed(ATTACKS)}
ends_as_it_should = test_an_attack_ends_as_it_should_and_a_canary_does_not_notice
del test_an_attack_ends_as_it_should_and_a_canary_does_not_notice
pytestmark = pytest.mark.slow("each script has a process of its own, which takes 0.3 s to begin")


@pytest.fixture(scope="module", params=OPENINGS)
def hardened(request: pytest.FixtureRequest, machine_code: Path) -> Iterator[Separate]:
    found = OPENINGS[request.param](SystemClock(), machine_code, had(found_layers()))
    yield found
    asyncio.run(found.close())


@pytest.fixture
async def sandbox(hardened: Separate) -> Separate:
    """The engine, with processes ready: what is timed is the script."""
    await hardened.warm(64, 2)
    return hardened


@pytest.fixture
def threaded(sandbox: Separate) -> Separate:
    """What is computed in a process needs no thread."""
    return sandbox


@pytest.mark.parametrize("kind", KINDS)
async def test_one_attack_of_each_kind_ends_as_it_should(sandbox: Separate, kind: str) -> None:
    await ends_as_it_should(sandbox, KINDS[kind].read_text())


globals().update(
    {name: test for name, test in vars(test_entry).items() if name.startswith("test_")}
)
