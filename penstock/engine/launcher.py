"""The port for launchers, which start activations of logs that have work."""

from typing import Protocol

from penstock.core.clock import Moment
from penstock.core.ids import LogId


class Launcher(Protocol):
    """Starts activations.

    Contract: after `open`, every log that needs a run gets one, also without a `wake` and after a
    crash. After `attend`, only woken logs do. A log never runs twice at once. `wake` may be called
    at any time and any number of times.
    """

    def wake(self, log_id: LogId, *, not_before: Moment | None = None) -> None:
        """Run the log soon, or at `not_before`."""
        ...

    def is_blocked(self, log_id: LogId) -> bool:
        """Return whether the log's task needs something that this process lacks."""
        ...

    @property
    def is_at_work(self) -> bool:
        """Whether it is open and finds logs that need a run."""
        ...

    async def open(self) -> None:
        """Start, beginning with unfinished work of earlier processes."""
        ...

    async def attend(self) -> None:
        """Start, but work only on logs that are woken here and on the runs that they wait for."""
        ...

    async def rest(self) -> None:
        """Wait until no log is running or queued."""
        ...

    async def close(self) -> None:
        """Refuse new work, stop what runs, and release every lease."""
        ...
