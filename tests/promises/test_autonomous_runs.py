"""An autonomous run asks no person, from any place in it; only approvals wait."""

from typing import Any

import pytest

from penstock.builtins.ask_user import TOOLS as ASK_USER
from penstock.builtins.subagent import TOOLS as SUBAGENT
from penstock.builtins.workflow import TOOLS as WORKFLOW
from penstock.core.envelope import Envelope
from penstock.core.events.events import CallSettled, QuestionAsked, TaskSuspended
from penstock.core.ids import LogId
from penstock.core.task import QuestionKind
from penstock.flows.steps.kind import CodeEnvironment
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call
from penstock.testing.flows import MemoryFlows
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.policy import Action, Rule
from penstock.tools.python.context import ToolContext
from penstock.tools.python.function import tool
from penstock.tools.tool import Tool
from tests.kit.code_environment import BESIDE, FILE
from tests.kit.flows import HEAD, RUN, finish, flows_of, run_in, steps, task_of, worker

ASK = call("ask_user", question="Which?", type="input")
SAID = "{} is blocked: this run is autonomous. Decide on your own and go on."
CODE = "  - {id: count, type: code, outputs: [said], tools: [subagent, poll]}"
MODULE = """export default async () => {{
  const heard = await flo.callTool({{ tool_id: "{}", input: {{ {} }} }});
  return {{ said: heard.error?.message ?? JSON.stringify(heard.output) }};
}};"""
WAITING = """export default async () => ({
  said: await flo.task.waitForUserMessage({ user_message: "Which?", timeout: { seconds: 9,
    resume_prompt: "Go on" } }).then(() => "waited", (error) => error.message) });"""


@tool(effect="none")
async def poll(*, ctx: ToolContext) -> str:
    """Ask a person, as the code of a tool does."""
    return await ctx.ask("Which?")


def asking(request: ModelRequest) -> ScriptedReply:
    """Ask once, then pass the result on; without it the tool `poll` is needed."""
    if len(request.messages) > 1:
        return finish(request.messages[-1].content)
    if task_of(request) == "begin":
        return call("execute_workflow", workflowId="inner")
    return ASK if task_of(request) == "ask" else call("poll")


async def run(place: MemoryStorage, *rules: Rule) -> tuple[Envelope, list[Any]]:
    """Run the flow autonomously; returns its outcome, and what is in its log."""
    agents = [worker("a", tools=("poll", "execute_workflow"))]
    tools: list[Tool] = [*ASK_USER, *SUBAGENT, *WORKFLOW, poll]
    async with memory_runtime(
        model=ScriptedModel(asking), agents=agents, tools=tools, rules=rules, place=place
    ) as runtime:
        envelope = await run_in(runtime, autonomous=True)
        records = await runtime.parts.storage.log.read(LogId(RUN))
    return envelope, [each.event for each in records]


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (MODULE.format("ask_user", 'question: "Which?", type: "input"'), "ask_user"),
        (MODULE.format("ask_user", 'question: "Which?"'), "ask_user"),
        (MODULE.format("poll", ""), "ask_user"),
        (MODULE.format("subagent", 'agent: "a", task: "ask"'), "ask_user"),
        (MODULE.format("subagent", 'agent: "a", task: "poll"'), "ask_user"),
        (WAITING, "task.waitForUserMessage"),
    ],
    ids=["ask_user", "its other form", "a tool", "an agent", "a tool of an agent", "a wait"],
)
async def test_no_code_step_asks_and_none_waits_for_words(
    code_environment: CodeEnvironment, module: str, expected: str
) -> None:
    """14.1: "inside an autonomous run every `ask_user`, also one of a script, is refused"."""
    files = MemoryFlows({FILE: HEAD + steps(CODE), f"{BESIDE}/count.js": module})
    envelope, events = await run(MemoryStorage(flows=files, code_environment=code_environment))
    assert envelope.output["status"] == "success"
    assert SAID.format(expected) in envelope.output["results"]["count"]["outputs"]["said"]
    assert not [each for each in events if isinstance(each, QuestionAsked)]


@pytest.mark.parametrize("task", ["ask", "poll"])
async def test_no_agent_asks_nor_does_a_tool_of_its(task: str) -> None:
    """T12, G16: "In autonomous mode, ask_user is blocked in subagent sessions"."""
    place = MemoryStorage(flows=flows_of(demo=steps(f"  - {{id: one, agent: a, task: {task}}}")))
    envelope, events = await run(place)
    assert envelope.output["status"] == "success"
    assert SAID.format("ask_user") in envelope.output["results"]["one"]["summary"]
    assert not [each for each in events if isinstance(each, QuestionAsked)]


async def test_a_run_started_by_an_agent_asks_no_person() -> None:
    """14.1: "inside an autonomous run every `ask_user`, also one of a script, is refused"."""
    inner = steps("  - {id: two, agent: a, task: ask}")
    outer = steps("  - {id: one, agent: a, task: begin}")
    envelope, events = await run(MemoryStorage(flows=flows_of(demo=outer, inner=inner)))
    assert envelope.output["status"] == "success"
    assert SAID.format("ask_user") in envelope.output["results"]["one"]["summary"]
    assert not [each for each in events if isinstance(each, TaskSuspended)]


async def test_an_approval_still_waits_for_a_person() -> None:
    """14.1: "Approvals (`requires_approval`) still wait for a person"."""
    place = MemoryStorage(flows=flows_of(demo=steps("  - {id: one, agent: a, task: poll}")))
    envelope, events = await run(place, Rule(tool="poll", action=Action.ASK))
    (asked,) = [each for each in events if isinstance(each, QuestionAsked)]
    assert asked.question.kind is QuestionKind.APPROVAL
    assert envelope.status.value == "suspended"
    assert not [each for each in events if isinstance(each, CallSettled)]
