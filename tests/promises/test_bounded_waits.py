"""A schedule bounds how long its tasks wait for people."""

from typing import Any

import pytest

from penstock.app.runtime import Runtime
from penstock.chat.requests import TaskReply
from penstock.chat.schedules.definition import NewSchedule
from penstock.core.events.events import CallSettled, Entry, QuestionAsked, TaskStarted
from penstock.core.events.schedule_events import ScheduleFired, WaitExpired
from penstock.core.ids import ScheduleId
from penstock.core.limits import Limits
from penstock.core.messages import UserMessage
from penstock.core.task import TaskStatus
from penstock.engine.suspend import expire
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, say
from penstock.store.projections import Page
from penstock.testing.clock import START, FakeClock
from penstock.testing.log import MemoryLog
from penstock.tools.python.context import ToolContext
from penstock.tools.python.function import tool
from tests.kit.server import in_memory
from tests.kit.session_events import LOG, ONE, answered, held_log, question

PROMPT = "Nobody is here. Go on without."
LIMITS = Limits(shutdown_seconds=0)


@tool(requires_approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


class Run:
    """One task of a schedule whose questions wait for a minute."""

    def __init__(self, runtime: Runtime, clock: FakeClock, task_id: str) -> None:
        self.runtime, self._clock, self._task_id = runtime, clock, task_id

    async def after(self, seconds: float) -> TaskReply:
        self._clock.advance(seconds)
        (task,), _ = await self.runtime.parts.storage.projections.tasks(page=Page())
        self.runtime.parts.engine.launcher.wake(task.log_id)
        await self.runtime.parts.engine.launcher.rest()
        reply = await self.runtime.requests.wait(self._task_id)
        assert reply is not None
        return reply

    async def events(self, kind: type[Any]) -> list[Any]:
        (task,), _ = await self.runtime.parts.storage.projections.tasks(page=Page())
        records = await self.runtime.parts.storage.log.read(task.log_id)
        return [each.event for each in records if isinstance(each.event, kind)]


async def start(runtime: Runtime, clock: FakeClock) -> Run:
    new = NewSchedule(
        name="Pay",
        cron="@daily",
        input={"content": "Pay."},
        suspension_seconds=60,
        resume_prompt=PROMPT,
    )
    schedule = await runtime.schedules.create(new)
    return Run(runtime, clock, await runtime.schedules.run(schedule.schedule_id))


async def test_after_the_time_the_call_is_rejected_and_the_task_continues_with_the_prompt() -> None:
    asked: list[object] = []

    def answer(request: ModelRequest) -> ScriptedReply:
        asked.append(request.messages[-1])
        return call("pay") if len(asked) == 1 else say("Then not.")

    clock = FakeClock()
    opened: dict[str, Any] = {"tools": [pay], "clock": clock, "limits": LIMITS}
    async with in_memory(model=ScriptedModel(answer), **opened) as runtime:
        run = await start(runtime, clock)
        await run.after(0)
        assert (await run.after(59)).status is TaskStatus.SUSPENDED
        ended = await run.after(2)
        assert (ended.status, ended.content) == (TaskStatus.SUCCEEDED, "Then not.")
        (settled,) = await run.events(CallSettled)
        assert settled.envelope.error.code == "REJECTED"
        assert [each.resume_prompt for each in await run.events(WaitExpired)] == [PROMPT]
        assert asked[1] == UserMessage(PROMPT)


async def test_the_second_time_the_task_fails() -> None:
    clock, model = FakeClock(), ScriptedModel([call("pay"), call("pay"), say("Never.")])
    opened: dict[str, Any] = {"tools": [pay], "clock": clock, "limits": LIMITS}
    async with in_memory(model=model, **opened) as runtime:
        run = await start(runtime, clock)
        assert (await run.after(0)).status is TaskStatus.SUSPENDED
        assert (await run.after(61)).status is TaskStatus.SUSPENDED
        ended = await run.after(61)
        assert ended.error is not None
        assert (ended.status, ended.error.code) == (TaskStatus.FAILED, "SUSPENSION_TIMEOUT")
        assert len(await run.events(QuestionAsked)) == 2


async def test_questions_that_were_asked_together_expire_as_one_wait() -> None:
    """They expire some moments apart: the task failed before its agent read the prompt."""
    asked: list[object] = []

    def answer(request: ModelRequest) -> ScriptedReply:
        asked.append(request.messages[-1])
        first = call("pay") + call("ask_later")
        return first if len(asked) == 1 else say("Then not.")

    clock = FakeClock()

    @tool(effect="none")
    async def ask_later(ctx: ToolContext) -> str:
        """Ask some seconds later; the function runs again after each wait."""
        clock.advance(5 if len(asked) == 1 and clock.now() == START else 0)
        return str(await ctx.ask("Really?"))

    opened: dict[str, Any] = {"tools": [pay, ask_later], "clock": clock, "limits": LIMITS}
    async with in_memory(model=ScriptedModel(answer), **opened) as runtime:
        run = await start(runtime, clock)
        assert len((await run.after(0)).questions) == 2
        assert (await run.after(56)).status is TaskStatus.SUSPENDED
        ended = await run.after(10)
        assert (ended.status, ended.content) == (TaskStatus.SUCCEEDED, "Then not.")
        assert len(await run.events(WaitExpired)) == 1
        assert asked[1] == UserMessage(PROMPT)


async def test_a_question_that_is_answered_while_it_expires_has_not_expired() -> None:
    """The answer is in the log first, and the holder reads it with its own write."""
    fired = ScheduleFired(
        schedule_id=ScheduleId("sched_1"), name="Pay", suspension_seconds=60, resume_prompt=PROMPT
    )
    clock, asked = FakeClock(), QuestionAsked(question=question("a"))
    log = MemoryLog(clock)
    held = await held_log(fired, TaskStarted(), asked, log=log)
    await log.send(LOG, [Entry(answered("a"), ONE)])
    clock.advance(61)
    await expire(held, clock)
    task = held.state.current
    assert task is not None
    assert (task.expired_waits, task.main.follow_up) == (0, "")
    assert not any(isinstance(each.event, WaitExpired) for each in await log.read(LOG))


async def test_after_a_crash_an_expired_question_is_found_again() -> None:
    clock = FakeClock()
    fired = ScheduleFired(
        schedule_id=ScheduleId("sched_1"), name="Pay", suspension_seconds=60, resume_prompt=PROMPT
    )
    expired = (QuestionAsked(question=question("a")), answered("a", by=None))
    held = await held_log(fired, TaskStarted(), *expired)
    assert held.state.has_questions
    for _ in range(2):
        await expire(held, clock)
    task = held.state.current
    assert task is not None
    assert (task.expired_waits, task.main.follow_up) == (1, PROMPT)


@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_an_answer_in_time_wins(decision: str) -> None:
    clock, model = FakeClock(), ScriptedModel([call("pay"), say("Done.")])
    opened: dict[str, Any] = {"tools": [pay], "clock": clock, "limits": LIMITS}
    async with in_memory(model=model, **opened) as runtime:
        run = await start(runtime, clock)
        await run.after(0)
        waiting = await run.after(30)
        question = waiting.questions[0].question.question_id
        await runtime.requests.answer(question, {"decision": decision})
        assert (await run.after(61)).status is TaskStatus.SUCCEEDED
        assert await run.events(WaitExpired) == []
