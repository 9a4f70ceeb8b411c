"""Small durable values of one task: of one tool in it, or of all.

A write is an event of the task (StateWritten), so it is stored and erased with the task; the newest
write of a key is its value. Reads and writes of a function are recorded as calls are: a function
that runs again after a crash reads what it read, and writes nothing twice.

Shown by tests/tools/tasks/test_task_values.py.
"""

from abc import abstractmethod
from typing import Any

from msgspec import Struct

from penstock.core.call import Effect
from penstock.core.clock import Clock, Moment
from penstock.core.envelope import Envelope
from penstock.core.events.events import StateWritten
from penstock.core.json_values.json_text import JSON_DEPTH, is_larger
from penstock.core.text import size_text
from penstock.engine.ledger import Ledger
from penstock.tools.invocation import Invocation
from penstock.tools.outputs import given_json, own_copy
from penstock.tools.redaction import check_key, check_value

MAX_SECONDS = 365 * 24 * 3600
KEY_CHARACTERS = 256
GET, PUT = "state.get", "state.put"


class AnyRevision:
    """Type of ALWAYS: the write replaces any value."""


ALWAYS = AnyRevision()
IfRevision = str | AnyRevision | None
"""The revision that a write may replace; None if there must be no value."""


class StateWrite(Struct, frozen=True):
    """The result of a write."""

    ok: bool
    revision: str | None = None
    """The revision of the current value: the new one, or the conflicting one."""


class TaskValues:
    """The values of one task, in a partition per tool."""

    __slots__ = ("_clock", "_ledger")

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    def find(self, partition: str, key: str) -> StateWritten | None:
        """Return the write of the current value (which may be null), or None if it has expired."""
        return self._ledger.value(partition, key, self._clock.now())

    def write(
        self, partition: str, key: str, value: Any, *, ttl: float | None, if_revision: IfRevision
    ) -> StateWritten | str | None:
        """Return the event that stores a value, or the conflicting revision (None: no value)."""
        current = self.find(partition, key)
        revision = None if current is None else str(current.revision)
        if not isinstance(if_revision, AnyRevision) and if_revision != revision:
            return revision
        # From the last write even if it has expired: a revision is never used again.
        last = self._ledger.task.records.values.get((partition, key))
        return StateWritten(
            tool_id=partition,
            key=key,
            value=value,
            revision=last.revision + 1 if last else 1,
            expires_at=None if ttl is None else Moment(self._clock.now() + round(1000 * ttl)),
        )


class RecordedReads:
    """Values of a tool, of which a function that runs again reads the same."""

    __slots__ = ("_invocation",)

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation

    async def get(self, key: str, default: Any = None) -> Any:
        """Return the value, or `default` if there is none or it has expired.

        Args:
            key: 1 to 256 characters.
            default: What to return instead.

        Raises:
            ValueError: The key is empty or too long.
        """
        check_state_key(key)
        invocation, name = self._invocation, self._name_of_reads
        path = invocation.place(name, {"key": key}, Effect.READ)
        settled = invocation.ledger.find(path)
        if settled is None:
            values = await self._read(key)
            settled = invocation.record(path, name, Envelope.success(values))
        values = settled.envelope.output
        return own_copy(values[0]) if values else default

    @property
    @abstractmethod
    def _name_of_reads(self) -> str:
        """The name of a read in the log."""

    @abstractmethod
    async def _read(self, key: str) -> list[Any]:
        """Return the value in a list, because null is a value; an empty list if there is none."""


class ToolState(RecordedReads):
    """A tool's values of one task. Each tool has a partition of its own.

    Reads and writes are recorded: a function that runs again reads the same values, and writes
    nothing twice.
    """

    __slots__ = ("_values",)

    def __init__(self, invocation: Invocation) -> None:
        super().__init__(invocation)
        self._values = TaskValues(invocation.ledger, invocation.edition.world.clock)

    @property
    def _name_of_reads(self) -> str:
        return GET

    async def _read(self, key: str) -> list[Any]:
        written = self._values.find(self._invocation.spec.tool_id, key)
        return [] if written is None else [written.value]

    async def put(
        self, key: str, value: Any, ttl: float | None = None, *, if_revision: IfRevision = ALWAYS
    ) -> StateWrite:
        """Store a value for `ttl` seconds, or as long as the task; None removes it.

        Args:
            key: 1 to 256 characters.
            value: JSON, at most `limits.state_value_bytes`.
            ttl: Seconds until it expires, 1 to a year; None means the end of the task.
            if_revision: Store it only over this revision, or with None only if there is no value.

        Returns:
            Whether it was stored, and the revision that is there now.

        Raises:
            ValueError: The key, the time or the size is out of bounds.
            TypeError: The value is not JSON.
            StateDenied: The key or the value contains a secret.
        """
        check_state_key(key)
        check_ttl(ttl)
        invocation, limits = self._invocation, self._invocation.edition.world.limits
        value = given_json(value, JSON_DEPTH, "the value")
        if is_larger(value, most := limits.state_value_bytes):
            raise ValueError(f"the value must have at most {size_text(most)} as JSON")
        expected = "" if isinstance(if_revision, AnyRevision) else [if_revision]
        check_key(invocation.caller.secrets, key)
        check_value(invocation.caller.secrets, value)
        shape = {"key": key, "value": value, "ttl": ttl, "if_revision": expected}
        path = invocation.place(PUT, shape, Effect.WRITE)
        settled = invocation.ledger.find(path)
        if settled is None:
            ends = 0 if value is None else ttl
            written = self._values.write(
                invocation.spec.tool_id, key, value, ttl=ends, if_revision=if_revision
            )
            output: list[Any] = [False, written]
            if isinstance(written, StateWritten):
                invocation.ledger.put(path, written)
                output = [True, str(written.revision)]
            settled = invocation.record(path, PUT, Envelope.success(output))
        return StateWrite(*settled.envelope.output)


def check_ttl(ttl: float | None) -> None:
    """Raise ValueError if the time is out of bounds."""
    if ttl is not None and not 1 <= ttl <= MAX_SECONDS:
        raise ValueError(f"ttl must be from 1 to {MAX_SECONDS} seconds, found {ttl}")


def check_state_key(key: str) -> None:
    """Raise ValueError if the key is empty or too long."""
    if not 1 <= len(key) <= KEY_CHARACTERS:
        raise ValueError(f"a key must have 1 to {KEY_CHARACTERS} characters, found {key!r}")
