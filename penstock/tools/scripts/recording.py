"""What a script asked of its host, in the ledger: the same answers in each of its entries."""

import asyncio
import base64
import sys
from collections import Counter
from collections.abc import Awaitable, Iterator
from typing import Any

from msgspec import Struct, field

from penstock.core.call import CallPath, Effect
from penstock.core.call_errors import BudgetExceeded, CallError
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.events.events import CallSettled, NoteEmitted
from penstock.core.json_values.canonical import compact
from penstock.core.state.changes import Change
from penstock.core.text import size_text
from penstock.sandbox.bridge import HostCallResult, Refusal
from penstock.store.state_entry import TYPE_ERROR
from penstock.tools.invocation import Invocation, WentWell, succeeded
from penstock.tools.results.redaction import redacted_error

CLOCK = "clock"
CHANGED = "script.changed"
BYTES = "$bytes"
"""The one key of an object that stands for bytes, in base64."""
LAST = (sys.maxsize, 0)
HOST_CALLS = frozenset(
    {CLOCK, "sleep", "timer", "fetch", "fs.readBytes", "getRuntimeConfig", "task.step.settle"}
    | {f"state.{verb}" for verb in ("get", "list", "put", "patch", "append", "delete")}
    | {f"task.{verb}" for verb in ("getState", "putState", "getToolState", "putToolState")}
    | {f"task.{verb}" for verb in ("getProfile", "emitEvent", "waitForUserMessage")}
)
"""What is recorded under the names of host calls; all else are calls of tools."""
FLO_ERROR, MISTAKE = "FloError", "TypeError"


class StepAttempt(Struct):
    """One attempt of a step, and what was asked in it."""

    number: int
    inside: list[CallPath] = field(default_factory=list)


class Recording:
    """The host calls of one entry.

    The script's clock moves when one of them is delivered, and is recorded with it: in a later
    entry it shows the same.
    """

    __slots__ = (
        "_asked",
        "_bytes",
        "_delivered",
        "_fresh",
        "_has_begun",
        "_invocation",
        "_open",
        "_secrets",
        "_version",
        "begins_ms",
        "counted",
        "is_live",
        "step",
    )

    def __init__(self, invocation: Invocation, version: str = "") -> None:
        self._invocation = invocation
        self._version = version
        begun = invocation.ledger.find(self._begin(0))
        recorded = None if begun is None else begun.clock_ms
        self._has_begun = recorded is not None
        self._secrets = invocation.caller.secrets
        self.begins_ms: int = self.now() if recorded is None else recorded
        """What the clock shows before the first delivery."""
        self._open: dict[CallPath, asyncio.Future[None] | None] = {}
        self._delivered = 0
        """All that settled up to this tick is delivered."""
        self._asked: set[CallPath] | None = set() if self._has_begun else None
        """What this entry came past; None in the first one, to which nothing is known."""
        self._fresh = 0
        self._bytes = 0
        """Of the results that this entry came past, recorded before or by itself."""
        self.is_live = False
        """Something was asked that the ledger had no answer to."""
        self.step: StepAttempt | None = None
        """The attempt of a step that is open."""
        self.counted: Counter[str] = Counter()
        """What earlier entries of this attempt recorded, by name: their limits are its own too."""
        if self._has_begun:
            self.counted.update(name for _, name in self._of_this_attempt())
            self._compare_version()

    @property
    def nested(self) -> int:
        """How many calls of tools earlier entries of this attempt recorded."""
        return sum(count for name, count in self.counted.items() if name not in HOST_CALLS)

    def begin(self) -> None:
        """Record what the clock showed at first: before anything else of the script is."""
        if not self._has_begun:
            self._has_begun = True
            self._write(self._begin(0), CLOCK, Envelope.success(self._version), self.begins_ms)

    def unasked(self) -> list[str]:
        """Return the names of what an earlier entry recorded, and this one did not ask for."""
        if self._asked is None:
            return []
        attempt, parent = self._invocation.attempt, self._invocation.call.path
        ending = "" if attempt == 1 else f"~{attempt}"
        found = []
        for path in self._invocation.ledger.task.settled:
            above, _, last = path.rpartition("/")
            name, _, rest = last.rpartition("#")
            is_own = above == parent and rest.partition("~")[2] == ending[1:] and name != CLOCK
            if is_own and path not in self._asked:
                found.append(name)
        return found

    def came_past(self, *paths: CallPath) -> None:
        """Note what is not asked for because something else has its outcome."""
        if self._asked is not None:
            self._asked.update(paths)

    def place(
        self, name: str, shape: Any, effect: Effect, went_well: WentWell = succeeded
    ) -> CallPath:
        """Return the identity of the next host call of this name and shape."""
        return self.placed(
            self._invocation.place(name, shape, effect, went_well), effect, went_well
        )

    def placed(self, path: CallPath, effect: Effect, went_well: WentWell = succeeded) -> CallPath:
        """Return the identity in the attempt of a step that is open.

        In a further attempt what went well and is a write is taken over, as in one of the call.
        """
        if self.step is None:
            return path
        ledger, before = self._invocation.ledger, path
        for attempt in range(1, self.step.number + 1):
            before = (
                path if attempt == 1 else CallPath(f"{path}~{self._invocation.attempt}~{attempt}")
            )
            settled = ledger.find(before)
            if settled is None or (effect is Effect.WRITE and went_well(settled)):
                break
        self.step.inside.append(before)
        return before

    def find(self, path: CallPath, *, has_bytes: bool = False) -> HostCallResult | None:
        """Return what is recorded of a host call, with its place among the others."""
        envelope = self.outcome(path)
        if envelope is None:
            return None
        if envelope.error is not None:
            return self.recorded(path, refusal=refusal_of(envelope.error))
        return self.recorded(path, _opened(envelope.output) if has_bytes else envelope.output)

    def outcome(self, path: CallPath) -> Envelope | None:
        """Return the recorded envelope of a call, if it has one. Raises BudgetExceeded."""
        settled = self._invocation.ledger.find(path)
        if settled is None:
            self._count_fresh()
        else:
            self.count(settled.envelope.output)
        if self._asked is not None:
            self._asked.add(path)
        return None if settled is None else settled.envelope

    def recorded(
        self, path: CallPath, value: Any = None, *, refusal: Refusal | None = None
    ) -> HostCallResult:
        """Return what was recorded, with its place and its time."""
        order, at_ms = self._invocation.ledger.task.delivered.get(path, (0, self.begins_ms))
        return HostCallResult(value=value, refusal=refusal, at_ms=at_ms, order=order)

    def settle(self, path: CallPath, name: str, value: Any) -> HostCallResult:
        """Record what a host call gave; returns it as it is delivered."""
        now, value = self.now(), self._secrets.json(value)
        self.count(closed := _closed(value))
        self._write(path, name, Envelope.success(closed), now)
        return HostCallResult(value=value, at_ms=now)

    def settle_read(self, path: CallPath, name: str, value: Any) -> HostCallResult:
        """Record what a host call read: nothing is lost if there is no room for it."""
        if self._bytes + _size(value) > self._invocation.inside.world.limits.recorded_bytes:
            return self.refuse(path, name, self._is_full())
        return self.settle(path, name, value)

    def count(self, output: Any) -> None:
        """Count a result that is recorded, now or before; what is full takes nothing more."""
        self._bytes += _size(output)

    def refuse(self, path: CallPath, name: str, error: CallError | TypeError) -> HostCallResult:
        """Record that a host call was refused."""
        now, detail = self.now(), redacted_error(detail_of(error), self._secrets)
        self._write(path, name, Envelope(Status.FAILED, error=detail), now)
        return HostCallResult(refusal=refusal_of(detail), at_ms=now)

    async def change(self, path: CallPath, name: str, change: Change) -> HostCallResult:
        """Record a host call that changes a store, with the change, as one."""
        now = self.now()
        done = CallSettled(tool_id=name, envelope=Envelope.success(None), ran=False, clock_ms=now)
        made = await self._invocation.ledger.change(path, done, change)
        self.count(made.envelope.output)
        if made.envelope.error is not None:
            return HostCallResult(refusal=refusal_of(made.envelope.error), at_ms=now)
        return HostCallResult(value=made.envelope.output, at_ms=now)

    async def live(self, path: CallPath, work: Awaitable[HostCallResult]) -> HostCallResult:
        """Return what the work settles as, when all that settled before it is delivered.

        A write waits for the disk before it may be seen, a read that settles after it does not; in
        a later entry the order of the ledger is all there is.
        """
        self._open[path] = None
        try:
            settled = await work
            while earlier := self._earlier(path):
                await asyncio.wait(earlier)
            return settled
        finally:
            if (done := self._open.pop(path)) is not None:
                done.set_result(None)

    def now(self) -> int:
        """Return what the script's clock shows when something is delivered now."""
        return self._invocation.inside.world.clock.now()

    def fresh(self, value: Any = None) -> HostCallResult:
        """Return what is never recorded: it is looked up again in each entry."""
        return HostCallResult(value=value, at_ms=self.now())

    def note(self, path: CallPath, name: str, envelope: Envelope) -> int:
        """Record the envelope that a call got, as it is; returns what the clock shows then."""
        now = self.now()
        self._write(path, name, envelope, now)
        return now

    def _count_fresh(self) -> None:
        """Note that something is asked for which nothing is recorded. Raises BudgetExceeded."""
        self.is_live = True
        self._fresh += 1
        limits = self._invocation.inside.world.limits
        if self.counted.total() + self._fresh > limits.host_calls:
            raise BudgetExceeded(f"one script asked its host more than {limits.host_calls} times")
        if self._bytes > limits.recorded_bytes:
            raise self._is_full()

    def _is_full(self) -> BudgetExceeded:
        most = size_text(self._invocation.inside.world.limits.recorded_bytes)
        return BudgetExceeded(
            f"what one script was given by its host is over {most} (limits.recorded_bytes): "
            "ask for less in one call, or fetch with record: false"
        )

    def _of_this_attempt(self) -> Iterator[tuple[CallPath, str]]:
        """Yield what is recorded right below the call in this attempt: paths and names."""
        parent, attempt = self._invocation.call.path, str(self._invocation.attempt)
        for path in self._invocation.ledger.task.settled:
            above, _, last = path.rpartition("/")
            if above == parent:
                name, _, rest = last.rpartition("#")
                marks = rest.split("~")
                if (marks[1] if len(marks) > 1 else "1") == attempt and name != CLOCK:
                    yield path, name

    def _begin(self, number: int) -> CallPath:
        """Return where it stands how the script was at first, or after so many changes."""
        return CallPath(f"{self._invocation.call.path}/{CLOCK}#{number}")

    def _compare_version(self) -> None:
        """Warn, once for each change, that the script is not what was entered before."""
        ledger, path = self._invocation.ledger, self._invocation.call.path
        number = ledger.task.notes.get((path, CHANGED), 0)
        last = ledger.find(self._begin(number))
        if last is None or last.envelope.output in {self._version, None}:
            return
        said = "the script was changed since it was entered last; the new one goes on"
        self._invocation.note(NoteEmitted(event_type=CHANGED, message=said, level="warning"))
        version = Envelope.success(self._version)
        self._write(self._begin(number + 1), CLOCK, version, self.begins_ms)

    def _write(self, path: CallPath, name: str, envelope: Envelope, clock_ms: int) -> None:
        self.came_past(path)
        done = CallSettled(tool_id=name, envelope=envelope, ran=False, clock_ms=clock_ms)
        self._invocation.ledger.settle(path, done)

    def _earlier(self, path: CallPath) -> list["asyncio.Future[None]"]:
        """Return what settled before this call, and is not delivered yet."""
        delivered = self._invocation.ledger.task.delivered
        order = delivered.get(path, LAST)
        found = []
        for other in reversed(delivered):
            tick = delivered[other]
            if tick[0] <= self._delivered:
                break
            if tick < order and other in self._open:
                found.append(self._end_of(other))
        if not found and order is not LAST:
            self._delivered = max(self._delivered, order[0])
        return found

    def _end_of(self, path: CallPath) -> "asyncio.Future[None]":
        """Return what is done when an open call is delivered."""
        if (done := self._open[path]) is None:
            done = self._open[path] = asyncio.get_running_loop().create_future()
        return done


def refused(error: CallError | TypeError, at_ms: int) -> HostCallResult:
    """Return a refusal that is not recorded: the same arguments are refused again."""
    return HostCallResult(refusal=refusal_of(detail_of(error)), at_ms=at_ms)


def detail_of(error: CallError | TypeError) -> ErrorDetail:
    """Return the error as the ledger keeps it."""
    if isinstance(error, TypeError):
        return ErrorDetail(code=TYPE_ERROR, message=str(error))
    detail = error.envelope().error
    assert detail is not None  # noqa: S101  an error always says what it is
    return detail


def refusal_of(detail: ErrorDetail) -> Refusal:
    """Return the error as the script sees it."""
    return Refusal(name=MISTAKE if detail.code == TYPE_ERROR else FLO_ERROR, detail=detail)


def _closed(value: Any) -> Any:
    """Return the value as JSON: bytes stand at the top, or in a member of the top."""
    if isinstance(value, bytes):
        return {BYTES: base64.b64encode(value).decode()}
    if isinstance(value, dict) and any(isinstance(each, bytes) for each in value.values()):
        return {key: _closed(each) for key, each in value.items()}
    return value


def _size(value: Any) -> int:
    """Return how many characters a value has as JSON, about; to spell bytes would cost too much."""
    if isinstance(value, bytes):
        return 4 * len(value) // 3
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict) and any(map(_stands_for_bytes, (value, *value.values()))):
        return sum(map(_size, value.values()))
    return len(compact(value))


def _stands_for_bytes(value: Any) -> bool:
    return isinstance(value, bytes) or (isinstance(value, dict) and value.keys() == {BYTES})


def _opened(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value.keys() == {BYTES}:
        return base64.b64decode(value[BYTES])
    return {
        key: _opened(each) if isinstance(each, dict) and each.keys() == {BYTES} else each
        for key, each in value.items()
    }
