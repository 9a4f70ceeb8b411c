"""Nested flows: their results, and paths that lead nowhere."""

import pytest

from penstock.models.scripted import ScriptedModel
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.flows import (
    WORKERS,
    by_task,
    flows_of,
    run_in,
    steps,
)

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


async def test_flows_in_flows_bring_their_results() -> None:
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


async def test_a_glob_with_a_flow_that_cannot_start_starts_none() -> None:
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
