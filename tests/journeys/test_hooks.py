"""The process dies at every write in turn: no recorded decision of a hook is asked for again."""

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from penstock import Agent, Ask, Hooks, Limits, ModelRetry
from penstock.chat.requests import NewMessage
from penstock.chat.requests import TaskReply as Outcome
from penstock.core.call import Effect
from penstock.core.events.hook_events import HookDecided
from penstock.core.ids import LogId
from penstock.core.task import TaskStatus
from penstock.models.scripted import ScriptedModel, call, say
from penstock.store.projections import Page
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.dying_log import DyingLog, live
from tests.kit.tools import Act

pytestmark = pytest.mark.programs
WRITES = 16
"""How often the log of the story below is written at least when no process dies."""


class Watch(Hooks):
    """Decides in all six methods, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def on_input(self, ctx: Any, message: Any) -> Any:
        self.asked.append("on_input")
        return replace(message, text="Go on")

    async def before_model(self, ctx: Any, request: Any) -> Any:
        self.asked.append(f"before_model {len(request.messages)}")
        return replace(request, system=f"request {len(request.messages)}")

    async def after_reply(self, ctx: Any, reply: Any) -> Any:
        if reply.text == "No.":
            raise ModelRetry("Again.")
        return reply

    async def before_call(self, ctx: Any, call: Any) -> Any:
        self.asked.append(f"before_call {call.tool}")
        if call.tool == "pay":
            return replace(call, input={"n": 2})
        return Ask("May I?") if call.tool == "mail" else call

    async def after_call(self, ctx: Any, call: Any, envelope: Any) -> Any:
        return replace(envelope, output="seen")

    async def on_output(self, ctx: Any, output: Any) -> Any:
        if output != "Done.":
            raise ModelRetry("Shorter.")


class Cast:
    """The tools, the agent and the model of one story."""

    def __init__(self) -> None:
        self.pay = Act("pay", effect=Effect.WRITE, idempotent=True)
        self.mail = Act("mail", effect=Effect.WRITE, idempotent=True)
        self.watch = Watch()
        self.agent = Agent("clerk", tools=[self.pay, self.mail], hooks=[self.watch])
        first = call("pay", n=1) + call("mail", to="ann")
        self.model = ScriptedModel({"Go on": [first, say("No."), say("Too long."), say("Done.")]})

    async def story(self, runtime: Any) -> Outcome:
        tasks, _ = await runtime.parts.storage.projections.tasks(page=Page())
        if tasks:
            task_id = tasks[0].task_id
        else:
            task_id = (await runtime.requests.send(NewMessage(content="Go", agent="clerk"))).task_id
        while True:
            reply: Outcome = await runtime.requests.wait(task_id)
            if reply.status is not TaskStatus.SUSPENDED:
                return reply
            question = reply.questions[0].question
            await runtime.requests.answer(question.question_id, {"decision": "approve"})


async def tell(cast: Cast, log: DyingLog, clock: FakeClock) -> tuple[Outcome, int]:
    """Run the story in as many processes as it takes, and count them."""
    place = MemoryStorage(clock=clock, log=log, limits=Limits(shutdown_seconds=0))
    processes = 0
    while True:
        processes += 1
        async with memory_runtime(model=cast.model, agents=[cast.agent], place=place) as runtime:
            reply = await live(runtime, log, cast.story(runtime))
        if reply is not None:
            return reply, processes
        log.revive()
        clock.advance(place.limits.lease_seconds + 1)


async def test_the_story_without_a_crash() -> None:
    cast, clock = Cast(), FakeClock()
    log = DyingLog(clock, writes=-1, before=False)
    reply, _ = await tell(cast, log, clock)
    assert reply.content == "Done."
    said = [each.messages[-1].content for each in cast.model.requests]
    assert [said[0], *said[2:]] == ["Go on", "Again.", "Shorter."]
    assert log.writes >= WRITES  # a slow machine writes the events of one moment in two parts
    assert cast.pay.runs == [{"n": 2}]
    assert set(Counter(cast.watch.asked).values()) == {1}


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(1, WRITES + 1))
async def test_a_decision_on_disk_is_not_asked_for_again(writes: int, before: bool) -> None:
    cast, clock = Cast(), FakeClock()
    log = DyingLog(clock, writes=writes, before=before)
    reply, processes = await tell(cast, log, clock)
    assert (reply.content, processes) == ("Done.", 2)
    records = await log.read(LogId(reply.session_id))
    kept = Counter(
        (each.path, each.event.method, each.event.turn)
        for each in records
        if isinstance(each.event, HookDecided)
    )
    assert set(kept.values()) == {1}
    # Asked twice at most once: the decision that the process took with it.
    again = [name for name, count in Counter(cast.watch.asked).items() if count > 1]
    assert len(again) <= (1 if not before else 2)
    assert all(run == {"n": 2} for run in cast.pay.runs)
    systems = {len(each.messages): each.system for each in cast.model.requests}
    assert all(system == f"request {count}" for count, system in systems.items())
