"""Time passes for guests while they compute, in a forked child too."""

import os
import threading

import pytest

from penstock.core.clock import SystemClock
from penstock.sandbox.wasm.ticker import TICK, Ticker


class Epochs:
    """Counts, and tells when there are enough."""

    def __init__(self, enough: int) -> None:
        self._enough = enough
        self.count = 0
        self.reached = threading.Event()

    def advance(self) -> None:
        self.count += 1
        if self.count >= self._enough:
            self.reached.set()


def test_epochs_come_while_a_guest_computes() -> None:
    epochs = Epochs(10)
    ticker = Ticker(epochs.advance, SystemClock())
    ticker.begin("guest")
    assert epochs.reached.wait(5)
    ticker.end("guest")
    ticker.close()


def test_epochs_catch_up_with_the_clock() -> None:
    clock, epochs = SystemClock(), Epochs(40)
    ticker = Ticker(epochs.advance, clock)
    begun = clock.monotonic()
    ticker.begin("guest")
    assert epochs.reached.wait(5)
    ticker.close()
    assert clock.monotonic() - begun >= 40 * TICK - TICK


def test_without_a_guest_no_epoch_comes() -> None:
    epochs = Epochs(1)
    ticker = Ticker(epochs.advance, SystemClock())
    assert not epochs.reached.wait(5 * TICK)
    ticker.close()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_epochs_of_its_own() -> None:
    epochs = Epochs(5)
    ticker = Ticker(epochs.advance, SystemClock())
    child = os.fork()
    if child == 0:
        ticker.begin("guest")
        os._exit(0 if epochs.reached.wait(5) else 1)
    _, status = os.waitpid(child, 0)
    ticker.close()
    assert os.waitstatus_to_exitcode(status) == 0
