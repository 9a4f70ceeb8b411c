"""What a script asked of its host, in the ledger: the same answers in each of its entries."""

import asyncio
import base64
import math
from collections.abc import Awaitable
from typing import Any

from penstock.core.call import CallPath, Effect
from penstock.core.call_errors import CallError
from penstock.core.changes import Change
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.events import CallSettled
from penstock.sandbox.bridge import Refusal, Settled
from penstock.tools.invocation import Invocation, WentWell, succeeded
from penstock.tools.redaction import redacted_error

CLOCK = "clock"
BYTES = "$bytes"
"""The one key of an object that stands for bytes, in base64."""
LAST = (math.inf, 0)
FLO_ERROR, TYPE_ERROR = "FloError", "TypeError"


class Recording:
    """The host calls of one entry.

    The script's clock moves when one of them is delivered, and is recorded with it: in a later
    entry it shows the same.
    """

    __slots__ = ("_begin", "_has_begun", "_invocation", "_open", "_secrets", "begins_ms", "is_live")

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._begin = CallPath(f"{invocation.call.path}/{CLOCK}#0")
        begun = invocation.ledger.find(self._begin)
        recorded = None if begun is None else begun.clock_ms
        self._has_begun = recorded is not None
        self._secrets = invocation.caller.secrets
        self.begins_ms: int = self.now() if recorded is None else recorded
        """What the clock shows before the first delivery."""
        self._open: dict[CallPath, asyncio.Future[None]] = {}
        self.is_live = False
        """Something was asked that the ledger had no answer to."""

    def begin(self) -> None:
        """Record what the clock showed at first: before anything else of the script is."""
        if not self._has_begun:
            self._has_begun = True
            self._write(self._begin, CLOCK, Envelope.success(None), self.begins_ms)

    def place(
        self, name: str, shape: Any, effect: Effect, went_well: WentWell = succeeded
    ) -> CallPath:
        """Return the identity of the next host call of this name and shape."""
        return self._invocation.place(name, shape, effect, went_well)

    def find(self, path: CallPath) -> Settled | None:
        """Return what is recorded of a host call, with its place among the others."""
        envelope = self.outcome(path)
        if envelope is None:
            return None
        if envelope.error is not None:
            return self.recorded(path, refusal=refusal_of(envelope.error))
        return self.recorded(path, _opened(envelope.output))

    def outcome(self, path: CallPath) -> Envelope | None:
        """Return the recorded envelope of a call, if it has one."""
        settled = self._invocation.ledger.find(path)
        self.is_live = self.is_live or settled is None
        return None if settled is None else settled.envelope

    def recorded(
        self, path: CallPath, value: Any = None, *, refusal: Refusal | None = None
    ) -> Settled:
        """Return what was recorded, with its place and its time."""
        order, at_ms = self._invocation.ledger.task.delivered.get(path, (0, self.begins_ms))
        return Settled(value=value, refusal=refusal, at_ms=at_ms, order=order)

    def settle(self, path: CallPath, name: str, value: Any) -> Settled:
        """Record what a host call gave; returns it as it is delivered."""
        now, value = self.now(), self._secrets.json(value)
        self._write(path, name, Envelope.success(_closed(value)), now)
        return Settled(value=value, at_ms=now)

    def refuse(self, path: CallPath, name: str, error: CallError | TypeError) -> Settled:
        """Record that a host call was refused."""
        now, detail = self.now(), redacted_error(detail_of(error), self._secrets)
        self._write(path, name, Envelope(Status.FAILED, error=detail), now)
        return Settled(refusal=refusal_of(detail), at_ms=now)

    async def change(self, path: CallPath, name: str, change: Change) -> Settled:
        """Record a host call that changes a store, with the change, as one."""
        now = self.now()
        done = CallSettled(tool_id=name, envelope=Envelope.success(None), ran=False, clock_ms=now)
        made = await self._invocation.ledger.change(path, done, change)
        if made.envelope.error is not None:
            return Settled(refusal=refusal_of(made.envelope.error), at_ms=now)
        return Settled(value=made.envelope.output, at_ms=now)

    async def live(self, path: CallPath, work: Awaitable[Settled]) -> Settled:
        """Return what the work settles as, when all that settled before it is delivered.

        A write waits for the disk before it may be seen, a read that settles after it does not; in
        a later entry the order of the ledger is all there is.
        """
        done = self._open[path] = asyncio.get_running_loop().create_future()
        try:
            settled = await work
            while earlier := self._earlier(path):
                await asyncio.wait(earlier)
            return settled
        finally:
            del self._open[path]
            done.set_result(None)

    def now(self) -> int:
        """Return what the script's clock shows when something is delivered now."""
        return self._invocation.inside.world.clock.now()

    def fresh(self, value: Any = None) -> Settled:
        """Return what is never recorded: it is looked up again in each entry."""
        return Settled(value=value, at_ms=self.now())

    def _write(self, path: CallPath, name: str, envelope: Envelope, clock_ms: int) -> None:
        done = CallSettled(tool_id=name, envelope=envelope, ran=False, clock_ms=clock_ms)
        self._invocation.ledger.settle(path, done)

    def _earlier(self, path: CallPath) -> list["asyncio.Future[None]"]:
        """Return what settled before this call, and is not delivered yet."""
        if len(self._open) == 1:
            return []
        delivered = self._invocation.ledger.task.delivered
        order = delivered.get(path, LAST)
        return [each for other, each in self._open.items() if delivered.get(other, LAST) < order]


def refused(error: CallError | TypeError, at_ms: int) -> Settled:
    """Return a refusal that is not recorded: the same arguments are refused again."""
    return Settled(refusal=refusal_of(detail_of(error)), at_ms=at_ms)


def detail_of(error: CallError | TypeError) -> ErrorDetail:
    """Return the error as the ledger keeps it."""
    if isinstance(error, TypeError):
        return ErrorDetail(code=TYPE_ERROR, message=str(error))
    detail = error.envelope().error
    assert detail is not None  # noqa: S101  an error always says what it is
    return detail


def refusal_of(detail: ErrorDetail) -> Refusal:
    """Return the error as the script sees it."""
    return Refusal(name=TYPE_ERROR if detail.code == TYPE_ERROR else FLO_ERROR, detail=detail)


def _closed(value: Any) -> Any:
    """Return the value as JSON: bytes stand at the top, or in a member of the top."""
    if isinstance(value, bytes):
        return {BYTES: base64.b64encode(value).decode()}
    if isinstance(value, dict) and any(isinstance(each, bytes) for each in value.values()):
        return {key: _closed(each) for key, each in value.items()}
    return value


def _opened(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value.keys() == {BYTES}:
        return base64.b64decode(value[BYTES])
    return {
        key: _opened(each) if isinstance(each, dict) and each.keys() == {BYTES} else each
        for key, each in value.items()
    }
