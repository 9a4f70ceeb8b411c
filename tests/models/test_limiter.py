"""The queue in front of a model: slots, buckets, turns, and what providers report."""

import asyncio
import gc
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.clock import SystemClock
from penstock.models.limiter import MAX_HOLD_SECONDS, Limiter, Pass, RequestLimits, limiter_of
from penstock.testing.clock import FakeClock, settle


def limiter(clock: FakeClock | None = None, **limits: int) -> Limiter:
    return Limiter(RequestLimits(**limits), clock or FakeClock())


async def entered(queue: Limiter, *conversations: str, tokens: int = 1) -> list[asyncio.Task[Pass]]:
    tasks = [asyncio.ensure_future(queue.enter(each, tokens)) for each in conversations]
    await settle()
    return tasks


async def test_without_limits_nothing_waits() -> None:
    queue = limiter()
    assert [queue.try_enter(10**9) is not None for _ in range(1000)] == [True] * 1000


async def test_no_more_requests_than_allowed_run_at_once() -> None:
    queue = limiter(max_concurrent=2)
    passes = [queue.try_enter(1), queue.try_enter(1)]
    assert queue.try_enter(1) is None
    (waiting,) = await entered(queue, "a")
    assert not waiting.done()
    assert passes[0] is not None
    queue.leave(passes[0], used=1)
    assert await waiting == Pass(1)


async def test_conversations_take_turns() -> None:
    queue, order = limiter(max_concurrent=1), []
    first = queue.try_enter(1)
    assert first

    async def ask(conversation: str) -> None:
        own = await queue.enter(conversation, 1)
        order.append(conversation)
        queue.leave(own, used=1)

    asked = [asyncio.ensure_future(ask(each)) for each in ["a"] * 4 + ["b"] * 2 + ["c"]]
    await settle()
    queue.leave(first, used=1)
    await asyncio.gather(*asked)
    assert order == ["a", "b", "c", "a", "b", "a", "a"]


async def test_a_minute_of_requests_may_come_at_once_and_then_they_are_spread() -> None:
    clock = FakeClock()
    queue = limiter(clock, requests_per_minute=6)
    assert [queue.try_enter(1) is not None for _ in range(7)] == [True] * 6 + [False]
    waiting = await entered(queue, "a", "b")
    for seconds, done in ((9.9, [False, False]), (0.2, [True, False]), (10, [True, True])):
        await clock.elapse(seconds)
        assert [each.done() for each in waiting] == done


async def test_a_request_that_is_larger_than_a_minute_waits_for_a_whole_one() -> None:
    clock = FakeClock()
    queue = limiter(clock, tokens_per_minute=600)
    assert queue.try_enter(300)
    large, small = await entered(queue, "a", tokens=10_000) + await entered(queue, "b")
    await clock.elapse(29)
    assert (large.done(), small.done()) == (False, False), "the small one does not overtake it"
    await clock.elapse(1.1)
    assert large.done()
    queue.leave(large.result(), used=600)
    await clock.elapse(1)
    assert small.done()


async def test_unused_tokens_are_given_back() -> None:
    queue = limiter(tokens_per_minute=1000)
    first = queue.try_enter(1000)
    assert first
    assert queue.try_enter(1) is None
    queue.leave(first, used=400)
    assert queue.try_enter(600) is not None
    assert queue.try_enter(1) is None


@pytest.mark.parametrize("gone", ["it is cancelled", "tokens come back"])
async def test_the_next_request_waits_for_its_own_tokens_and_not_for_those_of_another(
    gone: str,
) -> None:
    clock = FakeClock()
    queue = limiter(clock, tokens_per_minute=600)
    running = queue.try_enter(600)
    assert running
    (large,) = await entered(queue, "a", tokens=600)
    (small,) = await entered(queue, "b", tokens=10)
    if gone == "it is cancelled":
        large.cancel()
    else:
        queue.leave(running, used=10)
    await settle()
    clock.advance(1.5)
    await settle()
    assert (large if gone == "tokens come back" else small).done()


async def test_a_cancelled_request_leaves_the_queue() -> None:
    queue = limiter(max_concurrent=1)
    first = queue.try_enter(1)
    assert first
    cancelled, waiting = await entered(queue, "a", "a")
    cancelled.cancel()
    await settle()
    queue.leave(first, used=0)
    await settle()
    assert waiting.done()


async def test_a_request_that_is_cancelled_as_its_turn_comes_gives_it_back() -> None:
    queue = limiter(max_concurrent=1)
    first = queue.try_enter(1)
    assert first
    cancelled, waiting = await entered(queue, "a", "b")
    queue.leave(first, used=0)
    cancelled.cancel()
    await settle()
    assert waiting.done()


async def test_a_429_holds_the_queue_longer_each_time_and_at_most_for_its_bound() -> None:
    clock = FakeClock()
    queue = limiter(clock)
    for seconds in (1, 2, 4, 8, 16, 30, 30):
        queue.throttle(None)
        (waiting,) = await entered(queue, "a")
        await clock.elapse(seconds - 0.1)
        assert not waiting.done(), seconds
        await clock.elapse(0.2)
        assert waiting.done(), seconds
    queue.succeed()
    queue.throttle(3600)
    (waiting,) = await entered(queue, "a")
    await clock.elapse(MAX_HOLD_SECONDS + 0.1)
    assert waiting.done()


DATE = "Mon, 23 Nov 2026 12:00:00 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "12ms"}, 0.012),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1s"}, 1),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"}, 30),
        ({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "6s"}, 0),
        ({"x-ratelimit-remaining-tokens": "-1", "x-ratelimit-reset-tokens": "6s"}, 0),
        (
            {
                "x-ratelimit-limit-tokens": "0",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "6s",
            },
            0,
        ),
        ({"x-ratelimit-remaining-tokens": "x", "x-ratelimit-reset-tokens": "6s"}, 0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "soon"}, 0),
        ({"x-ratelimit-remaining-tokens": "0"}, 0),
        (
            {
                "anthropic-ratelimit-input-tokens-limit": "1000",
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": "2026-11-23T12:00:09Z",
                "date": DATE,
            },
            9,
        ),
        (
            {
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2026-11-23T11:00:00Z",
                "date": DATE,
            },
            0,
        ),
        (
            {
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "2026-11-23T12:00:09Z",
            },
            0,
        ),
        (
            {
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "2026-11-23T12:00:09Z",
                "date": DATE.replace("2026", "9" * 30),
            },
            0,
        ),
    ],
)
async def test_headers_of_an_empty_limit_hold_the_queue(
    headers: dict[str, str], seconds: float
) -> None:
    clock = FakeClock()
    queue = limiter(clock)
    queue.hold_if_spent(headers)
    assert (queue.try_enter(1) is None) is (seconds > 0)
    clock.advance(seconds)
    assert queue.try_enter(1) is not None


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "date",
                "x-ratelimit-remaining-tokens",
                "x-ratelimit-reset-tokens",
                "anthropic-ratelimit-tokens-remaining",
                "anthropic-ratelimit-tokens-reset",
            ]
        ),
        st.text(),
    )
)
def test_any_headers_hold_a_queue_for_a_bounded_time(headers: dict[str, str]) -> None:
    clock = FakeClock()
    queue = limiter(clock)
    queue.hold_if_spent(headers)
    clock.advance(MAX_HOLD_SECONDS)
    assert queue.try_enter(1) is not None


async def test_runtimes_of_one_event_loop_share_the_limiter_of_a_model() -> None:
    limits, clock = RequestLimits(max_concurrent=1), SystemClock()
    first, second = limiter_of("m", limits, clock), limiter_of("m", limits, SystemClock())
    assert first is second
    assert first.try_enter(1) is not None
    assert second.try_enter(1) is None
    others = (
        limiter_of("n", limits, clock),
        limiter_of("m", RequestLimits(max_concurrent=2), clock),
        limiter_of("m", limits, FakeClock()),
        await asyncio.to_thread(limiter_of, "m", limits, clock),
    )
    for other in others:
        assert other.try_enter(1) is not None


@pytest.mark.usefixtures("new_garbage")
def test_loops_share_no_limiter_and_keep_none() -> None:
    limits, clock = RequestLimits(max_concurrent=1), SystemClock()

    async def made() -> Limiter:
        return limiter_of("m", limits, clock)

    first, second = asyncio.run(made()), asyncio.run(made())
    assert first is not second
    weak = ref(first)
    del first
    gc.collect()
    assert weak() is None


async def test_the_queue_is_woken_until_its_last_user_closes() -> None:
    clock = FakeClock()
    queue = limiter(clock, requests_per_minute=60)
    queue.users = 2
    while queue.try_enter(1):
        pass
    (waiting,) = await entered(queue, "a")
    await queue.close()
    await clock.elapse(1.1)
    assert waiting.done()
    (late,) = await entered(queue, "a")
    await queue.close()
    await clock.elapse(60)
    assert not late.done()
    late.cancel()
