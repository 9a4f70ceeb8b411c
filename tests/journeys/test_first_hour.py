"""The page that follows one call, compared with a recorded call."""

import asyncio
import re
from pathlib import Path

import penstock
from penstock.cli.init import init
from penstock.cli.project import opened
from penstock.cli.terminal.timeline import Trace

PAGE = Path(penstock.__file__).parents[1] / "docs" / "first-hour.md"


def test_the_page_names_hops_of_a_call_in_their_order(tmp_path: Path) -> None:
    init(tmp_path)
    trace = Trace()

    async def call() -> None:
        async with opened(tmp_path) as runtime:
            with trace.watch():
                assert (await runtime.call("hello", {"name": "Ann"})).ok

    asyncio.run(call())
    named = re.findall(r"^(?:\d+\.|\| \w+ \|) `([\w/]+\.\w+)`", PAGE.read_text(), re.MULTILINE)
    assert len(named) >= 15
    # an event that this process wrote is folded when the bus delivers it: before or after `run`
    free = {"engine/session_state.fold"}
    assert set(named) <= set(trace.hops)
    assert [hop for hop in named if hop not in free] == [
        hop for hop in trace.hops if hop in named and hop not in free
    ]
