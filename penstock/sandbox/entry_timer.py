"""The time limits of one entry: wall time, computing time, and the slice on the event loop.

`alarm` is the one place that decides whether a running script must stop, and why. The engine calls
it at every epoch (about 5 ms), in the thread that computes, while the event loop may set `ended`.
No lock is needed: the computing side alone changes the rest, between `begin` and `end`, and `ended`
is a single assignment. Only time between `begin` and `end` counts as computing: waiting for the
host or for a thread does not. Proof: tests/sandbox/test_entry_timer.py.
"""

from penstock.core.call_errors import Cancelled, ToolTimeout
from penstock.core.clock import Clock
from penstock.core.errors import PenstockError

SLICE = 0.03
"""Seconds that one step of a script may hold up the event loop before it moves to a thread."""
TURN = 0.005
"""Seconds after which an entry yields the event loop at the next opportunity."""
IS_LONG = "slice"
"""The reason for which a step is stopped on the loop, to be computed in a thread."""


class EntryTimer:
    """The wall time and the computing time of one entry."""

    def __init__(self, clock: Clock, seconds: float, cpu_ms: int, *, spent_ms: int = 0) -> None:
        self._clock = clock
        self._seconds = seconds
        self._deadline = clock.monotonic() + seconds
        self._cpu_ms = cpu_ms
        self._cpu_given = self._cpu_left = max(cpu_ms - spent_ms, 0) / 1000
        self._began = 0.0
        self._is_sliced = False
        self._slice = SLICE
        self.ended: str | None = None
        """`cancelled` or `closed`. May be set from any thread; stops the script at the next epoch.
        """

    @property
    def left(self) -> float:
        """Seconds of wall time that are left."""
        return self._deadline - self._clock.monotonic()

    @property
    def computed_ms(self) -> int:
        """Computing time of this entry so far."""
        return round(1000 * (self._cpu_given - self._cpu_left))

    @property
    def computing_left(self) -> float:
        """Seconds until a script that computes now must stop, by wall or computing time."""
        now = self._clock.monotonic()
        return min(self._deadline - now, self._began + self._cpu_left - now)

    @property
    def has_had_its_turn(self) -> bool:
        """Whether a script on the event loop has computed so long that others should run."""
        return self._is_sliced and self._clock.monotonic() - self._began >= TURN

    def begin(self, *, is_sliced: bool, crowd: int = 0) -> None:
        """Record that the script computes from now on; `crowd` scripts compute in threads."""
        self._began = self._clock.monotonic()
        self._is_sliced = is_sliced
        # Where many scripts are long the next one probably is, too, and its slice is repeated in
        # a thread: so the slice shrinks with the crowd.
        self._slice = SLICE / (1 + crowd)

    def end(self) -> float:
        """Record that the script has stopped; return how many seconds it computed."""
        took = self._clock.monotonic() - self._began
        self._cpu_left -= took
        return took

    def forgive(self, seconds: float) -> None:
        """Return computing time for a step that another process repeats."""
        self._cpu_left += seconds

    def alarm(self) -> str | None:
        """Return the reason why the script must stop now, or None."""
        now = self._clock.monotonic()
        if self.ended:
            return self.ended
        if now >= self._deadline:
            return "timeout"
        if now - self._began >= self._cpu_left:
            return "cpu"
        return IS_LONG if self._is_sliced and now - self._began >= self._slice else None

    def error(self, reason: str) -> PenstockError:
        """Return the error of a script that was stopped for this reason."""
        if reason == "cpu":
            return ToolTimeout(
                f"the script computed for more than {self._cpu_ms} ms", details={"reason": "cpu"}
            )
        if reason == "queued":
            return ToolTimeout(
                f"the script waited {self._seconds:g} s for a process: all that "
                "limits.processes allows are busy",
                details={"reason": "queued"},
            )
        if reason in {"cancelled", "closed"}:
            return Cancelled(f"the script was ended: {reason}")
        return ToolTimeout(f"the script took longer than {self._seconds:g} s")
