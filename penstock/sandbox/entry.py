"""Drives one entry of a script: from its first line until it ends, suspends, or is stopped.

An entry alternates between two sides. The guest computes until the script makes host calls
(`Guest.advance`); the entry starts these calls, waits for results, and delivers them. Guarantees:

- recorded results are delivered before new ones, in their recorded order, so that a replay takes
  the same path through the script (`OpenCalls`, decided there);
- the guest is freed and every open call has ended before `run` returns or raises, however it ends;
- a script that waits for nothing that can settle ends with ScriptError instead of its timeout;
- console lines that were sent before a failure are kept.

Relies on the guest being deterministic and on its timer to stop it. Proof:
tests/sandbox/test_entry.py, and the contract of all sandboxes in tests/contracts/test_sandbox.py.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Sequence
from typing import Any

from penstock.core.call_errors import ScriptError
from penstock.sandbox.bridge import Bridge
from penstock.sandbox.entry_calls import OpenCalls
from penstock.sandbox.entry_timer import TURN
from penstock.sandbox.guest import EntryRequest, Guest, beginning
from penstock.sandbox.messages import Delivery, Message
from penstock.sandbox.script import Bounds
from penstock.sandbox.script_end import conclude, crashed

NOTHING_SETTLES = "the script waits for a promise that nothing will settle"


class Entry:
    """Drives one guest: delivers settled results, makes the host calls of the script."""

    def __init__(self, request: EntryRequest, guest: Guest) -> None:
        self._request = request
        self._bridge, self._timer = request.bridge, request.timer
        self._guest = guest
        self._woken = asyncio.Event()
        self._calls = OpenCalls(self._bridge, self._woken.set)
        self._console = Console(self._bridge, request.bounds)
        self._received: deque[Message] = deque()
        """Messages of the script that are not handled yet."""
        self._turn_began = asyncio.get_running_loop().time()

    async def run(self, input: Any) -> Any:
        """Run the script and return its output."""
        deliveries: Sequence[Delivery] = [beginning(self._request, input)]
        try:
            while True:
                self._calls.put_back(await self._advance(deliveries))
                if ending := await self._handle_messages():
                    return await self._end(ending)
                await self._yield_loop()
                deliveries = await self._next()
        finally:
            # Free the guest before waiting for open calls: its memory or process is scarce.
            self._print_rest()
            self._guest.free()
            self._bridge.computed(self._timer.computed_ms)
            await self._calls.close()

    def stop(self) -> None:
        """Stop the entry from outside."""
        self._guest.stop("closed")
        self._woken.set()

    async def _advance(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        """Let the guest compute; translate the ways in which it can break."""
        try:
            return await self._guest.advance(deliveries, self._calls.held)
        except TimeoutError as stopped:
            raise self._timer.error(str(stopped)) from None
        except (RuntimeError, ValueError, LookupError) as trap:
            raise crashed(str(trap)) from None

    async def _handle_messages(self) -> Message | None:
        """Handle what the script sent; return its last message if it has ended."""
        self._received.extend(self._guest.take())
        while self._received:
            message = self._received.popleft()
            match message.kind:
                case "ask":
                    self._calls.ask(message)
                    # Eager calls may do all of their work here, and a script may make thousands.
                    await self._yield_loop()
                case "drop":
                    self._calls.drop(message.number)
                case "print":
                    self._console.print(message.name, message.value)
                case "rejected":
                    pass  # `rejections` takes these; a script that sends one itself is ignored
                case _:
                    return message
        return None

    def _print_rest(self) -> None:
        """Print the lines that were sent before the script was stopped."""
        for message in (*self._received, *self._guest.take()):
            if message.kind == "print":
                self._console.print(message.name, message.value)

    async def _next(self) -> Sequence[Delivery]:
        """Wait for the next deliveries. Raises what ends an entry in which nothing can settle."""
        while True:
            # Cleared before looking: a call that settles after this line sets it again.
            self._woken.clear()
            if self._timer.ended:
                raise self._timer.error(self._timer.ended)
            if ready := self._calls.take():
                return ready
            if not self._calls.can_move:
                if signal := self._calls.parking():
                    raise signal
                await self._warn_of_rejections()
                raise ScriptError(NOTHING_SETTLES)
            await self._within_time(self._woken.wait())
            self._turn_began = asyncio.get_running_loop().time()

    async def _yield_loop(self) -> None:
        """Let the loop run other work if this entry has held it for a while."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._turn_began < TURN:
            return
        # Like `sleep(0)`, but `stop` ends it, too.
        self._woken.clear()
        loop.call_soon(self._woken.set)
        await self._woken.wait()
        self._turn_began = loop.time()

    async def _end(self, ending: Message) -> Any:
        """Wait for open calls, then return the output or raise the script's error."""
        names = self._calls.unawaited()
        await self._warn_of_rejections()
        self._guest.free()
        # Calls that were not awaited still have effects, so they run to their end and are recorded.
        if names:
            listed = ", ".join(sorted(set(names)))
            self._bridge.warn(
                "script.unawaited_calls",
                f"the script returned before {len(names)} of its host calls: {listed}",
            )
            await self._within_time(self._calls.finish())
        return conclude(ending, self._request.script, self._request.bounds)

    async def _warn_of_rejections(self) -> None:
        for line in await self._guest.rejections():
            self._bridge.warn("script.unhandled_rejection", line)

    async def _within_time(self, waiting: Awaitable[Any]) -> None:
        limit = asyncio.timeout(max(self._timer.left, 0))
        try:
            async with limit:
                await waiting
        except TimeoutError:
            # A host call may raise a TimeoutError of its own: only ours is the script's timeout.
            if not limit.expired():
                raise
            raise self._timer.error("timeout") from None


class Console:
    """Passes console lines to the bridge, within bounds: the guest's own bounds are not trusted."""

    def __init__(self, bridge: Bridge, bounds: Bounds) -> None:
        self._bridge = bridge
        self._lines_left = bounds.log_lines + 1
        self._bytes_left = bounds.log_bytes + bounds.log_line_bytes
        self._longest = bounds.log_line_bytes

    def print(self, level: str, text: str) -> None:
        """Pass on one line; drop it when the bounds of the entry are used up."""
        content = text.encode("utf-8", "replace")[: self._longest]
        line = content.decode("utf-8", "ignore")
        self._lines_left -= 1
        self._bytes_left -= len(content)
        if self._lines_left >= 0 and self._bytes_left >= 0:
            self._bridge.print(level if level in _LEVELS else "info", line)


_LEVELS = {"info", "warning", "error"}
