"""Which host calls there are, by what is set up."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.tools.scripts.bridge import bridge_of
from tests.kit.hosts import BINDINGS, asking
from tests.kit.ways import way

PAGE = Path(__file__).parents[3] / "docs" / "scripts" / "bridge.md"


def on_the_page() -> set[str]:
    """Return the names in the table of what is asked."""
    table = PAGE.read_text().partition("## `ask`")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    return {row.split("`")[1] for row in rows}


async def test_every_host_call_of_the_page_is_there() -> None:
    host = await asking(egress=way(1).egress)
    assert len(on_the_page()) > 20
    for name in on_the_page():
        settled = await host.ask(name, {"nothing": 1})
        is_missing = settled.refusal and settled.refusal.detail.code == "NOT_AVAILABLE"
        assert not is_missing, name


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("vault", "vault.get"),
        ("state", "state.get"),
        ("files", "fs.readBytes"),
        ("egress", "fetch"),
    ],
)
async def test_what_is_not_set_up_is_not_available(part: str, name: str) -> None:
    host = await asking(egress=way(1).egress)
    without: dict[str, Any] = {part: None}
    host.bench.resources = replace(host.bench.resources, **without)
    host.begin()
    assert await host.refusal(name, {}) == "NOT_AVAILABLE"


async def test_the_seed_and_the_clock_are_those_of_the_call() -> None:
    host = await asking()
    first = (host.host.seed, host.host.begins_ms)
    await host.value("sleep", ms=0)
    host.begin()
    assert (host.host.seed, host.host.begins_ms) == first
    assert len(host.host.seed) == 32
    other = bridge_of(host.bench.invocation(host.tool, {"n": 2}), BINDINGS)
    assert other.seed != host.host.seed
