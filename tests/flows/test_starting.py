"""The start of a run, or its rejection."""

from typing import Any

import pytest

from penstock.core.events.flow_events import FlowRequested, ValueType
from penstock.core.ids import ProfileId
from penstock.flows.definition import Flow, RunInput
from penstock.flows.project.library import FlowSource
from penstock.flows.starting import FlowSettings, Rejection, RunStart, begin, run_inputs
from penstock.models.scripted import ScriptedModel
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.flows import (
    WORKERS,
    by_task,
    flows_of,
    run_in,
    steps,
)

HEAD = "name: n\ndescription: d\n"
STEPS = "steps:\n  - {id: a, agent: x}\n"
INPUTS = "inputs: {n: {type: number, required: true}}\n"


def start_of(text: str, *, no_shell: str = "", **asked: Any) -> RunStart | Rejection:
    source = FlowSource(path="flows/f.yaml", texts={"flows/f.yaml": HEAD + text})
    request = FlowRequested(command="f", profile_id=ProfileId("ann"), **asked)
    return begin(source, request, FlowSettings(config={"k": "v"}), no_shell=no_shell)


def test_a_run_keeps_the_texts_that_it_started_with() -> None:
    """A run keeps these texts to its end, whatever is written meanwhile."""
    start = start_of(INPUTS + STEPS, task="t", inputs={"n": 2}, autonomous=True, max_concurrent=2)
    assert isinstance(start, RunStart)
    started = start.started
    assert started.texts == {"flows/f.yaml": HEAD + INPUTS + STEPS}
    assert (started.task, started.inputs, started.autonomous) == ("t", {"n": 2}, True)
    assert started.max_concurrent == 2
    assert started.config == {"k": "v"}


@pytest.mark.parametrize(("why", "begins"), [("shell steps are off", False), ("", True)])
def test_a_flow_with_a_shell_step_needs_shell_steps_on(why: str, begins: bool) -> None:
    """Rejected: the run never began: … shell switched off (section 18)."""
    start = start_of("steps:\n  - {id: a, agent: x}\n  - {id: sh, command: make}\n", no_shell=why)
    assert isinstance(start, RunStart) is begins
    if isinstance(start, Rejection):
        assert start.code == "FLOW_INVALID"
        assert start.reason == "the flow \"/f\" has the shell step 'sh', and shell steps are off"


@pytest.mark.parametrize(
    ("text", "asked", "code", "reason"),
    [
        ("steps: []\n", {}, "FLOW_INVALID", 'the flow "/f" has errors: line '),
        (
            f"task_required: true\n{STEPS}",
            {"task": "  "},
            "TASK_REQUIRED",
            "the flow needs a task. What should f do?",
        ),
        (
            f"task_required: true\ntask_prompt: Which one?\n{STEPS}",
            {},
            "TASK_REQUIRED",
            "the flow needs a task. Which one?",
        ),
        (
            INPUTS + STEPS,
            {"inputs": {"n": "2"}},
            "VALIDATION_ERROR",
            'the inputs do not fit: /inputs/n: must be number, found string "2"',
        ),
    ],
)
def test_a_run_that_cannot_start_has_a_reason(
    text: str, asked: dict[str, Any], code: str, reason: str
) -> None:
    """Rejected: the run never began."""
    start = start_of(text, **asked)
    assert isinstance(start, Rejection)
    assert start.code == code
    assert start.reason.startswith(reason)


FLOW = Flow(
    name="f",
    description="d",
    steps=(),
    inputs=(
        RunInput(name="where", value_type=ValueType.STRING, is_required=True),
        RunInput(name="count", value_type=ValueType.NUMBER, default=3),
        RunInput(name="deep", value_type=ValueType.BOOLEAN),
    ),
)


@pytest.mark.parametrize(
    ("inputs", "values"),
    [
        ({"where": "here"}, {"where": "here", "count": 3}),
        ({"where": "", "count": 0, "deep": False}, {"where": "", "count": 0, "deep": False}),
    ],
)
def test_valid_inputs_are_returned_with_the_defaults(
    inputs: dict[str, Any], values: dict[str, Any]
) -> None:
    assert run_inputs(FLOW, inputs) == (values, [])


def test_every_problem_is_reported_together() -> None:
    """Missing, wrong or unknown: rejected with every problem."""
    _, problems = run_inputs(FLOW, {"wher": "x", "count": "3", "deep": 1})
    assert [(each.path, each.message) for each in problems] == [
        ("/inputs/wher", "is not an input of this flow. Did you mean 'where'?"),
        ("/inputs/where", "is required: string"),
        ("/inputs/count", 'must be number, found string "3"'),
        ("/inputs/deep", "must be boolean, found number 1"),
    ]


SUBS = {
    "demo": """
  - {id: unit, path: unit.yaml}
  - {id: load, path: "parts/*.yaml", inputs: {n: "${{result.unit.sum.summary}}"}}
  - id: report
    agent: writer
    task: "${{result.unit.sum.summary}} ${{result.load.2.sum.summary}} ${{result.own.summary}}"
""",
    "unit": """
  - {id: sum, agent: scout, task: unit sum}
  - {id: own, agent: scout, task: own}
""",
    "parts_a": "  - {id: sum, agent: scout, task: 'a ${{flow.input.n}}'}",
    "parts_b": "  - {id: sum, agent: scout, task: 'b ${{flow.input.n}}'}",
}


TAKES_N = "inputs: {n: {type: string, required: true}}\n"


async def test_nested_flows_bring_their_results() -> None:
    """REF.STEP, REF.N.STEP of a glob, and STEP where no other has the id (section 7.7)."""
    texts = {name: steps(text) for name, text in SUBS.items()}
    texts |= {name: TAKES_N + texts[name] for name in ("parts_a", "parts_b")}
    place = MemoryStorage(flows=flows_of(**texts))
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        envelope = await run_in(runtime)
    assert envelope.ok, envelope
    results = envelope.output["results"]
    assert results["report"]["summary"] == "unit sum done b unit sum done done own done done"
    assert {"unit", "unit.sum", "load", "load.sum", "load.1.sum", "load.2.sum"} <= set(results)
    assert "sum" not in results
    assert results["load"]["status"] == "complete"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../../x.yaml", "leads out of the project"),
        ("none.yaml", 'no flow matches "none.yaml"'),
        ("parts/a.yaml", "/inputs/n: is required"),
        ("demo.yaml", "more than 8 deep"),
    ],
)
async def test_a_reference_that_leads_nowhere_fails_its_step(path: str, reason: str) -> None:
    texts = {"demo": f"  - {{id: sub, path: {path}}}", "parts_a": SUBS["parts_a"]}
    texts = {name: steps(text) for name, text in texts.items()}
    texts["parts_a"] = TAKES_N + texts["parts_a"]
    place = MemoryStorage(flows=flows_of(**texts))
    async with memory_runtime(model=ScriptedModel([]), agents=WORKERS, place=place) as runtime:
        envelope = await run_in(runtime)
    assert envelope.output["status"] == "error"
    assert reason in envelope.output["reason"]


async def test_a_reference_has_the_last_agent_result_at_any_depth() -> None:
    """7.7: `REF` holds "the last agent result of the (last) sub-flow"."""
    texts = {
        "demo": "  - {id: ref, path: outer.yaml}",
        "outer": "  - {id: a, agent: scout, task: a}\n  - {id: deep, path: inner.yaml}",
        "inner": "  - {id: b, agent: scout, task: b}",
    }
    place = MemoryStorage(flows=flows_of(**{name: steps(text) for name, text in texts.items()}))
    async with memory_runtime(
        model=ScriptedModel(by_task({})), agents=WORKERS, place=place
    ) as runtime:
        envelope = await run_in(runtime)
    assert envelope.output["results"]["ref"]["summary"] == "b done"


async def test_a_glob_with_a_flow_that_cannot_start_starts_no_flow() -> None:
    """Decision 10: "A glob begins all of its flows, or none"."""
    texts = {
        "demo": steps('  - {id: load, path: "parts/*.yaml"}'),
        "parts_a": steps("  - {id: sum, agent: scout, task: a}"),
        "parts_b": TAKES_N + steps("  - {id: sum, agent: scout, task: b}"),
    }
    place, model = MemoryStorage(flows=flows_of(**texts)), ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        envelope = await run_in(runtime)
    assert "/inputs/n: is required" in envelope.output["reason"]
    assert model.requests == []
