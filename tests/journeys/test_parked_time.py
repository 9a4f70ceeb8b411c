"""The time of a call that waits for people does not run, and continues afterwards."""

from typing import Any

import pytest

from penstock.core.call import Effect, RetryPolicy
from penstock.core.call_errors import UpstreamUnavailable
from penstock.core.envelope import Json
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.clock import FakeClock
from penstock.testing.invocation import open_workbench
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.invocation import Invocation
from tests.kit.asking import ask
from tests.kit.logs import code, settled
from tests.kit.questions import go_on
from tests.kit.tools import Act


class Form:
    """A tool that works for a while, then asks; each answer enters it again from the top."""

    def __init__(self, clock: FakeClock, *works: float) -> None:
        self._clock = clock
        self._works = list(works)
        self.given: list[float] = []
        """The seconds that each entry had, at its beginning."""

    async def __call__(self, input: Json, invocation: Invocation) -> Any:
        self.given.append(round(invocation.deadline - self._clock.monotonic(), 3))
        for number in range(2):
            if self._works:
                self._clock.advance(self._works.pop(0))
            await invocation.ask(f"Field {number}?")
        return "whole"


@pytest.mark.parametrize("effect", [Effect.READ, Effect.WRITE])
async def test_a_call_that_waited_continues_with_its_remaining_time(effect: Effect) -> None:
    """`timeout_ms` counts the active time of all entries of one attempt; parked time is free."""
    place = MemoryStorage(clock=(clock := FakeClock()))
    deed = Form(clock, 20.0, 0.0, 30.0)
    form = Act("form", deed, effect=effect, timeout_ms=60_000)
    model = ScriptedModel([call("form"), say("Thanks.")])
    async with memory_runtime(model=model, tools=[form], place=place) as runtime:
        asked = await ask(runtime, "Fill it in")
        clock.advance(10_000)
        asked = await go_on(runtime, asked, {"text": "a"})
        reply = await go_on(runtime, asked, {"text": "b"})
        (outcome,) = await settled(runtime, reply.session_id)
    assert (deed.given, code(outcome)) == ([60, 40, 10], "ok")
    assert outcome.duration_ms == 50_000


async def test_another_process_knows_the_remaining_time() -> None:
    place = MemoryStorage(clock=(clock := FakeClock()))
    deed = Form(clock, 20.0)
    forms = [Act("form", deed, timeout_ms=60_000)]
    async with memory_runtime(
        model=ScriptedModel([call("form")]), tools=forms, place=place
    ) as runtime:
        asked = await ask(runtime, "Fill it in")
    async with memory_runtime(model=ScriptedModel([]), tools=forms, place=place) as runtime:
        await go_on(runtime, asked, {"text": "a"})
    assert deed.given == [60, 40]


async def test_a_call_without_remaining_time_does_not_run_again() -> None:
    place = MemoryStorage(clock=(clock := FakeClock()))
    deed = Form(clock, 61.0)
    model = ScriptedModel([call("form"), say("Too slow.")])
    forms = [Act("form", deed, timeout_ms=60_000)]
    async with memory_runtime(model=model, tools=forms, place=place) as runtime:
        asked = await ask(runtime, "Fill it in")
        reply = await go_on(runtime, asked, {"text": "a"})
        (outcome,) = await settled(runtime, reply.session_id)
    assert outcome.envelope.error
    assert outcome.envelope.error.message == '"form" did not finish within 60 s'
    assert (code(outcome), deed.given) == ("TIMEOUT", [60])


async def test_each_attempt_has_its_own_timeout() -> None:
    """`timeout_ms` is per attempt."""
    place = MemoryStorage(clock=(clock := FakeClock()))
    collected = list[tuple[int, float]]()

    async def flaky(input: Json, invocation: Invocation) -> Any:
        collected.append((invocation.attempt, invocation.deadline - clock.monotonic()))
        if invocation.attempt == 1:
            raise UpstreamUnavailable("no answer")
        if len(collected) == 2:
            clock.advance(20)
        return (await invocation.ask("Well?")).answer

    policy = RetryPolicy(max_attempts=2, initial_backoff_ms=0)
    model = ScriptedModel([call("flaky"), say("Done.")])
    tools = [Act("flaky", flaky, retry=policy, timeout_ms=60_000)]
    async with memory_runtime(model=model, tools=tools, place=place) as runtime:
        asked = await ask(runtime, "Try")
        reply = await go_on(runtime, asked, {"text": "yes"})
    assert reply.content == "Done."
    assert collected == [(1, 60), (2, 60), (2, 40)]


async def test_the_working_time_around_a_waiting_call_is_counted() -> None:
    place = MemoryStorage(clock=(clock := FakeClock()))
    collected = list[float]()

    async def around(input: Json, invocation: Invocation) -> Any:
        collected.append(invocation.deadline - clock.monotonic())
        clock.advance(5)
        return (await invocation.invoke("inner", {})).status.value

    tools = [
        Act("outer", around, timeout_ms=60_000),
        Act("inner", effect=Effect.WRITE, requires_approval=True, direct_call=True),
    ]
    model = ScriptedModel([call("outer"), say("Done.")])
    async with memory_runtime(model=model, tools=tools, place=place) as runtime:
        asked = await ask(runtime, "Go")
        reply = await go_on(runtime, asked, {"decision": "approve"})
    assert (reply.content, collected) == ("Done.", [60, 55])


async def test_a_call_that_never_ran_took_no_time() -> None:
    clock = FakeClock()

    async def work(input: Json, invocation: Invocation) -> None:
        clock.advance(1.5)

    bench = await open_workbench(Act("work", work), clock=clock)
    for tool_id in ("work", "nothing_such"):
        await bench.call(tool_id)
    assert [each.duration_ms for each in await bench.settled()] == [1500, 0]
