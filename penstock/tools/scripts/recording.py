"""The record of a script's host calls: each entry gets the same answers in the same order.

A script runs again from its top after a crash or a wait. This module guarantees that it then sees
what it saw before: each host call gets its recorded answer, answers arrive in the recorded order,
and the script's clock shows the recorded times. The clock moves only when an answer is delivered,
so a script cannot observe anything that is not recorded.

How: a host call has a path from its name and arguments (`place`). `find` returns a recorded answer
with its position; `settle`, `refuse`, `change` record a new one; `live` holds an answer back
until all that settled before it in the ledger are delivered. That is needed because a write waits
for the disk and a read does not: the script could see the read first, but the ledger has the
write first, and the next entry follows the ledger.

Limits per attempt: `limits.host_calls` calls, `limits.recorded_bytes` bytes of results. Earlier
entries count too, otherwise each restart would reset them. It relies on the sandbox being
deterministic apart from its host calls; a script that diverges is reported (`unrepeated`).

Proof: `tests/tools/scripts/test_recording.py`.
"""

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
from penstock.core.json_values.json_text import compact
from penstock.core.stored.changes import TYPE_ERROR, Change
from penstock.core.stored.subjects import SubjectVerb
from penstock.core.text import size_text
from penstock.sandbox.bridge import HostCallResult, Refusal
from penstock.tools.invocation import Invocation, WentWell, succeeded
from penstock.tools.redaction import redacted_error

CLOCK = "clock"
CHANGED = "script.changed"
BYTES = "$bytes"
"""The only key of a JSON object that represents bytes as base64."""
LAST = (sys.maxsize, 0)
HOST_CALLS = frozenset(
    {CLOCK, "sleep", "timer", "fetch", "fs.readBytes", "getRuntimeConfig", "task.step.settle"}
    | {f"state.{verb}" for verb in ("get", "list", "put", "patch", "append", "delete")}
    | {f"task.{verb}" for verb in ("getState", "putState", "getToolState", "putToolState")}
    | {f"task.{verb}" for verb in ("getProfile", "emitEvent", "waitForUserMessage")}
    | {f"task.{verb}" for verb in ("spawn", "spawnChildren", "waitForBatch", "getBatchResults")}
    | {f"dispatcher.{verb}" for verb in SubjectVerb}
    | {f"task.{verb}" for verb in ("waitForDependencies", "cancel", "runSubagent")}
)
"""Names under which host calls are recorded. All other names are tools."""
FLO_ERROR, MISTAKE = "FloError", "TypeError"


class StepAttempt(Struct):
    """One attempt of a step, and the paths of its host calls."""

    number: int
    inside: list[CallPath] = field(default_factory=list)


class Recording:
    """The host calls of one entry of a script."""

    __slots__ = (
        "_bytes",
        "_delivered",
        "_fresh",
        "_has_started",
        "_invocation",
        "_open",
        "_repeated",
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
        first = invocation.ledger.find(self._version_path(0))
        recorded = None if first is None else first.clock_ms
        self._has_started = recorded is not None
        self._secrets = invocation.caller.secrets
        self.begins_ms: int = self.now() if recorded is None else recorded
        """The time of the script's clock before the first delivery, in milliseconds since 1970."""
        self._open: dict[CallPath, asyncio.Future[None] | None] = {}
        self._delivered = 0
        """Everything that settled up to this tick is delivered."""
        self._repeated: set[CallPath] | None = set() if self._has_started else None
        """Paths that this entry asked for; None in the first entry, which cannot diverge."""
        self._fresh = 0
        self._bytes = 0
        """Size of the results that this entry received, replayed and new."""
        self.is_live = False
        """Whether the script asked for something that is not recorded."""
        self.step: StepAttempt | None = None
        """The open attempt of a step."""
        self.counted: Counter[str] = Counter()
        """How many calls earlier entries of this attempt recorded, by name."""
        if self._has_started:
            self.counted.update(name for _, name in self._of_this_attempt())
            self._compare_version()

    @property
    def nested(self) -> int:
        """How many tool calls earlier entries of this attempt recorded."""
        return sum(count for name, count in self.counted.items() if name not in HOST_CALLS)

    def begin(self) -> None:
        """Record the first clock value, before anything else of the script is recorded."""
        if not self._has_started:
            self._has_started = True
            self._write(
                self._version_path(0), CLOCK, Envelope.success(self._version), self.begins_ms
            )

    def unrepeated(self) -> list[str]:
        """Return the names of recorded host calls that this entry did not repeat."""
        if self._repeated is None:
            return []
        attempt, parent = self._invocation.attempt, self._invocation.call.path
        ending = "" if attempt == 1 else f"~{attempt}"
        names = []
        for path in self._invocation.ledger.task.settled:
            above, _, last = path.rpartition("/")
            name, _, rest = last.rpartition("#")
            is_own = above == parent and rest.partition("~")[2] == ending[1:] and name != CLOCK
            if is_own and path not in self._repeated:
                names.append(name)
        return names

    def mark_repeated(self, *paths: CallPath) -> None:
        """Count these paths as repeated, although the script does not ask for them again."""
        if self._repeated is not None:
            self._repeated.update(paths)

    def place(
        self, name: str, shape: Any, effect: Effect, went_well: WentWell = succeeded
    ) -> CallPath:
        """Return the path of the next host call with this name and these arguments (`shape`)."""
        return self.placed(
            self._invocation.place(name, shape, effect, went_well), effect, went_well
        )

    def placed(self, path: CallPath, effect: Effect, went_well: WentWell = succeeded) -> CallPath:
        """Return the path within the open attempt of a step.

        A retry of the step reuses the successful writes of its earlier attempts.
        """
        if self.step is None:
            return path
        # Attempt 1 keeps the plain path. The first attempt whose record is missing, or is a write
        # that went well, is where this call belongs: reads and failures are made again.
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
        """Return the recorded answer of a host call with its position, or None."""
        envelope = self.outcome(path)
        if envelope is None:
            return None
        if envelope.error is not None:
            return self.recorded(path, refusal=refusal_of(envelope.error))
        return self.recorded(path, _decode_bytes(envelope.output) if has_bytes else envelope.output)

    def outcome(self, path: CallPath) -> Envelope | None:
        """Return the recorded envelope of a call, or None. Raises BudgetExceeded."""
        settled = self._invocation.ledger.find(path)
        if settled is None:
            self._count_fresh()
        else:
            self.count(settled.envelope.output)
        if self._repeated is not None:
            self._repeated.add(path)
        return None if settled is None else settled.envelope

    def recorded(
        self, path: CallPath, value: Any = None, *, refusal: Refusal | None = None
    ) -> HostCallResult:
        """Return a recorded answer with its position and its time."""
        order, at_ms = self._invocation.ledger.task.records.delivered.get(path, (0, self.begins_ms))
        return HostCallResult(value=value, refusal=refusal, at_ms=at_ms, order=order)

    def settle(self, path: CallPath, name: str, value: Any) -> HostCallResult:
        """Record the result of a host call, and return it for delivery."""
        # Redacted first, so that a replay shows the script the same value as the first entry.
        now, value = self.now(), self._secrets.json(value)
        self.count(closed := _encode_bytes(value))
        self._write(path, name, Envelope.success(closed), now)
        return HostCallResult(value=value, at_ms=now)

    def settle_read(self, path: CallPath, name: str, value: Any) -> HostCallResult:
        """Record the result of a read, or refuse it if it exceeds the limit."""
        if self._bytes + _size(value) > self._invocation.edition.world.limits.recorded_bytes:
            return self.refuse(path, name, self._is_full())
        return self.settle(path, name, value)

    def count(self, output: Any) -> None:
        """Count the size of a recorded result. Over the limit, no new host call is accepted."""
        self._bytes += _size(output)

    def refuse(self, path: CallPath, name: str, error: CallError | TypeError) -> HostCallResult:
        """Record that a host call was refused."""
        now, detail = self.now(), redacted_error(detail_of(error), self._secrets)
        self._write(path, name, Envelope(Status.FAILED, error=detail), now)
        return HostCallResult(refusal=refusal_of(detail), at_ms=now)

    async def change(self, path: CallPath, name: str, change: Change) -> HostCallResult:
        """Record a host call and its change of a store in one transaction."""
        # The time is taken before the commit: it is part of the record.
        now = self.now()
        done = CallSettled(tool_id=name, envelope=Envelope.success(None), ran=False, clock_ms=now)
        made = await self._invocation.ledger.change(path, done, change)
        self.count(made.envelope.output)
        if made.envelope.error is not None:
            return HostCallResult(refusal=refusal_of(made.envelope.error), at_ms=now)
        return HostCallResult(value=made.envelope.output, at_ms=now)

    async def live(self, path: CallPath, work: Awaitable[HostCallResult]) -> HostCallResult:
        """Return the answer of `work` once every answer that settled before it is delivered."""
        # None until another answer must wait for this one: most calls need no future.
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
        """Return what the script's clock shows after a delivery now."""
        return self._invocation.edition.world.clock.now()

    def fresh(self, value: Any = None) -> HostCallResult:
        """Return an answer that is not recorded: each entry asks again."""
        return HostCallResult(value=value, at_ms=self.now())

    def note(self, path: CallPath, name: str, envelope: Envelope) -> int:
        """Record the envelope of a tool call, and return its clock value."""
        now = self.now()
        self._write(path, name, envelope, now)
        return now

    def _count_fresh(self) -> None:
        """Count a host call that is not recorded. Raises BudgetExceeded."""
        # From here on the script is beyond its record: its console lines are new, too.
        self.is_live = True
        self._fresh += 1
        limits = self._invocation.edition.world.limits
        if self.counted.total() + self._fresh > limits.host_calls:
            raise BudgetExceeded(
                f"one script made more than {limits.host_calls} host calls (limits.host_calls)"
            )
        if self._bytes > limits.recorded_bytes:
            raise self._is_full()

    def _is_full(self) -> BudgetExceeded:
        most = size_text(self._invocation.edition.world.limits.recorded_bytes)
        return BudgetExceeded(
            f"the results of one script's host calls are over {most} (limits.recorded_bytes): "
            "ask for less in one call, or fetch with record: false"
        )

    def _of_this_attempt(self) -> Iterator[tuple[CallPath, str]]:
        """Yield the path and name of each record directly below the call in this attempt."""
        parent, attempt = self._invocation.call.path, str(self._invocation.attempt)
        for path in self._invocation.ledger.task.settled:
            above, _, last = path.rpartition("/")
            if above == parent:
                name, _, rest = last.rpartition("#")
                marks = rest.split("~")
                if (marks[1] if len(marks) > 1 else "1") == attempt and name != CLOCK:
                    yield path, name

    def _version_path(self, number: int) -> CallPath:
        """Return the path under which the script's version after `number` changes is recorded."""
        return CallPath(f"{self._invocation.call.path}/{CLOCK}#{number}")

    def _compare_version(self) -> None:
        """Warn, once per change, if the script has changed since its last entry."""
        ledger, path = self._invocation.ledger, self._invocation.call.path
        number = ledger.task.records.notes.get((path, CHANGED), 0)
        last = ledger.find(self._version_path(number))
        if last is None or last.envelope.output in {self._version, None}:
            return
        message = "the script has changed since its last entry; the new version continues"
        self._invocation.note(NoteEmitted(event_type=CHANGED, message=message, level="warning"))
        version = Envelope.success(self._version)
        self._write(self._version_path(number + 1), CLOCK, version, self.begins_ms)

    def _write(self, path: CallPath, name: str, envelope: Envelope, clock_ms: int) -> None:
        self.mark_repeated(path)
        done = CallSettled(tool_id=name, envelope=envelope, ran=False, clock_ms=clock_ms)
        self._invocation.ledger.settle(path, done)

    def _earlier(self, path: CallPath) -> list["asyncio.Future[None]"]:
        """Return what settled before this call, and is not delivered yet."""
        delivered = self._invocation.ledger.task.records.delivered
        order = delivered.get(path, LAST)
        waiting_for = []
        # Backwards from the newest, and only to the newest tick that is known to be delivered: a
        # scan of the whole record would make a script with many host calls quadratic.
        for other in reversed(delivered):
            tick = delivered[other]
            if tick[0] <= self._delivered:
                break
            if tick < order and other in self._open:
                waiting_for.append(self._end_of(other))
        if not waiting_for and order is not LAST:
            self._delivered = max(self._delivered, order[0])
        return waiting_for

    def _end_of(self, path: CallPath) -> "asyncio.Future[None]":
        """Return a future that completes when an open call is delivered."""
        if (done := self._open[path]) is None:
            done = self._open[path] = asyncio.get_running_loop().create_future()
        return done


def refused(error: CallError | TypeError, at_ms: int) -> HostCallResult:
    """Return a refusal without recording it: the same arguments are refused in each entry."""
    return HostCallResult(refusal=refusal_of(detail_of(error)), at_ms=at_ms)


def detail_of(error: CallError | TypeError) -> ErrorDetail:
    """Return the error as the ledger stores it."""
    if isinstance(error, TypeError):
        return ErrorDetail(code=TYPE_ERROR, message=str(error))
    detail = error.envelope().error
    assert detail is not None  # noqa: S101  the envelope of an error has an error
    return detail


def refusal_of(detail: ErrorDetail) -> Refusal:
    """Return the error as the script sees it."""
    return Refusal(name=MISTAKE if detail.code == TYPE_ERROR else FLO_ERROR, detail=detail)


def _encode_bytes(value: Any) -> Any:
    """Return the value as JSON. Bytes may be the value itself or a direct member of it."""
    if isinstance(value, bytes):
        return {BYTES: base64.b64encode(value).decode()}
    if isinstance(value, dict) and any(isinstance(member, bytes) for member in value.values()):
        return {key: _encode_bytes(member) for key, member in value.items()}
    return value


def _size(value: Any) -> int:
    """Return roughly how many characters a value has as JSON, without encoding its bytes."""
    if isinstance(value, bytes):
        return 4 * len(value) // 3
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict) and any(map(_is_bytes, (value, *value.values()))):
        return sum(map(_size, value.values()))
    return len(compact(value))


def _is_bytes(value: Any) -> bool:
    return isinstance(value, bytes) or (isinstance(value, dict) and value.keys() == {BYTES})


def _decode_bytes(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value.keys() == {BYTES}:
        return base64.b64decode(value[BYTES])
    return {
        key: _decode_bytes(member) if _is_bytes(member) else member for key, member in value.items()
    }
