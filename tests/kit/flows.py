"""Flows in memory, with agents whose model replies according to their tasks."""

from collections.abc import Callable, Mapping
from typing import Any

from penstock.agents.agent import Agent
from penstock.agents.agent_profile import AgentProfile
from penstock.app.runtime import Runtime
from penstock.chat.requests import NewRun, TaskReply
from penstock.core.envelope import Envelope
from penstock.core.events.flow_events import FlowNotified
from penstock.core.ids import LogId, TaskId
from penstock.core.task import TaskStatus
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call
from penstock.store.projections import Page
from penstock.testing.flows import MemoryFlows
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.tool import Tool

HEAD = "name: demo\ndescription: d\n"
Answer = Callable[[ModelRequest], ScriptedReply]
RUN = TaskId("task_1")
W1 = """
  - {id: web, agent: scout, task: look at the web}
  - {id: code, agent: scout, task: look at the code}
  - id: report
    agent: writer
    blockedBy: [web, code]
    task: "${{result.web.summary}}, ${{result.code.summary}}"
"""
"""Two steps together, and their join."""


def flows_of(**texts: str) -> MemoryFlows:
    """Return flows by command, with `_` for `/`; each text is what follows the description."""
    files = {name.replace("_", "/"): text for name, text in texts.items()}
    return MemoryFlows({f"flows/{name}.yaml": HEAD + text for name, text in files.items()})


def worker(name: str, **agent_profile: Any) -> Agent:
    """Return an agent of flows."""
    known = AgentProfile(**{"file": f"agents/{name}.md", **agent_profile})
    return Agent(name, instructions=f"You are {name}.", profile=known)


def faulty(name: str) -> Agent:
    """Return an agent whose instructions are not text: each of its steps is a fault."""
    nothing: Any = None
    return worker(name).__replace__(instructions=nothing)


WORKERS = [worker(name) for name in ("scout", "writer", "judge", "flow-decision")]


def finish(summary: str = "done", **more: Any) -> ScriptedReply:
    """Return a reply that ends an agent's work well."""
    arguments: dict[str, Any] = {"status": "complete", "summary": summary, "files": []}
    return call("finish", **arguments | more)


def task_of(request: ModelRequest) -> str:
    """Return the first line of an agent's task."""
    texts = [each.content for each in request.messages]
    task = next(text for text in texts if text.startswith("Task: "))
    return task.removeprefix("Task: ").split("\n")[0]


def by_task(answers: Mapping[str, ScriptedReply | Answer]) -> Answer:
    """TaskReply to each agent according to its task; without a match the agent finishes."""

    def answer(request: ModelRequest) -> ScriptedReply:
        task = task_of(request)
        reply = answers.get(task, finish(f"{task} done"))
        return reply(request) if callable(reply) else reply

    return answer


def steps(text: str) -> str:
    """Return the steps of a flow as its file has them."""
    return f"steps:\n{text.strip(chr(10))}\n"


async def run_flow(
    text: str,
    model: ScriptedModel,
    *,
    tools: list[Tool] | None = None,
    agents: list[Agent] | None = None,
    **more: Any,
) -> Envelope:
    """Run a flow of these steps in memory."""
    place = MemoryStorage(flows=flows_of(demo=steps(text)))
    agent_sessions = WORKERS if agents is None else agents
    async with memory_runtime(
        model=model, agents=agent_sessions, tools=tools or [], place=place
    ) as runtime:
        return await run_in(runtime, **more)


async def run_in(runtime: Runtime, **more: Any) -> Envelope:
    """Run the flow `demo`."""
    run = NewRun(command="demo", **{"task": "the task", **more})
    return await runtime.run_flow(run, task_id=RUN)


def visits(envelope: Envelope) -> dict[str, int]:
    """Return how often each step was started."""
    return {name: each["visits"] for name, each in envelope.output["results"].items()}


async def see_through(runtime: Runtime, answer: Mapping[str, Any], *, task: str) -> TaskReply:
    """Start the flow `demo` unless it was started, and answer its questions until it ends."""
    tasks, _ = await runtime.parts.storage.projections.tasks(page=Page())
    if not tasks:
        await runtime.start_flow(NewRun(command="demo", task=task), task_id=RUN)
    while True:
        reply = await runtime.requests.wait(RUN)
        assert reply
        if reply.status is not TaskStatus.SUSPENDED:
            return reply
        await runtime.requests.answer(reply.questions[0].question.question_id, answer)


async def told_in(runtime: Runtime, kind: str) -> list[Mapping[str, Any]]:
    """Return the notices of one kind that the run published."""
    events = [each.event for each in await runtime.parts.storage.log.read(LogId(RUN))]
    notified = [each for each in events if isinstance(each, FlowNotified)]
    return [each.body for each in notified if each.kind == kind]
