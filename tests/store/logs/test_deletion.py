"""A task that waits for one that is erased continues: nothing else would ever wake it."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock import ToolContext
from penstock.chat.requests import NewCall
from penstock.core.clock import SystemClock
from penstock.core.limits import Limits
from penstock.core.task import TaskStatus
from penstock.models.scripted import ScriptedModel
from tests.kit.children import below, script, tools_of, until
from tests.kit.server import in_memory

LIMITS = Limits(shutdown_seconds=0, sweep_seconds=0.05)


async def parent(ctx: ToolContext) -> object:
    (result,) = await ctx.gather(await ctx.spawn("Hang", key="gone"), settled=True)
    return result.status


async def dependant(ctx: ToolContext) -> object:
    gone = await ctx.spawn("Hang", key="gone")
    last = await ctx.spawn("Now add them", key="last", after={"gone": gone}, settled=True)
    (result,) = await ctx.gather(last, settled=True)
    return result.status


@pytest.mark.parametrize(
    ("plan", "status", "expected"),
    [
        (parent, TaskStatus.RUNNING, (False, "no_such_task")),
        (dependant, TaskStatus.BLOCKED, (True, "succeeded")),
    ],
)
async def test_the_end_of_an_erased_task_is_reported_to_those_that_wait_for_it(
    database_url: str,
    plan: Callable[..., Any],
    status: TaskStatus,
    expected: tuple[bool, str],
) -> None:
    opened: dict[str, Any] = {"clock": SystemClock(), "limits": LIMITS, "url": database_url}
    model = ScriptedModel(script())
    async with in_memory(model=model, tools=tools_of(plan), **opened) as runtime:
        root = await runtime.start_call(NewCall(tool_id="plan", input={}))
        await until(runtime, root, status, 1)
        gone = (await below(runtime, root))["gone"].log_id
        assert runtime.requests.known.erasure is not None
        await runtime.requests.known.erasure.erase_log(gone)
        reply = await runtime.requests.wait(root, seconds=10)
    assert reply is not None
    envelope = reply.envelope
    assert envelope is not None
    details = envelope.error.details if envelope.error else None
    assert (envelope.ok, (details or {}).get("reason", envelope.output)) == expected
