"""How long a script may compute: asked at every epoch, in the thread that computes."""

from penstock.core.call_errors import Cancelled, ToolTimeout
from penstock.core.clock import Clock
from penstock.core.errors import PenstockError

SLICE = 0.03
"""Seconds that one step of a script may hold up the loop, before it is moved to a thread."""
TURN = 0.005
"""Seconds after which an entry lets others have the loop, wherever it can."""
IS_LONG = "slice"
"""Why a step is stopped that is to be computed in a thread instead."""


class EntryTimer:
    """The wall time and the computing time of one entry.

    Only what computes counts as computing: waiting for the host, or for a thread, does not.
    """

    def __init__(self, clock: Clock, seconds: float, cpu_ms: int, *, spent_ms: int = 0) -> None:
        self._clock = clock
        self._seconds = seconds
        self._deadline = clock.monotonic() + seconds
        self._cpu_ms = cpu_ms
        self._cpu_given = self._cpu_left = max(cpu_ms - spent_ms, 0) / 1000
        self._begun = 0.0
        self._is_sliced = False
        self._slice = SLICE
        self.ended: str | None = None
        """`cancelled` or `closed`; set from any thread, it stops the script at the next epoch."""

    @property
    def left(self) -> float:
        """Seconds of wall time."""
        return self._deadline - self._clock.monotonic()

    @property
    def computed_ms(self) -> int:
        """How long it has computed by now, in this entry."""
        return round(1000 * (self._cpu_given - self._cpu_left))

    @property
    def computing_left(self) -> float:
        """Seconds that a script which computes now may go on, by the wall or by computing."""
        now = self._clock.monotonic()
        return min(self._deadline - now, self._begun + self._cpu_left - now)

    @property
    def has_had_its_turn(self) -> bool:
        """Whether it computes for so long now that others should have the loop, if it has it."""
        return self._is_sliced and self._clock.monotonic() - self._begun >= TURN

    def begin(self, *, is_sliced: bool, crowd: int = 0) -> None:
        """Note that the script computes from now on, while so many others compute in threads."""
        self._begun = self._clock.monotonic()
        self._is_sliced = is_sliced
        # Where many are long the next is likely to be, and what it computes here is for nothing.
        self._slice = SLICE / (1 + crowd)

    def end(self) -> float:
        """Note that it has stopped; returns how long it computed."""
        took = self._clock.monotonic() - self._begun
        self._cpu_left -= took
        return took

    def forgive(self, seconds: float) -> None:
        """Give computing time back that was taken for others: it will be computed again."""
        self._cpu_left += seconds

    def alarm(self) -> str | None:
        """Return why the script must stop now, if it must."""
        now = self._clock.monotonic()
        if self.ended:
            return self.ended
        if now >= self._deadline:
            return "timeout"
        if now - self._begun >= self._cpu_left:
            return "cpu"
        return IS_LONG if self._is_sliced and now - self._begun >= self._slice else None

    def error(self, reason: str) -> PenstockError:
        """Return what a script that was stopped ends with."""
        if reason == "cpu":
            return ToolTimeout(
                f"the script computed for more than {self._cpu_ms} ms", details={"reason": "cpu"}
            )
        if reason == "queued":
            return ToolTimeout(
                f"the script waited {self._seconds:g} s for a process: as many as "
                "limits.processes allows are at work",
                details={"reason": "queued"},
            )
        if reason in {"cancelled", "closed"}:
            return Cancelled(f"the script was ended: {reason}")
        return ToolTimeout(f"the script took longer than {self._seconds:g} s")
