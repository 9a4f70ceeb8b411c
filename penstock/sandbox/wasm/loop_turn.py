"""One long step in each round of the loop: scripts that begin together do not add up."""

import asyncio


class LoopTurn:
    """Passed on by the loop, once the others that are ready have had it."""

    def __init__(self) -> None:
        self._passed: asyncio.Future[None] | None = None
        """Done when the loop has gone around since the last long step."""

    @property
    def is_held(self) -> bool:
        """Whether there may be something to wait for, which is cheaper than to come for nothing."""
        return self._passed is not None

    async def come(self) -> None:
        """Wait while the loop was held for long, and nobody else has had it since."""
        loop = asyncio.get_running_loop()
        while self._passed is not None and self._passed.get_loop() is loop:
            await asyncio.wait([self._passed])

    def hold(self) -> None:
        """Note that a long step has ended just now."""
        loop = asyncio.get_running_loop()
        self._passed = loop.create_future()
        loop.call_soon(self._pass_on, self._passed)

    def _pass_on(self, passed: "asyncio.Future[None]") -> None:
        if self._passed is passed:
            self._passed = None
        if not passed.done():
            passed.set_result(None)
