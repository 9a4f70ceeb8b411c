"""The invoker at a timeout, and when a tool changed while a person was asked."""

import asyncio
from typing import Literal

import pytest

from penstock.core.call_errors import UpstreamUnavailable
from penstock.core.envelope import Envelope
from penstock.core.errors import Suspend
from penstock.engine.budget import Allowance, Budget
from penstock.testing.clock import FakeClock
from penstock.testing.invocation import open_workbench
from penstock.tools.python.function import tool
from penstock.tools.python.options import Retry
from penstock.tools.tool import Registry
from tests.kit.tools import Act


def code(envelope: Envelope) -> str | None:
    return None if envelope.error is None else envelope.error.code


@pytest.mark.parametrize(
    ("effect", "expected"), [("none", "BUDGET_EXCEEDED"), ("write", "INTERRUPTED")]
)
async def test_nothing_waits_for_another_attempt_longer_than_the_task_may_work(
    effect: Literal["none", "write"], expected: str
) -> None:
    """The page: "`budget_seconds` reached in the middle of a call: the call is stopped"."""
    clock, runs = FakeClock(), list[float]()

    @tool(effect=effect, retry=Retry(attempts=3, initial=60, maximum=60))
    async def flaky() -> None:
        """Never work."""
        runs.append(clock.monotonic())
        raise UpstreamUnavailable("no answer")

    bench = await open_workbench(flaky, clock=clock)
    bench.ledger.budget = Budget(Allowance(seconds=5), bench.ledger.task.spent, clock)
    work = asyncio.create_task(bench.call("flaky"))
    await clock.elapse(5)
    assert (code(await work), runs, clock.monotonic()) == (expected, [0], 5)


async def test_an_approved_call_is_validated_by_the_current_tool() -> None:
    """The page: "`input` as the person edited it (validated: …)", here across a new version."""

    def version(most: int) -> Act:
        schema = {"type": "object", "properties": {"to": {"maximum": most}}}
        return Act("send", requires_approval=True, input_schema=schema)

    old, new = version(9), version(5)
    bench = await open_workbench(old)
    with pytest.raises(Suspend):
        await bench.call("send", {"to": 1})
    await bench.answer({"decision": "approve", "input": {"to": 7}})
    bench.invoker.renew(Registry([new]))
    bench.enter()
    assert code(await bench.call("send", {"to": 1})) == "INVALID_INPUT"
    assert new.runs == []
