"""Further attempts of a script, and crashes in them."""

import asyncio
from typing import Any

import pytest

from penstock.core.events.events import CallRetried
from penstock.core.limits import Limits
from penstock.testing.clock import FakeClock, settle
from penstock.testing.runtime import MemoryStorage
from tests.kit.project import ProjectFolder
from tests.kit.simulated_processes import Stage
from tests.kit.tools import Act

pytestmark = pytest.mark.chaos


async def test_a_crash_in_a_further_attempt_is_followed_by_that_attempt(
    project: ProjectFolder,
) -> None:
    """§3.2: "a further attempt is made only when the status is `failed` or `timeout`"."""
    script = """
        export async function run() {
          const { call: { attempt } } = await flo.task.getContext<any>();
          await flo.callTool({ tool_id: "look", input: { attempt } });
          if (attempt < 2) throw new flo.ToolError({ code: "NO", message: "", retryable: true });
          return attempt;
        }
    """
    seen = list[int]()

    async def look(input: Any, invocation: Any) -> None:
        seen.append(input["attempt"])
        if seen.count(2) == 1 and input["attempt"] == 2:
            await asyncio.Event().wait()

    project.tool("ask", script, retry_policy="{max_attempts: 2, initial_backoff_ms: 0}")
    clock, limits = FakeClock(), Limits(shutdown_seconds=0)
    act = Act("look", look, direct_call=True)
    stage = Stage(project, act, place=MemoryStorage(clock=clock, limits=limits))
    async with stage.opened() as runtime:
        calling = asyncio.ensure_future(runtime.call("ask", {}, task_id=stage.task_id))
        while seen != [1, 2]:
            await settle()
        calling.cancel()
    clock.advance(limits.lease_seconds + 1)
    reply = await stage.wait()
    assert reply.envelope
    assert (reply.envelope.output, seen) == (2, [1, 2, 2])
    retried = [each for each in await stage.events() if isinstance(each, CallRetried)]
    assert [each.attempt for each in retried] == [1]
