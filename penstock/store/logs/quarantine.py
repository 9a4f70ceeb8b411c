"""The rules that find a log whose work kills its process, and protect the other logs.

Guarantees: a log is blamed alone only if its process died while no other suspect was on probation
in it, so a task fails because of its own deaths and never because of its neighbours. Logs that were
never cut (held by a process that died) start at once, whatever else runs. A log is cleared as soon
as it gets past the position where its process died, ends or suspends.

How it works. The first process that finds leases of a dead process *buries* it: one transaction
counts the death for every log that it held. A log cut once resumes at once, because most deaths
have other causes. A log cut at the same position again is a *suspect* and resumes on probation.
Suspects run in groups of half the size of the group that died last (50, 25, 13, ... 1), so n
suspects need about log2(n) deaths, and innocent ones are cleared together, not one by one. While a
group is on probation, no other log with a counted death starts. Probation ends early for a log that
makes progress, else after twice the time that the process survived last time, so a long call delays
the others for a limited time.

Relies on: all logs of a dead process are found by its name, and a live process renews each lease
within two intervals. If the second fails, a group looks smaller than it was, and an innocent log
can be blamed alone; it takes `limits.recoveries` such deaths in a row to fail it.

Proof: tests/store/logs/test_quarantine.py (the rules, in simulated time), tests/chaos/test_blame.py
(real processes).
"""

from collections.abc import Collection, Sequence

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.clock import Moment
from penstock.core.ids import LogId
from penstock.core.limits import Limits

RENEWALS = 3
"""Renewals per duration of a lease, so that one of them may fail or be late. Each is a write: more
of them would load the database without need."""
MAX_PROBATION_SECONDS = 600
"""The longest probation. In between, it is twice the time that the process survived last."""


class LeaseHistory(Struct, frozen=True):
    """The owner of one log, and the deaths of its earlier owners."""

    log_id: LogId
    owner: str | None = None
    lease_until: int = 0
    is_stuck: bool = True
    """Its task has made no progress since the lease was acquired."""
    deaths: int = 0
    """How many processes in a row died at this position."""
    cohort: int = 0
    """How many logs the last death was blamed on."""
    alone: int = 0
    """How many deaths at this position were blamed on this log alone."""
    tried_at: int = 0
    """When the lease was last acquired, if processes died here before; milliseconds."""
    watch_ms: int = 0
    """The probation of the next holder, in milliseconds."""

    @property
    def is_cut(self) -> bool:
        """Whether processes died at its current position."""
        return self.deaths > 0 and self.is_stuck

    @property
    def watched_until(self) -> int:
        """When the probation of its holder ends."""
        return self.tried_at + self.watch_ms


class QuarantinedLog(Struct, frozen=True, kw_only=True):
    """A log in quarantine, as operators see it."""

    log_id: LogId
    deaths: int
    alone: int
    is_at_work: bool
    """A process holds it; else it waits until other suspects are cleared."""


SUSPECT = 2
"""Deaths in a row at one place after which a log is in quarantine."""


def suspect_of(log: LeaseHistory) -> QuarantinedLog:
    """Return the log in the form that operators see."""
    return QuarantinedLog(
        log_id=log.log_id,
        deaths=log.deaths,
        alone=log.alone,
        is_at_work=log.owner is not None,
    )


class Quarantine:
    """The rules of the quarantine, with the times from the limits."""

    def __init__(self, limits: Limits) -> None:
        self._lease_ms = round(1000 * limits.lease_seconds)
        self._spread_ms = round(2000 * limits.lease_seconds / RENEWALS)
        self._shortest = round(1000 * limits.probation_seconds)
        self._longest = max(self._shortest, round(1000 * MAX_PROBATION_SECONDS))

    def orphaned(
        self, log: LeaseHistory, held: Sequence[LeaseHistory], now: Moment, taker: str
    ) -> Sequence[LeaseHistory]:
        """Return the logs that were cut together with one whose lease expired, including itself.

        `held` are all logs of its owner, which is not known to be dead. Returns nothing while it is
        too early to decide whether the owner died or lost only this lease.
        """
        alive = [each for each in held if each.lease_until > now]
        if log.owner == taker:  # the taker is alive, so its other logs were not cut
            return [log]
        if not alive:
            return held
        # a live owner renews all its leases within two intervals: after that it lost only this one
        return [log] if now >= log.lease_until + self._spread_ms else []

    def buried(self, held: Collection[LeaseHistory]) -> list[LeaseHistory]:
        """Return the histories of all logs of a dead process, with its death counted."""
        stuck = [each for each in held if each.is_cut]
        first = [each for each in held if not each.is_cut]
        tried = [each for each in stuck if self._died_at(each) < each.watched_until]
        blamed = tried or ([] if first else stuck)
        after = [
            replace(
                each,
                deaths=1,
                cohort=len(first),
                alone=int(len(held) == 1),
                watch_ms=self._shortest,
            )
            for each in first
        ]
        for log in stuck:
            if log in blamed:
                alone = log.alone + (len(blamed) == 1)
                counted = replace(log, deaths=log.deaths + 1, cohort=len(blamed), alone=alone)
                after.append(replace(counted, watch_ms=self._watch_ms(log)))
            elif not tried:  # the process died after all probations: make them longer
                after.append(replace(log, watch_ms=self._watch_ms(log)))
            else:
                after.append(log)
        return [replace(each, owner=None, lease_until=0) for each in after]

    def admits(self, log: LeaseHistory, watched: Collection[LeaseHistory]) -> bool:
        """Whether a log with counted deaths may start next to the logs on probation now."""
        if not watched:
            return True
        if any(_group(each) != _group(log) for each in watched):
            return False
        return log.deaths == 1 or len(watched) < (log.cohort + 1) // 2

    def _died_at(self, log: LeaseHistory) -> int:
        """Return the last time at which its process was certainly alive, in milliseconds."""
        return log.lease_until - self._lease_ms

    def _watch_ms(self, log: LeaseHistory) -> int:
        age = max(0, self._died_at(log) - log.tried_at)
        return max(log.watch_ms, min(2 * age + self._shortest, self._longest))


def _group(log: LeaseHistory) -> tuple[int, int]:
    """Return a key that is equal for logs that run on probation together."""
    return (log.deaths, log.cohort if log.deaths > 1 else 0)
