"""Limits the event loop to one long script step per iteration.

A step may hold up the loop for a slice (30 ms) before it moves to a thread. Fifty scripts that
start together would hold it up for fifty slices in a row. So the guest calls `hold` after a long
step, and the others wait in `come` until the loop has run everything else that was ready. Proof:
tests/sandbox/wasm/test_loop_turn.py.
"""

import asyncio


class LoopTurn:
    """Held from the end of a long step until the loop has completed one iteration."""

    def __init__(self) -> None:
        self._passed: asyncio.Future[None] | None = None
        """Done when the loop has completed an iteration since the last long step."""

    @property
    def is_held(self) -> bool:
        """Whether `come` may have to wait. Cheaper than awaiting `come` for nothing."""
        return self._passed is not None

    async def come(self) -> None:
        """Wait until the loop has completed an iteration since the last long step."""
        loop = asyncio.get_running_loop()
        # Several waiters wake together; the first may hold the turn again, hence the loop. A
        # future of another event loop (one that ended) never completes, so it is ignored.
        while self._passed is not None and self._passed.get_loop() is loop:
            await asyncio.wait([self._passed])

    def hold(self) -> None:
        """Record that a long step has just ended."""
        loop = asyncio.get_running_loop()
        self._passed = loop.create_future()
        loop.call_soon(self._pass_on, self._passed)

    def _pass_on(self, passed: "asyncio.Future[None]") -> None:
        if self._passed is passed:
            self._passed = None
        if not passed.done():
            passed.set_result(None)
