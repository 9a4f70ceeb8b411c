"""One call on its way through the invoker, and its admission by rules, people and plugin guards."""

from typing import Any

import pytest
from msgspec.structs import replace

from penstock import Hooks, Refuse
from penstock.core.call import Call, CallPath, Effect, Origin
from penstock.core.call_errors import BudgetExceeded, ToolFailed
from penstock.core.errors import Suspend
from penstock.core.json_values.schema import Schema
from penstock.core.task import TaskStatus
from penstock.engine.budget import Allowance, Budget
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.clock import FakeClock
from penstock.testing.invocation import open_workbench
from penstock.testing.runtime import memory_runtime
from penstock.tools.admission import ActiveCall
from penstock.tools.hooks.hooks import AgentHooks
from penstock.tools.policy import SCRIPT, Action, Caller, Rule
from tests.kit.asking import ask
from tests.kit.counting_tools import code
from tests.kit.tools import Act, echo, raising

CALL = Call(CallPath("task_1/0/add#1"), "add", {})


@pytest.mark.parametrize(("origin", "is_root"), [(Origin.DIRECT, True), (Origin.MODEL, False)])
async def test_a_direct_call_is_the_root_of_its_nested_calls(origin: Origin, is_root: bool) -> None:
    tool = Act("add", direct_call=True)
    bench = await open_workbench(tool)
    caller = Caller(origin=origin, agent_tools=["add"])
    active_call = ActiveCall(CALL, caller, bench.ledger)
    bench.invoker.edition.admission.resolve(active_call)
    assert (active_call.root is tool.spec) is is_root


async def test_a_refused_call_neither_uses_nor_releases_the_budget() -> None:
    bench = await open_workbench(Act("add"))
    ledger = bench.ledger
    budget = Budget(Allowance(tool_calls=2), ledger.task.spent, bench.world.clock)
    ledger.budget = budget
    budget.reserve_call()  # by a call that still runs
    assert code(await bench.call("nothing_such")) == "TOOL_NOT_FOUND"
    budget.reserve_call()
    with pytest.raises(BudgetExceeded):
        budget.reserve_call()


BIG = Schema({"properties": {"amount": {"minimum": 100}}, "required": ["amount"]})
MAX_AMOUNT = 10


@pytest.mark.parametrize(
    ("amount", "status"), [(10, TaskStatus.SUCCEEDED), (100, TaskStatus.SUSPENDED)]
)
async def test_a_rule_asks_for_calls_that_match(amount: int, status: TaskStatus) -> None:
    refund = Act("refund", echo, effect=Effect.WRITE)
    model = ScriptedModel([call("refund", amount=amount), say("Done.")])
    rules = [Rule(tool="refund", action=Action.ASK, when=BIG)]
    async with memory_runtime(model=model, tools=[refund], rules=rules) as runtime:
        reply = await ask(runtime, "Refund it")
    assert reply.status is status


@pytest.mark.parametrize(
    ("answer", "runs", "told"),
    [
        ({"decision": "approve"}, [{"amount": 5}], '{"amount":5}'),
        ({"decision": "approve", "input": {"amount": 4}}, [{"amount": 4}], '{"amount":4}'),
        ({"decision": "reject", "note": "too soon"}, [], "too soon"),
        ({"decision": "approve", "input": {"amount": 500}}, [], "NOT_PERMITTED"),
    ],
)
async def test_a_person_decides_and_the_rules_also_check_an_edited_input(
    answer: dict[str, object], runs: list[dict[str, int]], told: str
) -> None:
    refund = Act("refund", echo, effect=Effect.WRITE, requires_approval=True)
    model = ScriptedModel([call("refund", amount=5), say("Done.")])
    rules = [Rule(tool="refund", action=Action.DENY, when=BIG)]
    async with memory_runtime(model=model, tools=[refund], rules=rules) as runtime:
        asked = await ask(runtime, "Refund it")
        await runtime.requests.answer(asked.questions[0].question.question_id, answer)
        await runtime.requests.wait(asked.task_id)
    assert refund.runs == runs
    assert told in str(model.requests[-1].messages[-1])


class Small(Hooks):
    """Refuses large amounts."""

    async def before_call(self, ctx: Any, call: Any) -> Any:
        amount = call.input["amount"]
        return call if amount < MAX_AMOUNT else Refuse(f"{amount} is too much")


async def test_hooks_check_a_call_before_a_person_and_again_after_an_edit() -> None:
    """They run last, also behind an input that a person changed."""
    refund = Act("refund", echo, effect=Effect.WRITE, requires_approval=True)
    bench = await open_workbench(refund)
    caller = replace(bench.model, hooks=AgentHooks("g", [Small()]))
    asked = await bench.call("refund", {"amount": 50}, caller=caller)
    with pytest.raises(Suspend):
        await bench.call("refund", {"amount": 5}, caller=caller)
    await bench.answer({"decision": "approve", "input": {"amount": 70}})
    bench.enter()
    edited = await bench.call("refund", {"amount": 5}, caller=caller)
    said = [each.error.message for each in (asked, edited) if each.error]
    assert (said, refund.runs) == (["50 is too much", "70 is too much"], [])


@pytest.mark.parametrize("left", [0.0, -1.0])
async def test_a_tool_does_not_start_after_the_deadline_of_the_task(left: float) -> None:
    clock = FakeClock()
    bench = await open_workbench(look := Act("look"), clock=clock)
    ledger = bench.ledger
    ledger.budget = Budget(Allowance(seconds=1), ledger.task.spent, clock)
    clock.advance(1 - left)
    assert code(await bench.call("look")) == "BUDGET_EXCEEDED"
    assert look.runs == []


async def test_a_call_releases_its_reservation_however_it_ends() -> None:
    """The log counts a call that was recorded; what is only reserved would count it twice."""
    bench = await open_workbench(
        Act("look"), Act("fails", raising(ToolFailed("no"))), Act("waits", raising(Suspend("q")))
    )
    ledger = bench.ledger
    ledger.budget = Budget(Allowance(tool_calls=5), ledger.task.spent, bench.world.clock)
    for tool_id in ("look", "fails", "look"):
        await bench.call(tool_id)
    for _ in range(5):
        with pytest.raises(Suspend):
            await bench.call("waits")
        bench.enter()
    assert ledger.task.spent.tool_calls == 3


@pytest.mark.parametrize(("kind", "is_noted"), [(SCRIPT, True), ("python", False)])
async def test_only_a_script_gets_the_time_at_which_its_nested_call_was_settled(
    kind: str, is_noted: bool
) -> None:
    bench = await open_workbench(Act("look", direct_call=True))
    caller = replace(bench.model, origin=Origin.SCRIPT, calling_tool="x", calling_kind=kind)
    await bench.call("look", caller=caller)
    (settled,) = await bench.settled()
    assert (settled.clock_ms is not None) is is_noted
