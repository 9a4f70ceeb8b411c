"""Penstock, flows of agents: in memory and in projects on disk, the log on SQLite."""

import os
import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from penstock.agents.agent import Agent
from penstock.agents.agent_profile import AgentProfile
from penstock.app.runtime import Runtime
from penstock.chat.requests import NewRun
from penstock.core.envelope import Envelope
from penstock.core.events.flow_events import Outcome
from penstock.core.ids import TaskId
from penstock.core.json_values.json_text import compact
from penstock.core.messages import NOTHING_SPENT
from penstock.flows.checking import check_flow
from penstock.flows.checks.context import CheckContext, cards_of
from penstock.flows.definition import Flow
from penstock.flows.parsing import read_flow
from penstock.flows.runs.plan import Plan, RunStatus
from penstock.models.model import CallDelta, Finished, ModelCard, ModelEvent, ModelRequest
from penstock.program.opening import open as open_runtime
from penstock.testing.flows import MemoryFlows
from penstock.testing.runtime import MemoryStorage, memory_runtime

DISTRIBUTION = "penstock"
META = {"ledger": True, "guard": True, "loop_guard": True, "budgets": True}
CARD = ModelCard(model_id="fake", name="fake", provider="bench", context_tokens=1_000_000)
ARGUMENTS = compact({"status": "complete", "summary": "It is written.", "files": []})
RESUMED = TaskId("task_resumed")
STEP = """
  - id: part_{number}
    agent: writer
    blockedBy: [{before}]
    task: "Write part {number}. The part before it: ${{{{result.{before}.summary}}}}"
"""


class Fake:
    """Finishes at once; `calls` says how often it did."""

    card = CARD

    def __init__(self) -> None:
        self.calls = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """End the work."""
        self.calls += 1
        yield CallDelta(0, "finish", ARGUMENTS)
        yield Finished("tool_calls", NOTHING_SPENT)

    async def close(self) -> None:
        """Do nothing."""


class Last(Fake):
    """Kills its process instead of finishing once more."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """End the work, or everything."""
        if self.calls == self.most:
            os.kill(os.getpid(), signal.SIGKILL)
        async for event in super().stream(request):
            yield event


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """An open runtime, and what closes it."""

    runtime: Runtime
    model: Fake
    closing: AsyncExitStack


async def begin(lengths: list[int], directory: str | None) -> Context:
    model, closing = Fake(), AsyncExitStack()
    if directory is None:
        texts = {f"flows/{_name(each)}.yaml": text(each) for each in lengths}
        place = MemoryStorage(flows=MemoryFlows(texts))
        memory = memory_runtime(agents=[_writer(model)], place=place)
        runtime: Runtime = await closing.enter_async_context(memory)
    else:
        _write(directory, lengths)
        opening = open_runtime(directory, agents=[_writer(model)])
        runtime = await closing.enter_async_context(opening)
    return Context(runtime=runtime, model=model, closing=closing)


async def run(context: Context, length: int) -> None:
    _check(await context.runtime.run_flow(NewRun(command=_name(length), task="Write.")), length)


async def die_at_the_end(directory: str, length: int) -> None:
    _write(directory, [length])
    async with open_runtime(directory, agents=[_writer(Last(length - 1))]) as runtime:
        await runtime.run_flow(NewRun(command=_name(length), task="Write."), task_id=RESUMED)


async def resume(directory: str, length: int) -> None:
    model = Fake()
    async with open_runtime(directory, agents=[_writer(model)]) as runtime:
        reply = await runtime.requests.wait(RESUMED)
        assert reply
        assert reply.envelope
    _check(reply.envelope, length)
    assert model.calls == 1, f"{model.calls} steps were taken again"


def text(length: int) -> str:
    steps = [STEP.format(number=number, before=f"part_{number - 1}") for number in range(1, length)]
    return f"name: A book\ndescription: Parts, one after another.\nsteps:\n{FIRST}{''.join(steps)}"


def read(source: str) -> Flow:
    flow = read_flow(source, "book.yaml").flow
    assert flow is not None
    return flow


def check(source: str) -> None:
    check_context = CheckContext(agents=cards_of([_writer(Fake())]), file="flows/book.yaml")
    found = check_flow(read_flow(source, "flows/book.yaml"), check_context)
    assert not found, found[0]


def plan(flow: Flow) -> None:
    planned = Plan(flow)
    while planned.status is None:
        for step_id in planned.ready():
            planned.start(step_id)
            planned.settle(step_id, Outcome.SUCCESS)
    assert planned.status is RunStatus.SUCCESS


async def end(context: Context) -> None:
    await context.closing.aclose()


FIRST = """  - {id: part_0, agent: writer, task: Write part 0.}"""


def _name(length: int) -> str:
    return f"book_{length}"


def _writer(model: Fake) -> Agent:
    return Agent(
        "writer",
        instructions="You write.",
        model=model,
        profile=AgentProfile(file="agents/writer.md"),
    )


def _write(directory: str, lengths: list[int]) -> None:
    folder = Path(directory) / "flows"
    folder.mkdir(exist_ok=True)
    for each in lengths:
        (folder / f"{_name(each)}.yaml").write_text(text(each))


def _check(envelope: Envelope, length: int) -> None:
    results = envelope.output["results"]
    done = sum(each["status"] == "complete" for each in results.values())
    assert done == length, envelope
