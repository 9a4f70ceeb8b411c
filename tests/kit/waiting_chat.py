"""A chat that starts a flow which asks a person, and helpers that inspect both."""

from dataclasses import replace
from typing import Any

from penstock.app.runtime import Runtime
from penstock.builtins.workflow import TOOLS
from penstock.chat.requests import NewMessage, SentMessage, TaskReply
from penstock.core.clock import Moment, SystemClock
from penstock.core.ids import LogId, TaskId
from penstock.core.limits import Limits
from penstock.core.messages import ToolMessage
from penstock.core.task import QuestionRecord, TaskStatus
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, say
from penstock.store.projections import Page, TasksOf
from penstock.testing.flows import MemoryFlows
from penstock.testing.runtime import MemoryStorage
from tests.kit.flows import WORKERS, finish, flows_of, steps, task_of, worker

LIMITS = Limits(poll_seconds=0.01, sweep_seconds=0.02, shutdown_seconds=0.05)
FORK = '  - {id: pick, question: "Sure?", branches: {Yes: one, No: one}}\n'
ASKS = steps(FORK + "  - {id: one, agent: scout}")
ASKS_TWICE = steps(
    FORK.replace("one", "again")
    + FORK.replace("pick", "again").replace("Sure?", "Really?")
    + "  - {id: one, agent: scout}"
)
AGENTS = [*WORKERS, worker("runner", tools=("execute_workflow",))]


def tight(**limits: float) -> Limits:
    """Return the default limits of these tests with changes."""
    return replace(LIMITS, **limits)  # type: ignore[arg-type]


def runs_inner(workflow: str) -> str:
    """Return a flow whose agent runs another flow."""
    return steps(f"  - {{id: inner, agent: runner, task: {workflow}}}")


def flows() -> MemoryFlows:
    """Return a flow that asks, one that asks twice, and flows that run these, three deep."""
    return flows_of(
        asks=ASKS,
        twice=ASKS_TWICE,
        plain=steps("  - {id: one, agent: scout}"),
        outer=runs_inner("asks"),
        middle=runs_inner("plain"),
        deep=runs_inner("middle"),
    )


class StrictClock(SystemClock):
    """The clock of this machine, except that no moment comes twice.

    Lists are ordered by time; two runs that start in one millisecond would be listed by their ids,
    which are hashes.
    """

    def __init__(self) -> None:
        self._last = Moment(0)

    def now(self) -> Moment:
        """Return the time of day, or the millisecond after the last answer."""
        self._last = max(super().now(), Moment(self._last + 1))
        return self._last


def place(**more: Any) -> MemoryStorage:
    """Return storage with these flows."""
    options: dict[str, Any] = {"flows": flows(), "limits": LIMITS, "clock": StrictClock()}
    return MemoryStorage(**options | more)


def answer(request: ModelRequest) -> ScriptedReply:
    """Reply as the chat, which starts the named flow; as a runner; or as an agent that is done."""
    has_result = any(isinstance(each, ToolMessage) for each in request.messages)
    if not any(tool.name == "finish" for tool in request.tools):
        message = request.messages[-1].content if not has_result else ""
        return say("All done.") if has_result else call("execute_workflow", workflowId=message)
    if request.system.find("You are runner.") < 0 or has_result:
        return finish()
    return call("execute_workflow", workflowId=task_of(request))


def model(first: ScriptedReply | None = None) -> ScriptedModel:
    """Return the model of all agents; the first agent in a step may reply differently."""
    left = [] if first is None else [first]

    def reply(request: ModelRequest) -> ScriptedReply:
        is_session = any(tool.name == "finish" for tool in request.tools)
        return left.pop() if left and is_session else answer(request)

    return ScriptedModel(reply)


RUNTIME: dict[str, Any] = {"tools": TOOLS, "agents": AGENTS}


async def parked(runtime: Runtime, workflow: str = "asks") -> tuple[SentMessage, TaskReply]:
    """Let a chat start a flow that asks; return the chat's task once it is suspended."""
    sent = await runtime.requests.send(NewMessage(content=workflow))
    reply = await runtime.requests.wait(sent.task_id)
    assert reply is not None
    assert reply.status is TaskStatus.SUSPENDED
    return sent, reply


async def open_one(runtime: Runtime, task_id: TaskId) -> QuestionRecord:
    """Return the open question of a task, or of the runs that it waits for."""
    reply = await runtime.requests.wait(task_id)
    assert reply is not None
    return reply.questions[0]


async def runs(runtime: Runtime) -> list[TaskId]:
    """Return all runs of flows, oldest first."""
    page = Page(limit=100, is_descending=False)
    tasks, _ = await runtime.parts.storage.projections.tasks(of=TasksOf(kind="flow"), page=page)
    return [each.task_id for each in tasks]


async def status(runtime: Runtime, task_id: TaskId) -> TaskStatus:
    """Return the record of a task."""
    task = await runtime.parts.storage.projections.find_task(task_id)
    assert task is not None
    return task.status


async def kinds(runtime: Runtime, log_id: LogId) -> list[str]:
    """Return the events of a log."""
    return [type(each.event).__name__ for each in await runtime.parts.storage.log.read(log_id)]
