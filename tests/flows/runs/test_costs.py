"""Costs of a visit from the log: active time, tokens, calls."""

import pytest

from penstock.app.runtime import Runtime
from penstock.builtins.ask_user import AskUser
from penstock.chat.message import NewRun, Reply
from penstock.core.call import Effect
from penstock.core.events.events import ReplyReceived
from penstock.core.events.flow_events import StepSettled
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.core.messages import Usage
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, say, slow, spend
from penstock.testing.clock import FakeClock
from penstock.testing.log import MemoryLog
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.dying_log import DyingLog, live
from tests.kit.flows import RUN, Answer, by_task, finish, flows_of, see_through, steps, worker
from tests.kit.tools import Act

ONE_BY_ONE = """
  - {id: look, agent: scout, task: look}
  - {id: pick, question: "Go?", options: [Go], branches: {Go: tell}}
  - {id: tell, agent: writer, task: tell}
"""
WRITES = 12
"""Number of writes of this run without a crash."""


class Cast:
    """A model that takes two seconds for each reply, and five when it tells."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.model = ScriptedModel(by_task({"look": self._look, "tell": self._tell}), clock=clock)
        self.agents = [worker("scout", tools=("peek",)), worker("writer")]
        self.tools = [Act("peek", effect=Effect.READ)]

    def _look(self, request: ModelRequest) -> ScriptedReply:
        self._clock.advance(2)
        is_first = len(request.messages) == 1
        return spend(10, 5, cost_usd=0.5) + (call("peek") if is_first else finish("seen"))

    def _tell(self, request: ModelRequest) -> ScriptedReply:
        self._clock.advance(5)
        return spend(3, 2) + finish("told")


async def late(runtime: Runtime, clock: FakeClock) -> Reply:
    """See the run through; people take a thousand seconds to answer."""
    if await runtime.parts.storage.projections.find_task(RUN) is None:
        await runtime.start_flow(NewRun(command="demo", task="t"), task_id=RUN)
    reply = await runtime.wait(RUN)
    assert reply
    if reply.questions:
        clock.advance(1000)
    return await see_through(runtime, {"value": "Go"}, task="t")


async def settled(log: MemoryLog) -> dict[str, StepSettled]:
    """Return how each step settled."""
    found = (each.event for each in await log.read(LogId(RUN)))
    return {each.step_id: each for each in found if isinstance(each, StepSettled)}


async def told(log: DyingLog, clock: FakeClock) -> Reply:
    """Run the flow in as many lives as it takes."""
    flows = flows_of(demo=steps(ONE_BY_ONE))
    place = MemoryStorage(clock=clock, log=log, limits=Limits(shutdown_seconds=0), flows=flows)
    while True:
        cast = Cast(clock)
        async with memory_runtime(
            model=cast.model, agents=cast.agents, tools=cast.tools, place=place
        ) as runtime:
            reply = await live(runtime, log, late(runtime, clock))
        if reply is not None:
            return reply
        log.revive()
        clock.advance(place.limits.lease_seconds + 1)


async def test_a_step_says_what_it_cost_and_the_run_what_all_did() -> None:
    """FlowResult: `totalDuration`: ms without parked time."""
    log = DyingLog(clock := FakeClock(), writes=-1, before=False)
    reply = await told(log, clock)
    steps = await settled(log)
    assert {name: each.duration_ms for name, each in steps.items()} == {
        "look": 4000,
        "pick": 0,
        "tell": 5000,
    }
    looked = Usage(input_tokens=20, output_tokens=10, model_calls=2, tool_calls=1, cost_usd=1.0)
    assert steps["look"].usage == looked
    assert steps["pick"].usage == Usage()
    assert steps["tell"].usage == Usage(input_tokens=3, output_tokens=2, model_calls=1)
    assert reply.envelope is not None
    result = reply.envelope.output
    assert result["totalDuration"] == 9000
    assert (result["usage"]["inputTokens"], result["usage"]["outputTokens"]) == (23, 12)
    assert log.writes == WRITES


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(1, WRITES + 1))
async def test_killed_at_any_write_a_step_has_the_same_costs(writes: int, before: bool) -> None:
    """They are folded from the log: what a crash forgot is not counted, nor is the time after."""
    log = DyingLog(clock := FakeClock(), writes=writes, before=before)
    await told(log, clock)
    found = await settled(log)
    assert found["pick"].duration_ms == 0
    assert found["look"].duration_ms <= 4000
    assert found["tell"].duration_ms == 5000
    for name in ("look", "tell"):
        heard = [
            each.event.usage
            for each in await log.read(LogId(RUN))
            if isinstance(each.event, ReplyReceived) and f"/{name}/" in f"{each.path}/"
        ]
        usage = found[name].usage
        assert usage.input_tokens == sum(each.input_tokens for each in heard)
        assert (usage.model_calls, usage.tool_calls) == (len(heard), int(name == "look"))


BESIDE = """
  - {id: asks, agent: asker, task: asks}
  - {id: works, agent: writer, task: works}
"""


async def test_a_waiting_step_costs_nothing_while_others_work() -> None:
    place = MemoryStorage(clock=(clock := FakeClock()), flows=flows_of(demo=steps(BESIDE)))
    asks = call("ask_user", question="Sure?", type="confirm")
    answers: dict[str, ScriptedReply | Answer] = {
        "asks": lambda request: asks if len(request.messages) == 1 else slow(3) + finish(),
        "works": slow(60) + finish(),
    }
    model = ScriptedModel(by_task(answers), clock=clock)
    agents = [worker("asker", tools=("ask_user",)), worker("writer")]
    async with memory_runtime(
        model=model, agents=agents, tools=[AskUser()], place=place
    ) as runtime:
        await runtime.start_flow(NewRun(command="demo", task="t"), task_id=RUN)
        await clock.elapse(60)
        asked = await runtime.wait(RUN)
        assert asked
        clock.advance(1000)
        await runtime.answer(asked.questions[0].question.question_id, {"value": True})
        await clock.elapse(3)
        reply = await runtime.wait(RUN)
    found = await settled(place.log)
    assert {name: each.duration_ms for name, each in found.items()} == {
        "works": 60_000,
        "asks": 3000,
    }
    assert reply
    assert reply.envelope
    assert reply.envelope.output["totalDuration"] == 63_000


REFERS = """
  - {id: all, path: inner.yaml}
"""


async def test_a_nested_flow_costs_as_much_as_its_steps() -> None:
    inner = steps(
        "  - {id: look, agent: scout, task: look}\n  - {id: b, agent: writer, task: tell}"
    )
    flows = flows_of(demo=steps(REFERS), inner=inner)
    place = MemoryStorage(clock=(clock := FakeClock()), flows=flows)
    cast = Cast(clock)
    async with memory_runtime(
        model=cast.model, agents=cast.agents, tools=cast.tools, place=place
    ) as runtime:
        await late(runtime, clock)
    whole = (await settled(place.log))["all"]
    assert (whole.duration_ms, whole.usage.input_tokens, whole.usage.tool_calls) == (9000, 23, 1)


async def test_replies_before_a_reminder_are_in_the_costs() -> None:
    place = MemoryStorage(flows=flows_of(demo=steps("  - {id: look, agent: scout, task: look}")))
    replies = [
        spend(10, 5, cost_usd=0.5) + say("Hm."),
        spend(3, 2, cost_usd=0.25) + finish("seen"),
    ]
    model = ScriptedModel(replies)
    async with memory_runtime(model=model, agents=[worker("scout")], place=place) as runtime:
        await runtime.run_flow(NewRun(command="demo", task="t"), task_id=RUN)
    usage = (await settled(place.log))["look"].usage
    assert usage == Usage(input_tokens=13, output_tokens=7, model_calls=2, cost_usd=0.75)
