"""One entry of a script: from its first line until it ends, parks, or is stopped."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Sequence
from typing import Any

from penstock.core.call_errors import ScriptError
from penstock.sandbox.bridge import Bridge
from penstock.sandbox.calls import OpenCalls
from penstock.sandbox.entry_timer import TURN
from penstock.sandbox.guest import EntryRequest, Guest, beginning
from penstock.sandbox.messages import Delivery, Message
from penstock.sandbox.script import Bounds
from penstock.sandbox.script_end import conclude, crashed

NOTHING_SETTLES = "the script waits for a promise that nothing will settle"


class Entry:
    """Drives one guest: hands it what has settled, asks what it asks."""

    def __init__(self, request: EntryRequest, guest: Guest) -> None:
        self._request = request
        self._bridge, self._timer = request.bridge, request.timer
        self._guest = guest
        self._woken = asyncio.Event()
        self._calls = OpenCalls(self._bridge, self._woken.set)
        self._console = Console(self._bridge, request.bounds)
        self._said: deque[Message] = deque()
        """What the script said, and was not done yet."""
        self._turn_began = asyncio.get_running_loop().time()

    async def run(self, input: Any) -> Any:
        """Return the output."""
        deliveries: Sequence[Delivery] = [beginning(self._request, input)]
        try:
            while True:
                self._calls.put_back(await self._advance(deliveries))
                if ending := await self._take():
                    return await self._end(ending)
                await self._let_others()
                deliveries = await self._next()
        finally:
            self._take_prints()
            self._guest.free()
            self._bridge.computed(self._timer.computed_ms)
            await self._calls.close()

    def stop(self) -> None:
        """End the entry from outside."""
        self._guest.stop("closed")
        self._woken.set()

    async def _advance(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        """Compute what follows from these; returns those that have to wait."""
        try:
            return await self._guest.advance(deliveries, self._calls.held)
        except TimeoutError as stopped:
            raise self._timer.error(str(stopped)) from None
        except (RuntimeError, ValueError, LookupError) as trap:
            raise crashed(str(trap)) from None

    async def _take(self) -> Message | None:
        """Do what the script said; returns how it ended, if it has."""
        self._said.extend(self._guest.take())
        while self._said:
            message = self._said.popleft()
            match message.kind:
                case "ask":
                    self._calls.ask(message)
                    await self._let_others()
                case "drop":
                    self._calls.drop(message.number)
                case "print":
                    self._console.print(message.name, message.value)
                case "rejected":
                    pass  # said when nobody asked for it
                case _:
                    return message
        return None

    def _take_prints(self) -> None:
        """Say what was said before the script was stopped."""
        for message in (*self._said, *self._guest.take()):
            if message.kind == "print":
                self._console.print(message.name, message.value)

    async def _next(self) -> Sequence[Delivery]:
        """Return what is to be delivered, as soon as there is something."""
        while True:
            self._woken.clear()
            if self._timer.ended:
                raise self._timer.error(self._timer.ended)
            if ready := self._calls.take():
                return ready
            if not self._calls.can_move:
                if signal := self._calls.parking():
                    raise signal
                await self._tell_rejections()
                raise ScriptError(NOTHING_SETTLES)
            await self._within_time(self._woken.wait())
            self._turn_began = asyncio.get_running_loop().time()

    async def _let_others(self) -> None:
        """Give the loop to others if this entry has held it for a while."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._turn_began < TURN:
            return
        self._woken.clear()
        loop.call_soon(self._woken.set)
        await self._woken.wait()
        self._turn_began = loop.time()

    async def _end(self, ending: Message) -> Any:
        """Settle what is open, then return the output or raise the error."""
        names = self._calls.unawaited()
        await self._tell_rejections()
        self._guest.free()
        if names:
            said = ", ".join(sorted(set(names)))
            self._bridge.warn(
                "script.unawaited_calls",
                f"the script returned before {len(names)} of its host calls: {said}",
            )
            await self._within_time(self._calls.finish())
        return conclude(ending, self._request.script, self._request.bounds)

    async def _tell_rejections(self) -> None:
        for said in await self._guest.rejections():
            self._bridge.warn("script.unhandled_rejection", said)

    async def _within_time(self, waiting: Awaitable[Any]) -> None:
        limit = asyncio.timeout(max(self._timer.left, 0))
        try:
            async with limit:
                await waiting
        except TimeoutError:
            if not limit.expired():
                raise
            raise self._timer.error("timeout") from None


class Console:
    """Hands lines to the bridge; the script's own caps are not trusted."""

    def __init__(self, bridge: Bridge, bounds: Bounds) -> None:
        self._bridge = bridge
        self._lines_left = bounds.log_lines + 1
        self._bytes_left = bounds.log_bytes + bounds.log_line_bytes
        self._longest = bounds.log_line_bytes

    def print(self, level: str, text: str) -> None:
        """Hand over one line."""
        content = text.encode("utf-8", "replace")[: self._longest]
        line = content.decode("utf-8", "ignore")
        self._lines_left -= 1
        self._bytes_left -= len(content)
        if self._lines_left >= 0 and self._bytes_left >= 0:
            self._bridge.print(level if level in _LEVELS else "info", line)


_LEVELS = {"info", "warning", "error"}
