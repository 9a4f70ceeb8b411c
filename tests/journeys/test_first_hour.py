"""The page that follows one call, against a call that is followed."""

import asyncio
import re
from pathlib import Path

import penstock
from penstock.cli.arguments.project import opened
from penstock.cli.init import init
from penstock.cli.terminal.trace import Trace

PAGE = Path(penstock.__file__).parents[1] / "docs" / "first-hour.md"


def test_the_page_names_the_hops_of_a_call_in_their_order(tmp_path: Path) -> None:
    init(tmp_path)
    trace = Trace()

    async def call() -> None:
        async with opened(tmp_path) as runtime:
            with trace.watch():
                assert (await runtime.call("hello", {"name": "Ann"})).ok

    asyncio.run(call())
    told = re.findall(r"^\d+\. `([\w/.]+)`:", PAGE.read_text(), re.MULTILINE)
    assert in_order(told) == in_order(trace.hops)


def in_order(hops: list[str]) -> list[str]:
    """Return the hops without the one nobody waits for, and the run before the fold it needs.

    What was just written is folded as it is heard of, which may be a moment before the run begins.
    """
    kept = [hop for hop in hops if hop != "store/sql_log.release"]
    at = kept.index("engine/state.fold")
    if kept[at + 1] == "engine/activation.run":
        kept[at : at + 2] = kept[at + 1], kept[at]
    return kept
