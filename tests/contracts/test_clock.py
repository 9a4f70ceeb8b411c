"""The contract of every clock: the system clock, and the fake that a test moves."""

import asyncio
import threading

import pytest

from penstock.core.clock import Clock, Moment, SystemClock, to_iso
from penstock.testing.clock import START, FakeClock, follow_threads, settle

CLOCKS = [SystemClock(), FakeClock()]


def moved(clock: Clock) -> None:
    """Advance a fake clock, as a real one does."""
    if isinstance(clock, FakeClock):
        clock.advance(10)


@pytest.mark.parametrize("clock", CLOCKS, ids=lambda clock: type(clock).__name__)
def test_times_are_whole_milliseconds_of_this_century_and_do_not_go_back(clock: Clock) -> None:
    first, started = clock.now(), clock.monotonic()
    moved(clock)
    assert type(first) is int
    assert 1_700_000_000_000 < first <= clock.now() < 4_000_000_000_000
    assert started <= clock.monotonic()


@pytest.mark.parametrize("clock", CLOCKS, ids=lambda clock: type(clock).__name__)
async def test_a_sleeper_wakes_no_earlier_than_it_should(clock: Clock) -> None:
    started = clock.monotonic()
    sleeping = asyncio.ensure_future(clock.sleep(0.01))
    await settle(rounds=2)
    moved(clock)
    await sleeping
    assert clock.monotonic() - started >= 0.01


@pytest.mark.parametrize("clock", CLOCKS, ids=lambda clock: type(clock).__name__)
@pytest.mark.parametrize("seconds", [0, -1])
async def test_a_sleep_of_zero_yields_once(clock: Clock, seconds: float) -> None:
    turns: list[str] = []

    async def other() -> None:
        turns.append("other")

    waiting = asyncio.ensure_future(other())
    await clock.sleep(seconds)
    turns.append("sleeper")
    await waiting
    assert turns == ["other", "sleeper"]


@pytest.mark.parametrize("clock", CLOCKS, ids=lambda clock: type(clock).__name__)
async def test_a_sleeper_can_be_cancelled(clock: Clock) -> None:
    sleeping = asyncio.ensure_future(clock.sleep(1000))
    await settle(rounds=2)
    sleeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeping


# ---- moving by hand ------------------------------------------------------------------------------


def test_a_fake_clock_moves_by_hand() -> None:
    clock = FakeClock()
    clock.advance(90.0005)
    assert (clock.now(), clock.monotonic()) == (START + 90_000, 90.0005)


async def note_the_time(clock: FakeClock, seconds: float, woken: list[float]) -> None:
    await clock.sleep(seconds)
    woken.append(clock.monotonic())


async def test_to_advance_is_to_jump() -> None:
    fake, woken = FakeClock(), list[float]()
    tasks = [asyncio.ensure_future(note_the_time(fake, each, woken)) for each in (3, 1, 2, 9)]
    await settle()
    assert fake.sleepers == 4
    fake.advance(5)
    assert (woken, fake.sleepers) == ([], 1)
    await asyncio.gather(*tasks[:3])
    assert woken == [5, 5, 5]
    tasks[3].cancel()


async def test_elapsed_time_wakes_one_sleeper_after_the_other() -> None:
    fake, woken = FakeClock(), list[float]()
    tasks = [asyncio.ensure_future(note_the_time(fake, each, woken)) for each in (3, 1, 2, 9)]
    await fake.elapse(5)
    assert (woken, fake.monotonic(), fake.sleepers) == ([1, 2, 3], 5, 1)
    tasks[3].cancel()


async def test_a_sleeper_that_sleeps_again_wakes_again() -> None:
    fake, woken = FakeClock(), list[float]()

    async def tick() -> None:
        while len(woken) < 4:
            await note_the_time(fake, 1.5, woken)

    ticking = asyncio.ensure_future(tick())
    await fake.elapse(5)
    assert woken == [1.5, 3, 4.5]
    await fake.elapse(1)
    assert woken == [1.5, 3, 4.5, 6]
    await ticking


async def test_a_cancelled_sleeper_is_skipped() -> None:
    fake, woken = FakeClock(), list[float]()
    first, second = (asyncio.ensure_future(note_the_time(fake, 1, woken)) for _ in range(2))
    await settle()
    first.cancel()
    await fake.elapse(2)
    await second
    assert woken == [1]


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (START, "2026-11-21T09:00:00.000Z"),
        (START + 1, "2026-11-21T09:00:00.001Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
    ],
)
def test_a_moment_is_shown_in_utc_to_the_millisecond(moment: int, text: str) -> None:
    assert to_iso(Moment(moment)) == text


async def test_the_clock_moves_after_the_threads_of_the_loop() -> None:
    """A thread that starts late, as on a busy machine, delays nothing on the clock."""
    follow_threads()
    clock, is_read = FakeClock(), threading.Event()

    async def read_and_sleep() -> float:
        await asyncio.to_thread(is_read.wait)
        await clock.sleep(5)
        return clock.monotonic()

    reading = asyncio.ensure_future(read_and_sleep())
    threading.Timer(0.01, is_read.set).start()
    await clock.elapse(60)
    assert await reading == 5
