"""A flow run whose agent, model or tool only another process has: it waits for that process."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from penstock.agents.agent import Agent
from penstock.app.runtime import Runtime
from penstock.chat.requests import NewRun, TaskReply
from penstock.core.call import Effect
from penstock.core.events.events import TaskBlocked, TaskResumed
from penstock.core.events.flow_events import StepSettled
from penstock.core.limits import Limits
from penstock.core.task import Missing, MissingKind, TaskStatus
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.invocation import Invocation
from penstock.tools.tool import Tool
from tests.kit.dying_log import DyingLog, live
from tests.kit.flows import RUN, by_task, finish, flows_of, steps, worker
from tests.kit.logs import events
from tests.kit.tools import Act

pytestmark = pytest.mark.chaos
SCOUT, WRITER = worker("scout"), worker("writer", tools=("look",))
LATER = """
  - {id: first, question: "Go on?", branches: {Yes: report, No: report}}
  - {id: report, agent: writer, task: report}
"""
BESIDE = """
  - {id: first, question: "Which?", multiSelect: true, branches: {Yes: side, No: report}}
  - {id: side, agent: scout, task: side}
  - {id: report, agent: writer, task: report}
  - {id: second, question: "Go on?", branches: {Yes: last, No: last}}
  - {id: last, agent: scout, task: last}
"""
INSIDE = """
  - {id: first, question: "Go on?", branches: {Yes: inner, No: inner}}
  - {id: inner, path: flows/sub.yaml}
"""
SUB = "  - {id: report, agent: writer, task: report}"
ELSEWHERE = "  - {id: report, agent: writer, task: report, model: absent}"


def agent_missing(name: str) -> Missing:
    return Missing(MissingKind.AGENT, name)


async def awaited(runtime: Runtime) -> TaskReply:
    reply = await runtime.requests.wait(RUN)
    assert reply
    return reply


async def answered(runtime: Runtime, value: str | list[str] = "Yes") -> TaskReply:
    """Answer the question of the run, and wait for what follows."""
    asked = (await awaited(runtime)).questions[0].question.question_id
    await runtime.requests.answer(asked, {"value": value})
    return await awaited(runtime)


def place_of(text: str, **more: str) -> MemoryStorage:
    flows = flows_of(demo=steps(text), **{name: steps(each) for name, each in more.items()})
    limits = Limits(poll_seconds=0.01, sweep_seconds=0.05)
    return MemoryStorage(flows=flows, limits=limits)


def model() -> ScriptedModel:
    return ScriptedModel(by_task({}))


async def asking(place: MemoryStorage, agents: Iterable[Agent]) -> None:
    """Have a run wait for a person, in a process that has these agents."""
    async with memory_runtime(model=model(), agents=agents, place=place) as runtime:
        await runtime.start_flow(NewRun(command="demo", task="t"), task_id=RUN)
        assert (await awaited(runtime)).status is TaskStatus.SUSPENDED


@pytest.mark.parametrize(
    ("text", "sub"),
    [(LATER, {}), (INSIDE, {"sub": SUB})],
    ids=["own step", "step of a flow inside"],
)
async def test_a_run_waits_for_the_agent_of_its_next_step(text: str, sub: dict[str, str]) -> None:
    place, both = place_of(text, **sub), [SCOUT, WRITER]
    await asking(place, both)
    async with memory_runtime(model=model(), agents=[SCOUT], place=place) as runtime:
        reply = await answered(runtime)
        assert (reply.status, reply.blocked_on) == (
            TaskStatus.BLOCKED,
            (agent_missing("writer"),),
        )
    async with memory_runtime(model=model(), agents=both, place=place) as runtime:
        assert (await awaited(runtime)).status is TaskStatus.SUCCEEDED


async def test_processes_that_lack_the_same_part_note_a_blocked_run_once() -> None:
    place = place_of(LATER)
    await asking(place, [SCOUT, WRITER])
    async with memory_runtime(model=model(), agents=[SCOUT], place=place) as runtime:
        await answered(runtime)
    for _ in range(2):
        async with memory_runtime(model=model(), agents=[SCOUT], place=place) as runtime:
            assert (await awaited(runtime)).status is TaskStatus.BLOCKED
    async with memory_runtime(model=model(), agents=[SCOUT], place=place) as runtime:
        happened = await events(runtime, RUN)
    values = [type(each) for each in happened if isinstance(each, TaskBlocked | TaskResumed)]
    assert values == [TaskResumed, TaskBlocked]


async def test_a_run_resumes_as_soon_as_its_process_gets_the_agent() -> None:
    place = place_of(LATER)
    await asking(place, [SCOUT, WRITER])
    async with memory_runtime(model=model(), agents=[SCOUT], place=place) as runtime:
        assert (await answered(runtime)).status is TaskStatus.BLOCKED
        runtime.parts.chat.agents.add(WRITER)
        waiting = asyncio.ensure_future(awaited(runtime))
        assert (await waiting).status is TaskStatus.SUCCEEDED


async def test_other_steps_continue_beside_a_blocked_step() -> None:
    """One step lacks its agent; its neighbour finishes; the question after them is not asked."""
    place = place_of(BESIDE)
    await asking(place, [SCOUT, WRITER])
    async with memory_runtime(model=model(), agents=[SCOUT], place=place) as runtime:
        reply = await answered(runtime, ["Yes", "No"])
        assert (reply.status, reply.blocked_on) == (
            TaskStatus.BLOCKED,
            (agent_missing("writer"),),
        )
        settled = [each for each in await events(runtime, RUN) if isinstance(each, StepSettled)]
    assert [each.step_id for each in settled] == ["first", "side"]
    async with memory_runtime(model=model(), agents=[SCOUT, WRITER], place=place) as runtime:
        reply = await awaited(runtime)
        assert reply.status is TaskStatus.SUSPENDED
        assert (await answered(runtime)).status is TaskStatus.SUCCEEDED


async def test_a_step_whose_model_is_missing_blocks_a_run_that_was_resumed() -> None:
    place = place_of(LATER.replace("task: report", "task: report, model: absent"))
    await asking(place, [SCOUT, WRITER])
    missing = Missing(MissingKind.MODEL, "absent")
    async with memory_runtime(model=model(), agents=[SCOUT, WRITER], place=place) as runtime:
        reply = await answered(runtime)
        assert (reply.status, reply.blocked_on) == (TaskStatus.BLOCKED, (missing,))
        await runtime.requests.cancel(RUN)
        assert (await awaited(runtime)).status is TaskStatus.CANCELLED


async def test_a_wrong_model_fails_the_step_of_a_run_that_was_not_resumed() -> None:
    place = place_of(ELSEWHERE)
    async with memory_runtime(model=model(), agents=[SCOUT, WRITER], place=place) as runtime:
        await runtime.start_flow(NewRun(command="demo", task="t"), task_id=RUN)
        assert (await awaited(runtime)).status is TaskStatus.FAILED


def looking(request: ModelRequest) -> ScriptedReply:
    """Look once, then finish."""
    return call("look") if len(request.messages) == 1 else finish("done")


class KilledInATool:
    """A process that is killed in the tool of an agent of a flow, or in what that calls."""

    def __init__(self, text: str = SUB) -> None:
        self.clock = FakeClock()
        self.log = DyingLog(self.clock, writes=-1, before=False)
        limits = Limits(poll_seconds=0.01, shutdown_seconds=0)
        flows = flows_of(demo=steps(text))
        self.place = MemoryStorage(clock=self.clock, log=self.log, limits=limits, flows=flows)
        self.is_lethal = True

    async def die(self, input: Any, invocation: Invocation) -> str:
        if self.is_lethal:
            await invocation.ledger.held.commit()
            self.log.died.set()
            await asyncio.Event().wait()
        return "done"

    async def outer(self, input: Any, invocation: Invocation) -> str:
        envelope = await invocation.invoke("inner", {})
        return envelope.status.value

    def tools(self, *names: str) -> list[Tool]:
        inner = Act("inner", self.die, effect=Effect.WRITE, idempotent=True, is_global=True)
        outer = Act("look", self.outer, effect=Effect.READ)
        return [each for each in (outer, inner) if each.spec.tool_id in names]

    def brought(self, *tools: str, **more: Any) -> dict[str, Any]:
        model = ScriptedModel(looking)
        usual = {"model": model, "agents": [SCOUT, WRITER], "tools": self.tools(*tools)}
        return {**usual, "place": self.place, **more}

    async def begin(self) -> None:
        async with memory_runtime(**self.brought("look", "inner")) as runtime:
            await runtime.start_flow(NewRun(command="demo", task="t"), task_id=RUN)
            await live(runtime, self.log, awaited(runtime))
        self.log.revive()
        self.is_lethal = False
        self.clock.advance(self.place.limits.lease_seconds + 1)


MISSING: dict[str, tuple[tuple[str, ...], dict[str, Any], Missing]] = {
    "the tool of its open call": ((), {}, Missing(MissingKind.TOOL, "look")),
    "the tool that this one called": (("look",), {}, Missing(MissingKind.TOOL, "inner")),
    "its model": (("look", "inner"), {"model": None}, Missing(MissingKind.MODEL, "scripted")),
}


@pytest.mark.parametrize(("tools", "more", "missing"), MISSING.values(), ids=list(MISSING))
async def test_an_agent_of_a_flow_killed_in_a_tool_waits_for_that_tool(
    tools: tuple[str, ...], more: dict[str, Any], missing: Missing
) -> None:
    killed = KilledInATool()
    await killed.begin()
    async with memory_runtime(**killed.brought(*tools, **more)) as runtime:
        reply = await awaited(runtime)
        assert (reply.status, missing in reply.blocked_on) == (TaskStatus.BLOCKED, True)
    async with memory_runtime(**killed.brought("look", "inner")) as runtime:
        assert (await awaited(runtime)).status is TaskStatus.SUCCEEDED


async def test_a_started_agent_does_not_need_its_file_again() -> None:
    """The log keeps what the file said, so a file that is removed meanwhile stops nothing."""
    killed = KilledInATool()
    await killed.begin()
    async with memory_runtime(**killed.brought("look", "inner", agents=[SCOUT])) as runtime:
        assert (await awaited(runtime)).status is TaskStatus.SUCCEEDED
