"""Modules of code steps, entered without a run around them."""

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.core.call import CallPath
from penstock.core.call_errors import (
    CallError,
    OutOfMemory,
    ScriptError,
    ScriptLoadError,
    ToolTimeout,
)
from penstock.core.envelope import Envelope
from penstock.core.events.flow_events import FlowStarted, Outcome, Output, ValueType
from penstock.core.limits import Limits
from penstock.core.profile import LOCAL_PROFILE, Profile
from penstock.engine.budget import Allowance, Budget
from penstock.engine.ledger import Ledger
from penstock.flows.code_visit import conclude, enter, expected_result
from penstock.flows.runs.visits import VisitOutcome
from penstock.flows.steps.code import Code, CodeDecision, CodeVisit
from penstock.flows.steps.kind import CodeEnvironment
from penstock.testing.invocation import Workbench, open_workbench
from penstock.tools.invoker import Invoker
from penstock.tools.policy import RuleSet
from penstock.tools.tool import Registry, Tool
from tests.kit.tools import Act

STEP = Code(step_id="count", outputs=(Output(name="n"),))
GOOD = "export default ({ n }) => ({ n });"


async def workbench_for(module: str, *tools: Tool, **limits: Any) -> Workbench:
    bench = await open_workbench(*tools, limits=Limits(**limits))
    texts = {"flows/demo.yaml": "", "flows/handlers/demo/count.js": module}
    run = CallPath(bench.ledger.task.task_id)
    bench.ledger.add(FlowStarted(file="flows/demo.yaml", texts=texts, task="t"), run)
    return bench


async def pursue(
    code_environment: CodeEnvironment, bench: Workbench, ledger: Ledger | None = None, **more: Any
) -> VisitOutcome:
    def door(tool: Tool) -> Invoker:
        registry = Registry([*bench.invoker.registry, tool])
        return Invoker(registry, RuleSet(()), bench.resources, world=bench.world)

    visit = CodeVisit(
        step=STEP,
        inputs={"n": 1},
        task="t",
        frame=CallPath(f"{bench.ledger.task.task_id}/count/1"),
        profile=LOCAL_PROFILE,
    )
    return await enter(replace(visit, **more), ledger or bench.ledger, code_environment, door)


async def test_a_visit_is_settled_once(code_environment: CodeEnvironment) -> None:
    """What follows from a crash between the module's end and that of its step."""
    bench = await workbench_for(GOOD)
    ended = [await pursue(code_environment, bench) for _ in range(2)]
    assert [each.result.outputs for each in ended] == [{"n": 1}, {"n": 1}]
    own = [each for each in await bench.settled() if each.tool_id == "code:count"]
    assert len(own) == 1


async def test_each_visit_is_a_separate_call(code_environment: CodeEnvironment) -> None:
    bench = await workbench_for(GOOD)
    await pursue(code_environment, bench)
    again = CallPath(f"{bench.ledger.task.task_id}/count/2")
    ended = await pursue(code_environment, bench, frame=again, inputs={"n": 2})
    assert ended.result.outputs == {"n": 2}


@pytest.mark.parametrize("allowance", [Allowance(tool_calls=0), Allowance(seconds=0)])
async def test_a_budget_that_is_used_up_ends_the_flow(
    code_environment: CodeEnvironment, allowance: Allowance
) -> None:
    """Budget of the task tree: hard, `budget`."""
    bench = await workbench_for(GOOD)
    task = bench.ledger.task
    budget = Budget(allowance, task.spent, bench.world.clock)
    ended = await pursue(
        code_environment, bench, Ledger(bench.ledger.held, task, budget, bytes(32))
    )
    assert (ended.source, ended.outcome) == ("budget", Outcome.HARD)


async def test_a_module_that_makes_too_many_calls_fails_itself(
    code_environment: CodeEnvironment,
) -> None:
    asks = "for (;;) await flo.task.getProfile();"
    bench = await workbench_for(f"export default async () => {{ {asks} }}", host_calls=5)
    ended = await pursue(code_environment, bench)
    assert (ended.source, ended.outcome) == ("code_node", Outcome.SOFT)
    assert "more than 5 host calls" in ended.text


async def test_a_module_runs_with_the_profile_of_the_run(
    code_environment: CodeEnvironment,
) -> None:
    call = "(await flo.callTool({ tool_id: 'send', input: {} })).error.code"
    send = Act("send", is_global=True, requires_permissions=frozenset({"p.send"}))
    bench = await workbench_for(f"export default async () => ({{ n: {call} }});", send)
    profile = Profile.from_noted(LOCAL_PROFILE.profile_id, ())
    ended = await pursue(code_environment, bench, profile=profile)
    assert ended.result.outputs == {"n": "NOT_PERMITTED"}
    assert send.runs == []


async def test_inputs_that_are_too_large_fail_the_step(code_environment: CodeEnvironment) -> None:
    bench = await workbench_for(GOOD)
    ended = await pursue(code_environment, bench, inputs={"n": "x" * (2 << 20)})
    assert (ended.source, ended.outcome) == ("code_node", Outcome.SOFT)


async def test_a_module_keeps_nothing_in_the_project(code_environment: CodeEnvironment) -> None:
    """No vault or state bindings."""
    asks = "flo.state.put({ scope_kind: 'shared', key: 'k', value: 1 })"
    bench = await workbench_for(f"export default async () => {{ await {asks} }}")
    ended = await pursue(code_environment, bench)
    assert ended.source == "code_node"
    puts = [each for each in await bench.settled() if each.tool_id == "state.put"]
    assert not any(each.envelope.ok for each in puts)


NONE = Code(step_id="s")
TWO = Code(step_id="s", outputs=(Output(name="a"), Output(name="b")))
ROUTE = CodeDecision(step_id="s", branches={"x": "s"})


def returned(step: Code, value: Any, **more: Any) -> Any:
    return conclude(step, Envelope.success({"value": value, **more}))


@pytest.mark.parametrize(
    ("value", "more", "summary"),
    [
        ({"a": 1, "b": 2}, {}, "returned a, b"),
        ({"a": 1, "b": 2}, {"summary": "two"}, "two"),
        ({"a": 1, "b": 2}, {"summary": 7}, "returned a, b"),
        ({"b": {"k": None}, "a": [True]}, {}, "returned b, a"),
    ],
)
def test_outputs_are_stored_unchanged(value: Any, more: dict[str, Any], summary: str) -> None:
    """The step's summary: default `returned a, b`."""
    ended = returned(TWO, value, **more)
    assert (ended.result.outputs, ended.result.summary) == (value, summary)


@pytest.mark.parametrize("value", [None, {}])
def test_a_step_without_outputs_returns_nothing(value: Any) -> None:
    result = returned(NONE, value).result
    assert (result.summary, result.full_output, result.outputs) == (*["returned nothing"] * 2, {})


@pytest.mark.parametrize("output", [None, [], "x", {"value": None}])
def test_an_envelope_without_the_expected_shape_has_no_output(output: Any) -> None:
    """A module may have changed what its world is made of."""
    assert conclude(NONE, Envelope.success(output)).outcome is Outcome.SUCCESS
    assert conclude(ROUTE, Envelope.success(output)).source == "code_no_branch"


@pytest.mark.parametrize(
    ("value_type", "good", "bad"),
    [
        (ValueType.STRING, ["", "a"], [1, None, ["a"]]),
        (ValueType.NUMBER, [0, 1.5], ["1", True, None]),
        (ValueType.BOOLEAN, [True, False], [0, "true", None]),
        (ValueType.OBJECT, [{}, {"a": 1}], [[], None, "{}"]),
        (ValueType.ARRAY, [[], [None]], [{}, None, "[]"]),
        (None, [None, 1, "a", [], {}], []),
    ],
)
def test_a_declared_type_is_checked(
    value_type: ValueType | None, good: list[Any], bad: list[Any]
) -> None:
    step = Code(step_id="s", outputs=(Output(name="a", value_type=value_type),))
    assert {returned(step, {"a": each}).source for each in good} == {""}
    assert {returned(step, {"a": each}).source for each in bad} <= {"code_node"}


@pytest.mark.parametrize(
    ("error", "source", "outcome"),
    [
        (ScriptError("no"), "code_node", Outcome.SOFT),
        (ScriptError("no", details={"name": "Error"}), "code_node", Outcome.SOFT),
        (ScriptError("no", details={"name": "FlowHardError"}), "flow_hard_error", Outcome.HARD),
        (ScriptLoadError("no"), "code_node", Outcome.SOFT),
        (OutOfMemory("no"), "code_node", Outcome.SOFT),
        (ToolTimeout("no"), "code_timeout", Outcome.SOFT),
    ],
)
def test_an_error_of_the_module_is_the_failure_of_its_step(
    error: CallError, source: str, outcome: Outcome
) -> None:
    ended = conclude(NONE, error.envelope())
    assert (ended.source, ended.outcome, ended.text) == (source, outcome, "no")
    assert ended.result.summary == "no"


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (NONE, "nothing"),
        (TWO, "an object with exactly a, b"),
        (ROUTE, "an object with exactly branch"),
    ],
)
def test_the_expected_result_is_described_in_words(step: Code, words: str) -> None:
    assert expected_result(step) == words
