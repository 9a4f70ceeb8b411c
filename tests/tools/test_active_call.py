"""One call on its way through the door."""

import pytest

from penstock.core.call import Call, CallPath, Origin
from penstock.core.call_errors import BudgetExceeded
from penstock.engine.budget import Allowance, Budget
from penstock.testing.clock import FakeClock
from penstock.testing.invocation import open_workbench
from penstock.tools.active_call import ActiveCall
from penstock.tools.invocation import NestedCalls
from penstock.tools.policy import Caller
from tests.kit.tools import Act

CALL = Call(CallPath("task_1/0/add#1"), "add", {})


@pytest.mark.parametrize(("origin", "is_root"), [(Origin.DIRECT, True), (Origin.MODEL, False)])
async def test_a_direct_call_is_the_root_of_what_it_calls(origin: Origin, is_root: bool) -> None:
    tool = Act("add")
    bench = await open_workbench(tool)
    active_call = ActiveCall(CALL, Caller(origin=origin), bench.ledger)
    active_call.tool = tool
    assert (active_call.root is tool.spec) is is_root


async def test_a_reservation_is_given_back_if_there_was_one() -> None:
    bench = await open_workbench(Act("add"))
    active_call = ActiveCall(CALL, Caller(origin=Origin.MODEL), bench.ledger)
    budget = Budget(Allowance(tool_calls=1), bench.ledger.task, FakeClock())
    active_call.ledger.budget = budget
    active_call.give_back()
    budget.reserve_call()
    with pytest.raises(BudgetExceeded):
        budget.reserve_call()
    active_call.nest = NestedCalls(None)
    active_call.give_back()
    budget.reserve_call()


async def test_a_call_that_never_ran_took_no_time() -> None:
    clock = FakeClock()
    bench = await open_workbench(Act("add"))
    active_call = ActiveCall(CALL, Caller(origin=Origin.MODEL), bench.ledger)
    assert active_call.duration_ms(clock) == 0
    active_call.began = clock.monotonic()
    clock.advance(1.5)
    assert active_call.duration_ms(clock) == 1500
