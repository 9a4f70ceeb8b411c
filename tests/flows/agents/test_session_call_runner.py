"""Calls of an agent session: the order with `finish`, and undeclared tools."""

from penstock.models.scripted import ScriptedModel, call
from tests.kit.flows import (
    finish,
    run_flow,
    worker,
)
from tests.kit.tools import Act


async def test_calls_before_finish_run_first_and_those_after_it_are_refused() -> None:
    """N6: calls before finish run and settle first; calls after it are refused."""
    look = Act("look")
    said = call("look", n=1) + finish("ok") + call("look", n=2)
    agents = [worker("scout", tools=("look",))]
    envelope = await run_flow(
        "  - {id: web, agent: scout}", ScriptedModel([said]), tools=[look], agents=agents
    )
    assert envelope.ok
    assert look.runs == [{"n": 1}]


async def test_an_undeclared_tool_is_refused_and_the_agent_continues() -> None:
    """G5: the session goes on."""
    look = Act("look")
    model = ScriptedModel([call("look"), finish("ok")])
    envelope = await run_flow("  - {id: web, agent: scout}", model, tools=[look])
    assert envelope.ok
    assert look.runs == []
    assert '\\"look\\" is not declared by agent' in model.requests[1].messages[-1].content
