"""Makes activations happen, wherever they run."""

from typing import Protocol

from penstock.core.clock import Moment
from penstock.core.ids import LogId


class Launcher(Protocol):
    """Makes activations happen.

    Contract: a log that needs a run gets one, also after a crash and without being told, or, of one
    that attends, if it was told; never two at once; `wake` may be called at any time and any number
    of times.
    """

    def wake(self, log_id: LogId, *, not_before: Moment | None = None) -> None:
        """See to it that the log is looked at soon, or then."""
        ...

    def is_blocked(self, log_id: LogId) -> bool:
        """Whether a log was left to others because something that it needs is missing here."""
        ...

    @property
    def is_at_work(self) -> bool:
        """Whether it was opened, was not closed, and still looks for logs that need a run."""
        ...

    async def open(self) -> None:
        """Begin to work, with what was left by those before."""
        ...

    async def attend(self) -> None:
        """Begin to work on what it is told of, and what that waits for: the rest is for others."""
        ...

    async def rest(self) -> None:
        """Return when nothing is at work here any more, and nothing waits for its turn."""
        ...

    async def close(self) -> None:
        """Take no new work, end what runs, and give every lease back."""
        ...
