"""Control flow that no tool can stop."""

import pytest

from penstock.core import signals


@pytest.mark.parametrize("signal", [signals.Suspend, signals.Cancel, signals.LeaseLost])
def test_no_tool_can_swallow_a_signal(signal: type[signals.Signal]) -> None:
    assert issubclass(signal, BaseException)
    assert not issubclass(signal, Exception)


def test_a_suspension_carries_what_it_waits_for() -> None:
    assert signals.Suspend("q_1", "task_2").awaited == ("q_1", "task_2")
