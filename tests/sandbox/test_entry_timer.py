"""A timer stops a script that computes for too long, and counts nothing else."""

import pytest

from penstock.core.call_errors import Cancelled, ToolTimeout
from penstock.sandbox.entry_timer import IS_LONG, SLICE, EntryTimer
from penstock.testing.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def timer_of(clock: FakeClock) -> EntryTimer:
    return EntryTimer(clock, seconds=10, cpu_ms=2000)


def test_no_alarm_rings_within_the_limits(clock: FakeClock) -> None:
    timer = timer_of(clock)
    timer.begin(is_sliced=False)
    clock.advance(1)
    assert timer.alarm() is None
    assert timer.left == pytest.approx(9)


def test_computing_counts_over_all_steps_and_waiting_does_not(clock: FakeClock) -> None:
    timer = timer_of(clock)
    for _ in range(3):
        timer.begin(is_sliced=False)
        clock.advance(0.6)
        assert timer.alarm() is None
        assert timer.end() == pytest.approx(0.6)
        clock.advance(1)
    timer.begin(is_sliced=False)
    clock.advance(0.3)
    assert timer.alarm() == "cpu"


def test_wall_time_includes_waiting(clock: FakeClock) -> None:
    timer = timer_of(clock)
    clock.advance(10.1)
    timer.begin(is_sliced=False)
    assert timer.alarm() == "timeout"


def test_a_step_on_the_loop_is_shorter_where_others_compute_for_long(clock: FakeClock) -> None:
    timer = timer_of(clock)
    timer.begin(is_sliced=True, crowd=2)
    clock.advance(SLICE / 3 - 0.001)
    assert timer.alarm() is None
    clock.advance(0.002)
    assert timer.alarm() == IS_LONG
    timer.begin(is_sliced=False, crowd=2)
    clock.advance(1)
    assert timer.alarm() is None


def test_a_step_on_the_loop_is_short(clock: FakeClock) -> None:
    timer = timer_of(clock)
    timer.begin(is_sliced=True)
    assert timer.alarm() is None
    clock.advance(SLICE)
    assert timer.alarm() == IS_LONG


def test_an_ended_script_stops_at_the_next_alarm(clock: FakeClock) -> None:
    timer = timer_of(clock)
    timer.ended = "cancelled"
    assert timer.alarm() == "cancelled"


def test_each_reason_has_its_error(clock: FakeClock) -> None:
    """`script_cpu_ms` … killed, `TIMEOUT`, `details.reason: "cpu"`."""
    timer = timer_of(clock)
    cpu, wall = timer.error("cpu"), timer.error("timeout")
    assert isinstance(cpu, ToolTimeout)
    assert str(cpu) == "the script computed for more than 2000 ms"
    assert cpu.details == {"reason": "cpu"}
    assert str(wall) == "the script took longer than 10 s"
    assert isinstance(timer.error("closed"), Cancelled)


def test_computing_time_of_earlier_entries_counts(clock: FakeClock) -> None:
    """`script_cpu_ms`: computing time of one attempt."""
    timer = EntryTimer(clock, seconds=10, cpu_ms=2000, spent_ms=1500)
    timer.begin(is_sliced=False)
    clock.advance(0.4)
    assert timer.alarm() is None
    clock.advance(0.2)
    assert timer.alarm() == "cpu"
    timer.end()
    assert timer.computed_ms == 600
    assert "more than 2000 ms" in str(timer.error("cpu"))
