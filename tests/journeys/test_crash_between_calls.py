"""E1: the process dies between two writes inside one frame; the outcome and report of each."""

from typing import Any

import pytest

from penstock.core.call import Effect
from penstock.core.events.events import CallSettled, CallStarted
from penstock.core.ids import LogId
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.clock import FakeClock
from tests.kit.dying_log import DyingLog, outlived
from tests.kit.tools import Act, calling

pytestmark = pytest.mark.chaos
# The writes to the log: 1 the message, 2 the task's start, 3 the reply and reserve_stock's start,
# 4 its outcome, 5 charge_card's start, 6 its outcome, 7 the frame's outcome, 8 the answer.
ROWS = [
    (2, True, False, ["success", "success"], 1, 1),
    (2, False, False, ["failed", "success"], 0, 1),
    (3, True, False, ["failed", "success"], 1, 1),
    (3, True, True, ["success", "success"], 2, 1),
    (3, False, False, ["success", "success"], 1, 1),
    (4, True, False, ["success", "success"], 1, 1),
    (4, False, False, ["success", "failed"], 1, 0),
    (5, True, False, ["success", "failed"], 1, 1),
    (5, False, False, ["success", "success"], 1, 1),
    (6, True, False, ["success", "success"], 1, 1),
]


@pytest.mark.parametrize(("write", "before", "idempotent", "output", "stock", "card"), ROWS)
async def test_each_row_of_the_crash_table_holds(
    write: int, before: bool, idempotent: bool, output: list[str], stock: int, card: int
) -> None:
    """`before` that write was on disk or after it; how often each tool ran, and what it said."""
    keys: list[str] = []

    async def reserve(given: Any, invocation: Any) -> str:
        keys.append(invocation.idempotency_key)
        return "reserved"

    spec: dict[str, Any] = {"effect": Effect.WRITE, "direct_call": True}
    reserve_stock = Act("reserve_stock", reserve, idempotent=idempotent, **spec)
    charge_card = Act("charge_card", **spec)
    order = Act("order", calling("reserve_stock", "charge_card"), is_frame=True)
    model, clock = ScriptedModel({"Go": [call("order"), say("Ordered.")]}), FakeClock()
    log = DyingLog(clock, writes=write, before=before)
    tools, reply = [reserve_stock, charge_card, order], None
    reply = await outlived(log, "Go", model=model, tools=tools)
    events = [each.event for each in await log.read(LogId(reply.session_id))]
    (frame,) = [e for e in events if isinstance(e, CallSettled) and e.tool_id == "order"]
    assert frame.envelope.output == output
    assert (len(reserve_stock.runs), len(charge_card.runs)) == (stock, card)
    assert len(set(keys)) <= 1
    started = {e.idempotency_key for e in events if isinstance(e, CallStarted)}
    assert set(keys) <= started
