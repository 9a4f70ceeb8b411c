"""`callTool`, `sleep` and `timer`: host calls that reach other tools, or wait.

Guarantees that a tool call inside a script passes the invoker like any other call, that every
outcome is an envelope, and that a recorded call is not made again. Calls that run at the same time
are bounded (`MAX_IN_FLIGHT`), and so is their number per attempt of the script
(`limits.nested_calls`), which includes what earlier entries recorded. Proof:
tests/tools/scripts/test_host_calls.py.
"""

import asyncio
from typing import Any

from msgspec.structs import replace

from penstock.core.call import Call, CallPath, Effect
from penstock.core.call_errors import BudgetExceeded, DepthExceeded
from penstock.core.envelope import Envelope, Status
from penstock.core.events.events import NoteEmitted
from penstock.core.json_values.schema import Problem
from penstock.sandbox.bridge import HostCallResult
from penstock.tools.detached_calls import DetachedCalls
from penstock.tools.failures import invalid
from penstock.tools.invocation import Invocation
from penstock.tools.scripts.arguments import number, text
from penstock.tools.scripts.host import MAX_IN_FLIGHT, Answer
from penstock.tools.scripts.recording import Recording

MAX_SLEEP_MS = 3_600_000
STRONGER = "script.effect"
_STRENGTH = {Effect.NONE: 0, Effect.READ: 1, Effect.WRITE: 2}


class ToolCalls:
    """`callTool`, `sleep` and timers."""

    def __init__(
        self, invocation: Invocation, recording: Recording, *, nested_calls: int | None
    ) -> None:
        limits = invocation.edition.world.limits
        self._invocation = invocation
        self._recording = recording
        self._clock = invocation.edition.world.clock
        self._detached = DetachedCalls(invocation, self._note)
        self._places = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._most = limits.nested_calls if nested_calls is None else nested_calls
        self._made = recording.nested
        self._warned: set[str] = set()

    def call_tool(self, arguments: Any) -> Answer:
        """Call another tool through the invoker. Every outcome is an envelope."""
        tool_id, tool_input = text(arguments, "tool_id"), arguments.get("input", {})
        wait = arguments.get("wait", True)
        if not isinstance(wait, bool):
            raise TypeError("wait must be true or false")
        if not isinstance(tool_input, dict):
            refused = invalid(tool_id, [Problem("", "must be an object")])
            return self._recording.fresh(wire(refused.envelope()))
        try:
            call = self._invocation.nested(tool_id, tool_input)
        except DepthExceeded as error:
            return self._recording.fresh(wire(error.envelope()))
        if self._recording.step is not None:
            effect = self._invocation.edition.effect_of(tool_id)
            call = replace(call, path=self._recording.placed(call.path, effect))
        outcome = self._recording.outcome(call.path)
        if outcome is not None:
            return self._recording.recorded(call.path, wire(outcome))
        # Counted after the look into the record: replayed calls are in `recording.nested` already.
        self._made += 1
        if self._made > self._most:
            spent = BudgetExceeded(
                f"one script made more than {self._most} tool calls (limits.nested_calls)"
            )
            envelope = spent.envelope()
            return HostCallResult(value=wire(envelope), at_ms=self._note(call, envelope))
        if self._invocation.spec.effect is not Effect.WRITE:
            self._compare(tool_id)
        return self._recording.live(call.path, self._call(call, wait=wait))

    def sleep(self, arguments: Any) -> Answer:
        """Wait. A wait that is recorded returns immediately."""
        return self._wait("sleep", arguments)

    def timer(self, arguments: Any) -> Answer:
        """Wait for one firing of a timer."""
        return self._wait("timer", arguments)

    async def _call(self, call: Call, *, wait: bool) -> HostCallResult:
        async with self._places:
            envelope = await self._detached.make(call, wait=wait)
        self._recording.count(envelope.output)
        _, at_ms = self._invocation.ledger.task.records.delivered.get(
            call.path, (0, self._clock.now())
        )
        return HostCallResult(value=wire(envelope), at_ms=at_ms)

    def _note(self, call: Call, envelope: Envelope) -> int:
        return self._recording.note(call.path, call.tool_id, envelope)

    def _compare(self, tool_id: str) -> None:
        """Warn, once per tool, if its effect is stronger than the effect in the manifest."""
        own, invocation = self._invocation.spec.effect, self._invocation
        effect = invocation.edition.effect_of(tool_id)
        if _STRENGTH[effect] <= _STRENGTH[own] or tool_id in self._warned:
            return
        self._warned.add(tool_id)
        # Earlier entries stored their warnings; the order of first calls is the same in each entry.
        warned_before = invocation.ledger.task.records.notes.get(
            (invocation.call.path, STRONGER), 0
        )
        if len(self._warned) > warned_before:
            text = f'"{tool_id}" has the effect {effect}, "{invocation.spec.tool_id}" claims {own}'
            invocation.note(NoteEmitted(event_type=STRONGER, message=text, level="warning"))

    def _wait(self, name: str, arguments: Any) -> Answer:
        ms = number(arguments, "ms", 0, MAX_SLEEP_MS)
        path = self._recording.place(name, {"ms": ms}, Effect.NONE)
        recorded = self._recording.find(path)
        if recorded is not None:
            return recorded
        return self._recording.live(path, self._slept(path, name, ms))

    async def _slept(self, path: CallPath, name: str, ms: float) -> HostCallResult:
        await self._clock.sleep(ms / 1000)
        return self._recording.settle(path, name, None)


def wire(envelope: Envelope) -> dict[str, Any]:
    """Return an envelope as scripts see it."""
    seen = envelope.to_wire()
    error = envelope.error
    if error is not None:
        seen["error"].pop("suggestion", None)
        questions = (error.details or {}).get("question_ids")
        if envelope.status is Status.SUSPENDED and questions:
            seen["question_id"] = questions[0]
    return seen
