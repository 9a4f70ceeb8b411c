"""Visits: their outcomes, warnings and costs, and the events of each frame."""

import pytest

from penstock.app.runtime import Runtime
from penstock.builtins.ask_user import AskUser
from penstock.chat.requests import NewRun, TaskReply
from penstock.core.call import CallPath, Effect
from penstock.core.events.events import ReplyReceived
from penstock.core.events.flow_events import (
    FlowEvent,
    FlowNotified,
    FlowStarted,
    Outcome,
    StepResult,
    StepSettled,
    StepStarted,
    StepStatus,
)
from penstock.core.ids import LogId, TaskId
from penstock.core.limits import Limits
from penstock.core.messages import Usage
from penstock.engine.ledger import Ledger
from penstock.engine.task_state import TaskState
from penstock.flows.dry_run.dry_run import discarding_ledger
from penstock.flows.runs.visits import FrameEvents, failed, warn, warn_once, warnings_of
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, say, slow, spend
from penstock.testing.clock import FakeClock
from penstock.testing.log import MemoryLog
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.flows.dry_run.walks import world
from tests.kit.dying_log import DyingLog, live
from tests.kit.flows import RUN, Answer, by_task, finish, flows_of, see_through, steps, worker
from tests.kit.tools import Act


@pytest.mark.parametrize(("is_hard", "outcome"), [(False, Outcome.SOFT), (True, Outcome.HARD)])
def test_a_failed_visit_has_its_error_as_result(is_hard: bool, outcome: Outcome) -> None:
    ended = failed("budget", "the budget is used up", is_hard=is_hard)
    assert (ended.outcome, ended.source, ended.text) == (outcome, "budget", "the budget is used up")
    assert (ended.result.status, ended.result.full_output) == (StepStatus.ERROR, ended.text)


ONE_BY_ONE = """
  - {id: look, agent: scout, task: look}
  - {id: pick, question: "Go?", options: [Go], branches: {Go: tell}}
  - {id: tell, agent: writer, task: tell}
"""
WRITES = 12
"""Number of writes of this run without a crash."""


class Cast:
    """A model that takes two seconds for each reply, and five for the step `tell`."""

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


async def late(runtime: Runtime, clock: FakeClock) -> TaskReply:
    """See the run through; people take a thousand seconds to answer."""
    if await runtime.parts.storage.projections.find_task(RUN) is None:
        await runtime.start_flow(NewRun(command="demo", task="t"), task_id=RUN)
    reply = await runtime.requests.wait(RUN)
    assert reply
    if reply.questions:
        clock.advance(1000)
    return await see_through(runtime, {"value": "Go"}, task="t")


async def settled(log: MemoryLog) -> dict[str, StepSettled]:
    """Return how each step settled."""
    outcomes = (each.event for each in await log.read(LogId(RUN)))
    return {each.step_id: each for each in outcomes if isinstance(each, StepSettled)}


async def reply_of(log: DyingLog, clock: FakeClock) -> TaskReply:
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


async def test_a_step_reports_its_costs_and_the_run_their_sum() -> None:
    """FlowResult: `totalDuration`: ms without parked time."""
    log = DyingLog(clock := FakeClock(), writes=-1, before=False)
    reply = await reply_of(log, clock)
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


@pytest.mark.chaos
@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(1, WRITES + 1))
async def test_killed_at_any_write_a_step_has_the_same_costs(writes: int, before: bool) -> None:
    """They are folded from the log: what a crash forgot is not counted, nor is the time after."""
    log = DyingLog(clock := FakeClock(), writes=writes, before=before)
    await reply_of(log, clock)
    outcomes = await settled(log)
    assert outcomes["pick"].duration_ms == 0
    assert outcomes["look"].duration_ms <= 4000
    assert outcomes["tell"].duration_ms == 5000
    for name in ("look", "tell"):
        heard = [
            each.event.usage
            for each in await log.read(LogId(RUN))
            if isinstance(each.event, ReplyReceived) and f"/{name}/" in f"{each.path}/"
        ]
        usage = outcomes[name].usage
        assert usage.input_tokens == sum(each.input_tokens for each in heard)
        assert (usage.model_calls, usage.tool_calls) == (len(heard), int(name == "look"))


BESIDE = """
  - {id: asks, agent: asker, task: asks}
  - {id: works, agent: writer, task: works}
"""


async def test_a_waiting_step_takes_no_slot_while_others_work() -> None:
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
        asked = await runtime.requests.wait(RUN)
        assert asked
        clock.advance(1000)
        await runtime.requests.answer(asked.questions[0].question.question_id, {"value": True})
        await clock.elapse(3)
        reply = await runtime.requests.wait(RUN)
    outcomes = await settled(place.log)
    assert {name: each.duration_ms for name, each in outcomes.items()} == {
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


ONE, OTHER = CallPath("task_1/a"), CallPath("task_1/b")


def test_a_frame_has_each_warning_once() -> None:
    ledger = discarding_ledger(world(), "demo")
    for frame in (ONE, ONE, OTHER):
        warn(ledger, frame, "odd", stepId="a")
    warn(ledger, ONE, "odd", stepId="b")
    assert _told(ledger) == [(ONE, "a"), (OTHER, "a"), (ONE, "b")]


def test_a_run_has_a_warning_once_whichever_frame_caused_it() -> None:
    ledger = discarding_ledger(world(), "demo")
    for frame in (ONE, OTHER):
        warn_once(ledger, frame, "odd")
    assert _told(ledger) == [(ONE, None)]


def test_a_result_lists_each_warning_once_and_no_other_event() -> None:
    ledger = discarding_ledger(world(), "demo")
    ledger.add(FlowNotified(kind="flow_jump", body={"message": "no warning"}), ONE)
    for frame, message in ((ONE, "b"), (ONE, "a"), (OTHER, "b")):
        warn(ledger, frame, message)
    assert warnings_of(ledger.task) == ["b", "a"]


def _told(ledger: Ledger) -> list[tuple[CallPath | None, object]]:
    story = ledger.task.flow_events
    return [(at, each.body.get("stepId")) for at, each in story if isinstance(each, FlowNotified)]


FRAME = CallPath("t")
TOLD = FlowNotified(kind="flow_started", body={})


def flow(file: str) -> FlowStarted:
    return FlowStarted(file=file, texts={}, task="")


def begins(step_id: str) -> StepStarted:
    return StepStarted(step_id=step_id, visit=1, agent="")


def ends(step_id: str) -> StepSettled:
    return StepSettled(step_id=step_id, visit=1, outcome=Outcome.SUCCESS, result=StepResult())


def task_of(*events: tuple[str | None, FlowEvent]) -> TaskState:
    task = TaskState(TaskId("t"), None)
    task.flow_events += [(CallPath(path) if path else None, event) for path, event in events]
    return task


def test_a_run_has_its_own_steps_and_not_those_of_nested_flows() -> None:
    inside = ("t/ref/1/a/1", begins("a"))
    task = task_of(("t", flow("o")), (None, TOLD), ("t/ref/1", begins("ref")), inside)
    story = FrameEvents(task)
    assert story.steps(FRAME) == (("t/ref/1", begins("ref")),)
    assert story.steps(CallPath("t/ref/1")) == (inside,)
    assert story.steps(CallPath("t/ref")) == ()


def test_a_step_has_its_one_flow_or_those_of_its_glob() -> None:
    one, first, second = ("t/a/1", flow("a")), ("t/b/1/1", flow("b")), ("t/b/1/2", flow("c"))
    story = FrameEvents(task_of(("t", flow("o")), one, first, second, ("t/a/2", flow("d"))))
    assert story.flows(CallPath("t/a/1")) == (one,)
    assert story.flows(CallPath("t/b/1")) == (first, second)
    assert story.flows(CallPath("t/b/1/2")) == (second,)
    assert story.flows(CallPath("t/c/1")) == ()


def test_events_added_later_are_found() -> None:
    task = task_of(("t/a/1", begins("a")))
    story = FrameEvents(task)
    assert len(story.steps(FRAME)) == 1
    task.flow_events.append((CallPath("t/a/1"), ends("a")))
    assert [event for _, event in story.steps(FRAME)] == [begins("a"), ends("a")]


def test_visits_are_numbered_through_the_whole_task() -> None:
    inside = ("t/ref/1/a/1", begins("a"))
    task = task_of(("t/ref/1", begins("ref")), inside, ("t/b/1", begins("b")))
    frame_events = FrameEvents(task)
    frames = [CallPath(path) for path in ("t/ref/1", "t/ref/1/a/1", "t/b/1")]
    assert [frame_events.number(each) for each in frames] == [1, 2, 3]
    assert frame_events.starts == 3
