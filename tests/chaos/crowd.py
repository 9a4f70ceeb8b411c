"""Processes that work on whatever is left in a project, until one of its tools kills them.

Reads a line of JSON for each, `{"directory", "calls"}`, and answers with its process id; then, when
it has ended, with another line. The first one hands in the calls, `[tool, input]` each.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from penstock.app.opening import Additions, open_project
from penstock.app.project import load_project
from penstock.app.settings import load
from penstock.chat.requests import NewCall
from penstock.core.clock import SystemClock
from penstock.store.projections import Page
from penstock.tools.python.function import tool

CLOCK = SystemClock()
LIMITS = {
    "lease_seconds": 0.6,
    "sweep_seconds": 0.05,
    "poll_seconds": 0.05,
    "probation_seconds": 0.2,
    "shutdown_seconds": 1,
}


@tool(effect="read", direct_call=True)
async def innocent(number: int, seconds: float) -> int:
    """Take a while."""
    await CLOCK.sleep(seconds)
    return number


@tool(effect="read", direct_call=True)
async def poison(number: int, seconds: float) -> int:
    """Take a while, and kill the process."""
    await CLOCK.sleep(seconds)
    os._exit(9)


async def work(spec: dict[str, Any]) -> None:
    """Work until nothing is left to do."""
    settings = load(Path(spec["directory"]), limits=LIMITS)
    tools = Additions(tools=(innocent, poison))
    async with open_project(settings, load_project(settings), tools) as runtime:
        calls = [NewCall(tool_id=tool_id, input=given) for tool_id, given in spec["calls"]]
        await asyncio.gather(*map(runtime.start_call, calls))
        while True:
            found, _ = await runtime.parts.storage.projections.tasks(page=Page(limit=200))
            if all(each.status.is_final for each in found):
                return
            await CLOCK.sleep(0.05)


def main() -> None:
    """Fork a process for each line, and wait for its end."""
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            sys.stdin.close()
            asyncio.run(work(json.loads(line)))
            os._exit(0)
        print(pid, flush=True)  # noqa: T201  this is the answer
        print(os.waitpid(pid, 0)[1], flush=True)  # noqa: T201  this is the answer


if __name__ == "__main__":
    main()
