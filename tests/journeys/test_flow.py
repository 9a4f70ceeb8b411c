"""Flows, run whole: a scripted model, the log in memory."""

from typing import Any

import pytest

from penstock.agents.agent import Agent
from penstock.agents.charter import Charter
from penstock.chat.message import NewRun
from penstock.core.envelope import Envelope
from penstock.flows.work import FlowSource
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, say
from penstock.testing.runtime import MemoryPlace, memory_runtime

HEAD = "name: demo\ndescription: d\nsteps:\n"


def flows(**texts: str) -> Any:
    def find(command: str) -> FlowSource:
        file = f"flows/{command}.yaml"
        return FlowSource(file=file, texts={file: HEAD + texts[command]})

    return find


def agents(*names: str, **charter: Any) -> list[Agent]:
    return [
        Agent(name, instructions=f"You are {name}.", charter=Charter(**charter)) for name in names
    ]


def finish(summary: str = "done", **more: Any) -> ScriptedReply:
    return call("finish", status="complete", summary=summary, files=[], **more)


def by_task(answers: dict[str, ScriptedReply]) -> Any:
    """Answer each agent by the task that it was given."""

    def answer(request: ModelRequest) -> ScriptedReply:
        task = next(m.content for m in request.messages if m.content.startswith("Task: "))
        name = task.removeprefix("Task: ").split("\n")[0]
        return answers.get(name, finish(f"{name} done"))

    return answer


async def run(steps: str, model: ScriptedModel, **more: Any) -> Envelope:
    place = MemoryPlace(flows=flows(demo=steps))
    crew = agents("scout", "writer", "judge")
    async with memory_runtime(model=model, agents=crew, place=place) as runtime:
        return await runtime.run_flow(NewRun(command="demo", task="the task", **more))


W1 = """
  - {id: web, agent: scout, task: look at the web}
  - {id: code, agent: scout, task: look at the code}
  - id: report
    agent: writer
    blockedBy: [web, code]
    task: "${{result.web.summary}}, ${{result.code.summary}}"
"""


async def test_two_steps_in_parallel_and_their_join() -> None:
    """W1: two in parallel, one join."""
    model = ScriptedModel(by_task({}))
    envelope = await run(W1, model)
    assert envelope.ok
    result = envelope.output
    assert result["status"] == "success"
    assert result["stepCount"] == 3
    wanted = "look at the web done, look at the code done"
    assert result["results"]["report"]["summary"] == f"{wanted} done"
    assert result["lastResult"]["summary"] == f"{wanted} done"


async def test_an_agent_reads_its_own_task_and_nothing_else() -> None:
    """The session sees nothing of the main session or of other steps."""
    model = ScriptedModel(by_task({}))
    await run(W1, model)
    assert [len(request.messages) for request in model.requests] == [1, 1, 1]
    assert all("You are" in request.system for request in model.requests)
    assert [tool.name for tool in model.requests[0].tools] == ["finish"]


async def test_who_calls_nothing_is_reminded_and_then_fails() -> None:
    """T22: two reminders; three replies without a tool call."""
    model = ScriptedModel([say("Hm."), say("Done!"), say("Really.")])
    envelope = await run("\n  - {id: web, agent: scout}\n", model)
    assert not envelope.ok
    assert envelope.output["status"] == "error"
    assert envelope.output["results"]["web"]["status"] == "error"
    assert len(model.requests) == 3
    assert "Your last act must be a call of finish" in model.requests[1].messages[-1].content


W9 = """
  - {id: make, agent: writer, task: make}
  - id: gate
    agent: judge
    task: "Try ${{loop.gate.iteration}} of ${{loop.gate.max}}"
    branches: {redo: make, good: publish}
    max_iterations: 1
  - {id: salvage, agent: scout, task: salvage}
  - {id: publish, agent: writer, blockedBy: [salvage], task: publish}
"""


@pytest.mark.parametrize(
    ("branch", "ran"),
    [
        ("redo", {"make": 2, "gate": 2, "salvage": 1, "publish": 1}),
        ("good", {"make": 1, "gate": 1, "salvage": 0, "publish": 1}),
    ],
)
async def test_a_decision_routes_by_the_branch_of_finish(branch: str, ran: dict[str, int]) -> None:
    """T26: the agent's branch choice is used by the engine to route to the next step (W9)."""
    model = ScriptedModel(by_task({f"Try {n} of 1": finish("ok", branch=branch) for n in (1, 2)}))
    envelope = await run(W9, model)
    assert envelope.ok
    results = envelope.output["results"]
    assert {name: each["visits"] for name, each in results.items()} == ran
