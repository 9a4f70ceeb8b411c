"""Agents at work: what each is offered, and what it reads."""

from penstock.core.flow_events import AgentBegan
from penstock.core.ids import LogId
from penstock.models.scripted import ScriptedModel
from penstock.testing.runtime import MemoryPlace, memory_runtime
from tests.kit.flows import (
    RUN,
    W1,
    by_task,
    finish,
    flows_of,
    run_flow,
    run_in,
    steps,
    worker,
)
from tests.kit.tools import Act


async def test_an_agent_reads_its_own_task_and_nothing_else() -> None:
    """The session sees nothing of the main session or of other steps."""
    model = ScriptedModel(by_task({}))
    await run_flow(W1, model)
    assert [len(request.messages) for request in model.requests] == [1, 1, 1]
    assert all("You are" in request.system for request in model.requests)
    assert [tool.name for tool in model.requests[0].tools] == ["finish"]


async def test_an_agent_that_is_gone_fails_its_step_softly() -> None:
    """Agent gone from the catalog since the start: soft, `agent_unknown`."""
    text = """
  - {id: web, agent: nobody, task: t, on_error: other}
  - {id: stop, agent: scout, end: true}
  - {id: other, agent: scout, task: other}
"""
    envelope = await run_flow(text, ScriptedModel(by_task({})))
    assert envelope.ok
    assert "There is no agent 'nobody'" in envelope.output["results"]["web"]["summary"]


async def test_a_model_that_cannot_be_had_fails_its_step_softly() -> None:
    """Model cannot be resolved: soft, `model_unresolved`."""
    text = "  - {id: web, agent: scout, task: t, model: nobody/knows}"
    envelope = await run_flow(text, ScriptedModel([]))
    assert envelope.output["status"] == "error"
    assert envelope.output["results"]["web"]["status"] == "error"


async def test_an_agent_is_offered_what_it_declared_and_finish() -> None:
    look, other = Act("look"), Act("other")
    model = ScriptedModel([finish("ok")])
    agents = [worker("scout", tools=("look", "gone"))]
    await run_flow("  - {id: web, agent: scout}", model, tools=[look, other], agents=agents)
    assert [tool.name for tool in model.requests[0].tools] == ["look", "finish"]


async def test_a_run_keeps_the_hash_of_each_agent_as_it_was() -> None:
    """`flow_agent_started` holds the hash of the resolved agent (section 17)."""
    place = MemoryPlace(flows=flows_of(demo=steps("  - {id: web, agent: scout}")))
    agents = [worker("scout", content_hash="ab")]
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=agents, place=place) as runtime:
        await run_in(runtime)
    events = [each.event for each in await place.log.read(LogId(RUN))]
    assert [each.agent_hash for each in events if isinstance(each, AgentBegan)] == ["ab"]
