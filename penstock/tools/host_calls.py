"""What a script asks of other tools, and of time."""

from typing import Any

from penstock.core.call import Call, CallPath, Effect
from penstock.core.call_errors import DepthExceeded
from penstock.core.envelope import Envelope
from penstock.sandbox.bridge import Settled
from penstock.tools.arguments import mapping, number, text
from penstock.tools.host import Answer
from penstock.tools.invocation import Invocation
from penstock.tools.recording import Recording

MOST_SLEEP_MS = 3_600_000


class Calls:
    """`callTool`, `sleep` and timers."""

    def __init__(self, invocation: Invocation, recording: Recording) -> None:
        self._invocation = invocation
        self._recording = recording
        self._clock = invocation.inside.world.clock

    def call_tool(self, arguments: Any) -> Answer:
        """Call another tool through the door; whatever becomes of it is an envelope."""
        tool_id, given = text(arguments, "tool_id"), mapping(arguments, "input")
        try:
            call = self._invocation.nested(tool_id, given)
        except DepthExceeded as error:
            return self._recording.fresh(wire(error.envelope()))
        outcome = self._recording.outcome(call.path)
        if outcome is not None:
            return self._recording.recorded(call.path, wire(outcome))
        return self._recording.live(call.path, self._made(call))

    def sleep(self, arguments: Any) -> Answer:
        """Wait; what has fired once is not waited for again."""
        return self._wait("sleep", arguments)

    def timer(self, arguments: Any) -> Answer:
        """Wait for one firing of a timer."""
        return self._wait("timer", arguments)

    async def _made(self, call: Call) -> Settled:
        envelope = await self._invocation.make(call)
        _, at_ms = self._invocation.ledger.task.delivered.get(call.path, (0, self._clock.now()))
        return Settled(value=wire(envelope), at_ms=at_ms)

    def _wait(self, name: str, arguments: Any) -> Answer:
        ms = number(arguments, "ms", 0, MOST_SLEEP_MS)
        path = self._recording.place(name, {"ms": ms}, Effect.NONE)
        found = self._recording.find(path)
        if found is not None:
            return found
        return self._recording.live(path, self._slept(path, name, ms))

    async def _slept(self, path: CallPath, name: str, ms: float) -> Settled:
        await self._clock.sleep(ms / 1000)
        return self._recording.settle(path, name, None)


def wire(envelope: Envelope) -> dict[str, Any]:
    """Return an envelope as scripts see it."""
    seen = envelope.to_wire()
    if "error" in seen:
        seen["error"].pop("suggestion", None)
    return seen
