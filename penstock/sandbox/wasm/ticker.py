"""What makes time pass for guests: an epoch every few milliseconds, while any of them computes."""

import os
import threading
import weakref
from collections.abc import Callable

from penstock.core.clock import Clock

TICK = 0.005
"""Seconds between two epochs: how exactly a deadline is kept."""
LINGER = 200
"""Ticks without a guest after which the thread waits to be woken, so that an idle process idles."""


class Ticker:
    """Advances the epoch while a guest computes, in a thread of its own."""

    def __init__(self, advance: Callable[[], None], clock: Clock) -> None:
        self.linger = LINGER
        self._advance = advance
        self._clock = clock
        self._running: set[object] = set()
        self._closed = False
        self._start()
        # A thread does not survive fork(): without this no deadline fires in the child.
        itself = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _restart(itself()))

    def begin(self, guest: object) -> None:
        """Note that a guest computes."""
        self._running.add(guest)
        if not self._awake.is_set():
            self._awake.set()

    def end(self, guest: object) -> None:
        """Note that it does not any more."""
        self._running.discard(guest)

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._pause.set()
        self._awake.set()

    def restart(self) -> None:
        """Begin anew in a child process, where nothing runs yet."""
        self._running.clear()
        if not self._closed:
            self._start()

    def _start(self) -> None:
        self._awake, self._pause = threading.Event(), threading.Event()
        threading.Thread(target=_tick, args=(weakref.ref(self),), daemon=True).start()

    def wait(self) -> bool:
        """Wait until a guest computes; False when closed. A call of the thread."""
        return self._awake.wait() and not self._closed

    def follow(self) -> None:
        """Advance until no guest has computed for a while. A call of the thread."""
        due, idle = self._clock.monotonic() + TICK, 0
        while idle < self.linger and not self._pause.wait(TICK):
            idle = 0 if self._running else idle + 1
            # Catch up with the clock: on a loaded machine a wait of 5 ms may take 50.
            while self._clock.monotonic() >= due:
                self._advance()
                due += TICK
        self._awake.clear()
        if self._running:
            self._awake.set()


def _tick(ticker: weakref.ref[Ticker]) -> None:
    while (found := ticker()) and found.wait():
        found.follow()


def _restart(ticker: Ticker | None) -> None:
    if ticker is not None:
        ticker.restart()
