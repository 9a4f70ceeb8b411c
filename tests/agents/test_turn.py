"""A turn: what it does once, it does the same after any restart."""

import asyncio
import errno
from collections.abc import AsyncGenerator

import pytest

from penstock.agents.loop import BUDGET_NOTICE
from penstock.app.runtime import Runtime
from penstock.core.errors import ModelUnavailable
from penstock.core.events.events import CallSettled, ReplyRestarted
from penstock.core.exhaustion import WAIT_SECONDS
from penstock.core.ids import LogId
from penstock.core.task import TaskStatus
from penstock.models.model import Finished, ModelEvent, ModelRequest
from penstock.models.scripted import (
    Hold,
    ScriptedModel,
    ScriptedReply,
    call,
    fail,
    raw_call,
    say,
    wait,
)
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.assistant import agent, assert_whole
from tests.kit.dying_log import DyingLog, outlived
from tests.kit.logs import events, settled
from tests.kit.tools import Act

WRITES = 9

STORY = [
    call("a"),
    call("b") + call("a"),
    call("a") + call("c", n=1),
    call("c", n=2),
    call("c", n=3),
    call("c", n=4),
    call("c", n=5),
    say("Enough."),
]
"""A third `a` is blocked; then four rounds bring nothing new, and the fifth is blocked."""

DETECTORS = [None, None, None, "identical", None, None, None, None, "no_progress"]


async def lives(writes: int, *, before: bool) -> tuple[DyingLog, ScriptedModel, str]:
    """Tell the story, dying once; returns what is left."""
    clock = FakeClock()
    log, model = DyingLog(clock, writes=writes, before=before), ScriptedModel({"Go": STORY})
    tools = [Act(name) for name in "abc"]
    agents = [agent(loop_no_progress=3)]
    reply = await outlived(log, "Go", model=model, tools=tools, agents=agents)
    assert (reply.content, reply.finish_reason) == ("Enough.", "loop_detected")
    return log, model, reply.session_id


async def detectors(log: DyingLog, session_id: str) -> list[str | None]:
    records = await log.read(LogId(session_id))
    return [each.event.detector for each in records if isinstance(each.event, CallSettled)]


async def test_the_guard_of_a_task_without_interruption() -> None:
    log, _, session_id = await lives(-1, before=False)
    assert sorted(map(str, await detectors(log, session_id))) == sorted(map(str, DETECTORS))
    assert log.writes == WRITES


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(1, WRITES + 1))
async def test_verdicts_are_the_same_after_a_replay_at_every_cut(writes: int, before: bool) -> None:
    log, model, session_id = await lives(writes, before=before)
    assert sorted(map(str, await detectors(log, session_id))) == sorted(map(str, DETECTORS))
    assert_whole(model.requests[-1])


@pytest.mark.parametrize("levels", [300, 900, 50_000])
async def test_endless_arguments_are_refused(levels: int) -> None:
    deep = '{"a": ' + "[" * levels + "]" * levels + "}"
    model, look = ScriptedModel([raw_call("look", deep), say("Oh.")]), Act("look")
    async with memory_runtime(model=model, tools=[look]) as runtime:
        reply = await runtime.chat("Go")
        (refused,) = await settled(runtime, reply.session)
    assert (reply.content, look.runs) == ("Oh.", [])
    assert refused.envelope.error
    wanted = 'the arguments of "look" are not the JSON of an object, or nested more than 200 levels'
    assert refused.envelope.error.message.startswith(wanted)


async def test_a_model_call_past_the_budget_of_seconds_ends_the_task_cleanly() -> None:
    model = ScriptedModel([say("Hel") + wait(Hold())])
    async with memory_runtime(model=model, agents=[agent(budget_seconds=0.05)]) as runtime:
        reply = await runtime.chat("Hi")
        restarts = await restarted(runtime, reply.session)
    assert (reply.status, reply.finish_reason) == (TaskStatus.SUCCEEDED, "budget_exceeded")
    assert reply.content == BUDGET_NOTICE
    assert restarts == [ReplyRestarted(iteration=1, closing=False)]


async def restarted(runtime: Runtime, session_id: str) -> list[ReplyRestarted]:
    """Return what the log says was taken back."""
    found = await events(runtime, session_id)
    return [each for each in found if isinstance(each, ReplyRestarted)]


@pytest.mark.parametrize(
    ("script", "taken_back"),
    [
        ([say("Done.")], []),
        ([fail(503), say("Done.")], []),
        ([say("Do") + fail(503), say("Done.")], [ReplyRestarted(iteration=1, closing=False)]),
        (
            [call("a"), say("") + fail(503), say("En") + fail(503), say("Done.")],
            [ReplyRestarted(iteration=1, closing=True)],
        ),
    ],
    ids=["a whole reply", "nothing was shown", "a part was shown", "a part of the last one"],
)
async def test_the_shown_part_of_a_broken_reply_is_withdrawn(
    script: list[ScriptedReply], taken_back: list[ReplyRestarted]
) -> None:
    clock, model = FakeClock(), ScriptedModel(script)
    place = MemoryStorage(clock=clock)
    agents = [agent(max_iterations=1)]
    async with memory_runtime(model=model, tools=[Act("a")], agents=agents, place=place) as runtime:
        chat = asyncio.ensure_future(runtime.chat("Hi"))
        while not chat.done():
            await clock.elapse(10)
        reply = await chat
        assert await restarted(runtime, reply.session) == taken_back
        assert runtime.parts.engine.bus.reply(LogId(reply.session)) is None
    assert reply.content == "Done."


class TimesOut(ScriptedModel):
    """A model that times out long before the task."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        raise TimeoutError
        yield Finished()


async def test_a_timeout_of_the_model_does_not_end_the_budget() -> None:
    async with memory_runtime(model=TimesOut([]), agents=[agent(budget_seconds=60)]) as runtime:
        reply = await runtime.chat("Hi")
    assert (reply.status, reply.finish_reason) == (TaskStatus.FAILED, None)


class Lacking(ScriptedModel):
    """A model whose connection fails this many times: the process has no descriptor."""

    def __init__(self, times: int) -> None:
        super().__init__([say("Here.")])
        self.times = times

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        if self.times:
            self.times -= 1
            raise ModelUnavailable("no connection") from OSError(errno.EMFILE, "no file")
        async for event in super().stream(request):
            yield event


async def test_a_lack_of_files_costs_no_attempt_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, model = FakeClock(), Lacking(20)
    place = MemoryStorage(clock=clock)
    async with memory_runtime(model=model, place=place) as runtime:
        chat = asyncio.ensure_future(runtime.chat("Hi"))
        for left in range(20, 0, -1):
            await clock.elapse(0)
            assert model.times == left - 1
            clock.advance(WAIT_SECONDS)
        reply = await chat
    assert (reply.status, reply.content) == (TaskStatus.SUCCEEDED, "Here.")
    said = [each.getMessage() for each in caplog.records]
    assert sum("a call of a model waits" in each for each in said) == 1
