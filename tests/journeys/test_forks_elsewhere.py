"""Forks beside other work: long logs delay no other task; what the copy lacks here blocks it."""

import asyncio
from typing import Any

from penstock.agents.agent import Agent
from penstock.core.clock import SystemClock
from penstock.core.ids import LogId, TaskId
from penstock.core.limits import Limits
from penstock.core.task import TaskStatus
from penstock.engine.session_state import SNAPSHOT_EVENTS
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.python.function import tool
from tests.kit.project import ProjectFolder

SENT: list[str] = []


@tool(effect="write", requires_approval=True)
def send(to: str) -> str:
    """Send a mail."""
    SENT.append(to)
    return f"sent to {to}"


async def test_a_fork_of_a_task_whose_tool_is_gone_waits_for_a_process_that_has_it() -> None:
    place = MemoryStorage(limits=Limits(sweep_seconds=0.01))
    SENT.clear()

    def clerk(*tools: Any) -> Agent[Any, Any]:
        model = ScriptedModel({"Ann": [call("send", to="ann"), say("It is sent.")]})
        return Agent("clerk", model=model, tools=list(tools))

    first = clerk(send)
    async with memory_runtime(agents=[first], place=place) as runtime:
        asked = await runtime.chat("Write to Ann", agent=first)
        assert asked.questions
        log = await runtime.parts.storage.log.read(LogId(asked.session))
        started = next(each.seq for each in log if type(each.event).__name__ == "QuestionAsked")
    async with memory_runtime(agents=[clerk()], place=place) as runtime:
        fork = await runtime.fork(asked.task_id, at=started)
        await runtime.parts.engine.launcher.rest()
        record = await runtime.requests.inbox.task(TaskId(fork.task_id))
        assert record.status is TaskStatus.BLOCKED
        assert [each.id for each in record.blocked_on] == ["send"]
    async with memory_runtime(agents=[clerk(send)], place=place) as runtime:
        reply = await runtime.attach(fork.task_id).reply()
        reply = await runtime.approve(reply)
    assert (reply.content, SENT) == ("It is sent.", ["ann"])


async def test_other_work_goes_on_while_a_long_log_is_copied(project: ProjectFolder) -> None:
    """The longest of the three steps, each as one piece, would be two passes of the event loop."""
    lines = SNAPSHOT_EVENTS // 3
    model = ScriptedModel(lambda _: say("Yes."))
    async with project.opened(agents=[Agent("assistant", model=model)]) as runtime:
        reply = await runtime.chat("1")
        for number in range(lines):
            reply = await runtime.chat(str(number), session=reply.session)
        log = runtime.parts.storage.log
        head = await log.head(LogId(reply.session))
        assert head > SNAPSHOT_EVENTS
        passes, over = 0, asyncio.Event()

        async def count() -> None:
            nonlocal passes
            while not over.is_set():
                passes += 1
                await SystemClock().sleep(0)

        counting = asyncio.create_task(count())
        fork = await runtime.fork(reply.task_id, at=head - 1)
        over.set()
        await counting
        await runtime.attach(fork.task_id).reply()
        assert fork.session is not None
        history = await runtime.history(fork.session)
    assert passes > 20
    assert len(history) == 2 * (lines + 1)
