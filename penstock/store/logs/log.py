"""The port of the event logs: append-only, with one leaseholder at a time.

A log belongs to one session or one run. Two kinds of writers append to it. The holder of its lease
runs the task and appends what happens in it. Everybody else (the HTTP API, other processes) sends
*outside events*, such as messages, answers and cancel requests; these need no lease.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct

from penstock.core.clock import Moment
from penstock.core.events.events import Entry, Record, ReplyReceived, ReplyRestarted, TaskEnded
from penstock.core.ids import LogId, TaskId
from penstock.store.logs.quarantine import QuarantinedLog

Listener = Callable[[Sequence[Record]], None]
"""Called on the event loop with the records that this process committed, in log order."""
FOLLOWED_SECONDS = 3
"""How long live text is written after its last reader in another process asked. Readers ask many
times in it, so a late one is not cut off; the writes for a reader that left end soon."""
OnWay = Callable[[LogId], None]


class Lease(Struct, frozen=True, kw_only=True):
    """The right to append to one log until it expires."""

    log_id: LogId
    epoch: int
    """Grows with every holder; writes with an older epoch are refused."""
    head: int
    """The number of the newest event when the lease was acquired."""
    crashed: bool = False
    """The previous holder did not release it."""
    recoveries: int = 0
    """How many holders in a row did not release it, and appended only REPEATED events."""
    alone: int = 0
    """How many of these deaths are blamed on this log alone."""
    is_started: bool = False
    """It was acquired with `begin`, so the task that was started then has not run yet."""


class PendingLog(Struct, frozen=True, kw_only=True):
    """A log that needs a run."""

    log_id: LogId
    profile_id: str
    wake_at: Moment
    """The earliest time of that run, in milliseconds."""


Followed = Callable[[LogId, int], None]
"""Called on the event loop with a followed log and its epoch, possibly repeatedly."""


class TextPosition(NamedTuple):
    """A position in the text of a log's replies: a reply, and a number of units in it."""

    base: int
    units: int


TEXT_START = TextPosition(-1, -1)
OUTPUT_UNITS = 2**62
"""The units of the piece with the typed output so far: it comes after all text of its reply."""
OUTPUT_KIND = "output"


ENDS_OF_REPLIES = frozenset({ReplyReceived, ReplyRestarted, TaskEnded})
"""The events that delete the pieces of a reply."""


class TextPiece(Struct, frozen=True, kw_only=True):
    """A part of one reply, of one kind; the first one is empty and marks the start.

    The text of one of the kind `OUTPUT_KIND` is the whole typed output so far, as JSON.
    """

    task_id: TaskId
    spot: TextPosition
    """The position of the piece."""
    iteration: int
    closing: bool
    kind: str
    text: str


class LiveText(Protocol):
    """Carries text of incomplete replies, which is in no event, from one process to others.

    Contract: only the holder of a log can `write`; a write with an old epoch changes nothing and
    raises nothing. Text is added, and a typed output replaces the one before in the same reply.
    Pieces exist until the event that completes or discards their reply, or ends its task, and are
    deleted with it. So a reader that reads the log first and the pieces second sees
    no text twice. A read of a log that another process holds makes that process write pieces for
    `FOLLOWED_SECONDS`; the holder is notified when it acquires or renews the lease.
    """

    def listen(self, listener: Followed) -> None:
        """Call the listener with each log of this process that another process follows."""
        ...

    def is_followed(self, log_id: LogId, epoch: int) -> bool:
        """Whether the log is held here in this epoch, and followed as far as this process knows."""
        ...

    async def write(self, log_id: LogId, epoch: int, pieces: Sequence[TextPiece]) -> None:
        """Store pieces for readers in other processes; existing text stays unchanged."""
        ...

    async def read(self, log_id: LogId, *, after: TextPosition = TEXT_START) -> Sequence[TextPiece]:
        """Follow a log of another process. Return its pieces after a position, in order."""
        ...


class StoredState(NamedTuple):
    """The state of a log after an event, as bytes that only the same code reads."""

    seq: int
    version: str
    """Of the code that folded the log."""
    body: bytes


class Snapshots(Protocol):
    """Keeps the newest snapshot of each log, from which a fold may continue.

    Contract: what is read was written, byte for byte, or nothing is returned. A snapshot is deleted
    with its log, and in the transaction that erases something in it. One that was taken before
    such an erasure is refused. Losing a snapshot costs time, never a guarantee.
    """

    async def read(self, log_id: LogId) -> StoredState | None:
        """Return the snapshot of a log; None if there is none, or if it is damaged."""
        ...

    async def write(self, log_id: LogId, snapshot: StoredState) -> bool:
        """Replace the snapshot of a log; return False if it was refused.

        Refused are snapshots of unknown logs, and those that an erasure or a newer one overtook.
        """
        ...


class Log(Protocol):
    """All events of all logs, and the leases to append to them.

    Contract: an awaited method returns after its result is on disk. `seq` numbers a log's events
    from 1 without gaps. Every operation of a holder whose epoch is not the current one raises
    LeaseLost. An outside event needs no lease; the holder receives it with its next `append`,
    `renew` or `release`. An event and the projections that follow from it are written together.
    """

    @property
    def live_text(self) -> LiveText:
        """The text of replies that are not complete yet."""
        ...

    @property
    def snapshots(self) -> Snapshots:
        """The newest snapshot of each log."""
        ...

    def listen(self, listener: Listener, *, of_holders: bool = True) -> None:
        """Call the listener with everything that this process commits.

        Without `of_holders`, leave out what holders `append`.
        """
        ...

    async def send(
        self,
        log_id: LogId,
        entries: Sequence[Entry],
        *,
        head: int | None = None,
        on_way: OnWay | None = None,
    ) -> Sequence[Record]:
        """Append outside events, and mark the log as needing a run. A new `log_id` creates a log.

        Args:
            log_id: The log to append to.
            entries: The outside events.
            head: The expected number of the newest event; None accepts any.
            on_way: Called with the log's id once the entries are submitted. Whatever it then
                requests from the log is executed after them.

        Raises (and writes nothing):
            SessionBusy: Too many tasks are queued; the log does not end at `head`; or a message is
                to be answered again while a task is active, or after it left the history.
            AlreadyAnswered, QuestionClosed: The question has an answer, or was withdrawn.
            TaskOver: The task has ended.
            NotFound: The log, task or question is unknown.
            NameTaken: The log or the task exists already.
        """
        ...

    async def begin(
        self, log_id: LogId, entries: Sequence[Entry], owner: str, *, head: int
    ) -> tuple[Lease, Sequence[Record]] | None:
        """Append outside events and the start of their task, and acquire the lease, atomically.

        The log must be free and end at `head` (0: it must not exist yet). Otherwise returns None
        and writes nothing. Raises what `send` raises.
        """
        ...

    async def acquire(self, log_id: LogId, owner: str) -> Lease | None:
        """Acquire the lease if it is free or expired, or its owner is dead on this host.

        Also returns None for a log in quarantine that has to wait for other suspects: see
        `store/logs/quarantine.py`.
        """
        ...

    async def suspects(self) -> Sequence[QuarantinedLog]:
        """Return the logs in quarantine: several processes in a row died while they held them."""
        ...

    def append(self, lease: Lease, entries: Sequence[Entry]) -> Awaitable[Sequence[Record]]:
        """Append as the holder. Return the outside events since the last append, then these.

        The entries are submitted by the call itself, before the result is awaited, so the order of
        calls is the order in the log. The change of an entry is applied with it, and its record
        contains the outcome. The end of a task also deletes the state and files of the task. Any
        number of tasks may await the result, or none; cancelling them does not stop the append.
        Raises LeaseLost, also if an earlier append failed.
        """
        ...

    async def renew(self, lease: Lease, *, after: int) -> Sequence[Record]:
        """Extend the lease. Return the outside events after `after`. Raises LeaseLost."""
        ...

    async def release(
        self, lease: Lease, *, head: int, wake_at: Moment | None = None
    ) -> Sequence[Record]:
        """Release the lease if the log still ends at `head`, and return nothing.

        If there are newer events, keep the lease and return them. A released log needs no run, or
        none before `wake_at` (milliseconds). Raises LeaseLost.
        """
        ...

    async def surrender(self, lease: Lease) -> None:
        """Release the lease while the log still needs a run. Never raises LeaseLost."""
        ...

    async def read(
        self,
        log_id: LogId,
        *,
        after: int = 0,
        limit: int | None = None,
        size: int | None = None,
    ) -> Sequence[Record]:
        """Return the events after `after`, at most `limit`; none for an unknown log.

        With a `size`, the result ends at or before the event whose body brings the sum to that many
        characters, so there may be more events. Raises StoreCorrupt if an event is missing, also at
        the end of the log, or cannot be decoded.
        """
        ...

    async def check(self, log_id: LogId, *, after: int, until: int) -> None:
        """Raise StoreCorrupt if an event after `after`, up to `until`, is missing.

        Does nothing for an unknown log. Reads no bodies.
        """
        ...

    async def head(self, log_id: LogId) -> int:
        """Return the number of the newest event, 0 for an unknown log."""
        ...

    async def erased(self, known: Mapping[LogId, int]) -> set[LogId]:
        """Return the logs that were deleted, or had text erased after the given event number."""
        ...

    async def pending(
        self, *, limit: int, among: Collection[LogId] | None = None
    ) -> Sequence[PendingLog]:
        """Return logs that need a run and whose lease is free or expired, soonest first.

        Counts deaths of owners on this host first; logs with counted deaths come last. Includes
        logs with a `wake_at` in the future, so that the caller knows when to look again. `among`
        restricts the result to these logs; None means all.
        """
        ...
