"""Events of a visit, without repetition."""

from penstock.models.scripted import ScriptedModel
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.flows import WORKERS, by_task, flows_of, run_flow, see_through, steps, told_in

MISSING = """
  - {id: ref, path: "${{result.no.path}}sub.yaml", inputs: {n: "x${{result.no.n}}"}}
  - {id: ask, question: "${{config.no}}?", branches: {Go: last}}
  - {id: last, agent: scout, task: "last ${{result.ref.own.summary}}"}
"""
SUB = "inputs: {n: {type: string}}\nsteps:\n  - {id: own, agent: scout, task: own}\n"


async def test_each_unresolved_placeholder_is_reported_once_across_reentered_visits() -> None:
    """V7: missing → empty text and an event `flow_warning {stepId, reference}`."""
    place = MemoryStorage(flows=flows_of(demo=steps(MISSING), sub=SUB))
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        reply = await see_through(runtime, {"value": "Go"}, task="t")
        warnings = await told_in(runtime, "flow_warning")
    assert [(each["stepId"], each["reference"]) for each in warnings] == [
        ("ref", "${{result.no.path}}"),
        ("ref", "${{result.no.n}}"),
        ("ask", "${{config.no}}"),
    ]
    assert reply.envelope is not None
    assert reply.envelope.output["results"]["last"]["summary"] == "last own done done"


SKIPPED = """
  - {id: pick, check: task.summary, present: ref, absent: last}
  - {id: ref, path: sub.yaml}
  - id: last
    agent: scout
    task: "<${{result.ref.own.summary}}${{result.ref}}${{result.own.summary}}>"
  - id: said
    agent: scout
    blockedBy: [last]
    task: "${{result.ref.own.status}} ${{result.ref.status}}"
"""


async def test_what_a_skipped_reference_would_bring_is_empty_without_a_warning() -> None:
    """V8: a skipped step: empty text, no warning; its `.status` is `skipped`."""
    place = MemoryStorage(flows=flows_of(demo=steps(SKIPPED), sub=SUB))
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        reply = await see_through(runtime, {}, task="t")
    assert reply.envelope is not None
    result = reply.envelope.output
    assert result["warnings"] == []
    assert result["results"]["last"]["summary"] == "<> done"
    assert result["results"]["said"]["summary"] == "skipped skipped done"


async def test_a_template_that_names_nothing_is_in_the_result() -> None:
    envelope = await run_flow(
        "  - {id: a, agent: scout, task: 'a${{result.b.x}}c'}", ScriptedModel(by_task({}))
    )
    assert envelope.output["results"]["a"]["summary"] == "ac done"
    assert envelope.output["warnings"] == ["${{result.b.x}} names nothing"]
