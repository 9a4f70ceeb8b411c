"""The log: append-only, one holder at a time, and anyone from outside."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from penstock.core.clock import Moment
from penstock.core.events.events import Entry, Record
from penstock.core.ids import LogId
from penstock.store.logs.live_text import LiveText
from penstock.store.logs.quarantine import QuarantinedLog

Listener = Callable[[Sequence[Record]], None]
"""Called on the event loop with what was committed in this process, in the order of the log."""
OnWay = Callable[[LogId], None]


class Lease(Struct, frozen=True, kw_only=True):
    """The right to append to one log, for a while."""

    log_id: LogId
    epoch: int
    """Grows with every holder; an older one is refused."""
    head: int
    """The newest event when the lease was taken."""
    crashed: bool
    """The holder before this one did not give it back."""
    recoveries: int
    """How many holders in a row did not, and wrote nothing but REPEATED events."""
    alone: int = 0
    """How many of these deaths can be blamed on this log alone."""
    begun: bool = False
    """It was taken with `begin`: the task that was started then is still to be worked on."""


class PendingLog(Struct, frozen=True, kw_only=True):
    """A log that needs a run."""

    log_id: LogId
    profile_id: str
    wake_at: Moment
    """Not before then."""


class Log(Protocol):
    """Every event of every log, in order, and who may write them.

    Contract: what an awaited method reports is on disk. `seq` numbers a log's events from 1 without
    gaps. A holder whose epoch is not the current one is refused with LeaseLost, whatever it does.
    An outside event needs no lease; the holder learns of it with its next `append`, `renew` or
    `release`. The projections that follow from an event are written with it, or neither is.
    """

    @property
    def live_text(self) -> LiveText:
        """What replies on their way into the logs say."""
        ...

    def listen(self, listener: Listener) -> None:
        """Tell the listener about everything that this process commits."""
        ...

    async def send(
        self,
        log_id: LogId,
        entries: Sequence[Entry],
        *,
        head: int | None = None,
        on_way: OnWay | None = None,
    ) -> Sequence[Record]:
        """Append outside events, and mark the log as needing a run; a new `log_id` makes a new log.

        Raises what the entries run into, with nothing written: SessionBusy (too many tasks queued),
        AlreadyAnswered, QuestionClosed, TaskEnded, NotFound (an unknown log, task or question),
        NameTaken (the log or the task is there already). With a `head`, a log that ends elsewhere
        is refused as SessionBusy: what came meanwhile was not thought of. So is a message that is
        to be answered anew, while a task of the log goes on or once it has left the history.
        `on_way` is told the log's name when the entries are on their way: what it asks of the log
        comes after them.
        """
        ...

    async def begin(
        self, log_id: LogId, entries: Sequence[Entry], owner: str, *, head: int
    ) -> tuple[Lease, Sequence[Record]] | None:
        """Append outside events and the start of their task to a log, and take its lease, as one.

        The log is one that nobody holds and that ends at `head`, 0 for a new one; None when that is
        not how it stands, with nothing written. Raises what `send` raises.
        """
        ...

    async def acquire(self, log_id: LogId, owner: str) -> Lease | None:
        """Take the lease if it is free, run out, or its owner is dead on this host.

        None, too, for a log whose holders died again and again, while others like it are at work:
        see `store/logs/quarantine.py`.
        """
        ...

    async def suspects(self) -> Sequence[QuarantinedLog]:
        """Return the logs in quarantine: processes died again and again while they had them."""
        ...

    def append(self, lease: Lease, entries: Sequence[Entry]) -> Awaitable[Sequence[Record]]:
        """Append as the holder; returns these records after the outside events before them.

        The entries are taken over when this is called, so calls that are not awaited one by one
        keep their order. The change of an entry is made with it, and its record tells what became
        of that. With the end of a task goes what the task kept. What is returned may be awaited by
        several, and by none; who stops waiting stops nothing. Raises LeaseLost, also when an append
        before this one failed.
        """
        ...

    async def renew(self, lease: Lease, *, after: int) -> Sequence[Record]:
        """Keep the lease; returns the events after `after` that came from outside. Or LeaseLost."""
        ...

    async def release(
        self, lease: Lease, *, head: int, wake_at: Moment | None = None
    ) -> Sequence[Record]:
        """Give the lease back; returns nothing when done.

        If events came after `head` the lease stays, and they are returned instead. The log needs no
        run any more, or not before `wake_at`. Raises LeaseLost.
        """
        ...

    async def surrender(self, lease: Lease) -> None:
        """Give the lease back with work left to do; never raises LeaseLost."""
        ...

    async def read(
        self,
        log_id: LogId,
        *,
        after: int = 0,
        limit: int | None = None,
        size: int | None = None,
    ) -> Sequence[Record]:
        """Return the events after `after`, at most `limit`; an unknown log has none.

        With a `size` they end with the event at which their bodies come to so many characters, or
        before it: then there may be more. Raises StoreCorrupt where an event is missing, also
        behind the last one if the log should go on there, and where one does not read back.
        """
        ...

    async def check(self, log_id: LogId, *, after: int, until: int) -> None:
        """Raise StoreCorrupt if an event behind `after`, up to `until`, is missing.

        An unknown log lacks nothing. No body is read.
        """
        ...

    async def head(self, log_id: LogId) -> int:
        """Return the number of the newest event, 0 for an unknown log."""
        ...

    async def erased(self, known: Mapping[LogId, int]) -> set[LogId]:
        """Return which of these logs were deleted, or lost text after the event known of each."""
        ...

    async def pending(
        self, *, limit: int, among: Collection[LogId] | None = None
    ) -> Sequence[PendingLog]:
        """Return logs that need a run and whose lease is free or out, soonest first.

        Deaths of owners on this host are counted first, and the logs at which processes died come
        last. Those whose time has not come are there
        too, so that the caller knows when to look again.
        `among` names those that the caller asks about; None is all.
        """
        ...
