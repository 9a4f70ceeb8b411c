"""Findings of `penstock doctor`, and those about a live database: leases, blobs, lists, clocks.

Each finding that is not fine says what to do. With `fixes`, what is safe beside a running server is
mended first, and the finding says so.
"""

from collections.abc import AsyncIterator
from enum import StrEnum

from msgspec import Struct

from penstock.core.clock import Clock
from penstock.core.text import count
from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.repair import MAX_NAMED, MAX_READ
from penstock.store.rows import REBUILD
from penstock.store.upkeep.contents import drifted
from penstock.store.upkeep.health import (
    LeaseProblem,
    StuckLease,
    collect_orphans,
    expire,
    orphans,
    skew,
    stuck_leases,
)
from penstock.store.upkeep.space import space_of

_TOLERATED_SECONDS = 1.0
"""Clocks that a network synchronises differ by less."""


class FindingLevel(StrEnum):
    """How serious a finding is."""

    FINE = "ok"
    NOTE = "note"
    WRONG = "wrong"


class Finding(Struct, frozen=True):
    """One line of the report."""

    mark: FindingLevel
    about: str
    text: str


async def upkeep_findings(
    database: Database, blobs: Blobs, clock: Clock, *, fixes: bool
) -> list[Finding]:
    """Return the findings about leases, blobs, lists, clocks and space."""
    parts = (
        _leases(database, clock, fixes=fixes),
        _orphans(database, blobs, clock, fixes=fixes),
        _drift(database, blobs),
        _clocks(database, clock),
        _space(database),
    )
    return [finding for part in parts async for finding in part]


async def _leases(database: Database, clock: Clock, *, fixes: bool) -> AsyncIterator[Finding]:
    stuck = await stuck_leases(database, clock)
    expired = await expire(database, clock, stuck) if fixes else ()
    for lease in stuck:
        if lease.log_id in expired:
            text = f"the lease of {lease.log_id}, which was not renewed, was ended"
            yield Finding(FindingLevel.FINE, "leases", text)
        else:
            yield Finding(FindingLevel.WRONG, "leases", _stuck(lease))
    if not stuck:
        yield Finding(FindingLevel.FINE, "leases", "no log waits for a process that is gone")


def _stuck(lease: StuckLease) -> str:
    if lease.problem is LeaseProblem.FUTURE:
        return (
            f"{lease.log_id} is held by {lease.owner} for {lease.seconds} s more, longer than any"
            " lease: the clock went back. End the lease if it is not renewed: penstock doctor --fix"
        )
    gone = "which has ended" if lease.is_dead else "which does not answer"
    if lease.problem is LeaseProblem.IDLE:
        return (
            f"the lease of {lease.log_id} ended {lease.seconds} s ago; {lease.owner} had it, {gone}"
            ". The log has no work, so no process takes it over. End it: penstock doctor --fix"
        )
    return (
        f"the lease of {lease.log_id} ended {lease.seconds} s ago; {lease.owner} had it, {gone}."
        " No process has taken the log over: start `penstock serve`"
    )


async def _orphans(
    database: Database, blobs: Blobs, clock: Clock, *, fixes: bool
) -> AsyncIterator[Finding]:
    if fixes and (number := await collect_orphans(database, blobs, clock)):
        text = f"{count(number, 'blob')} that no row names were deleted"
        yield Finding(FindingLevel.FINE, "blobs", text)
        return
    if found := await orphans(database, blobs, clock):
        named = ", ".join(sorted(found)[:3]) + (", …" if len(found) > 3 else "")  # noqa: PLR2004
        text = (
            f"{count(len(found), 'blob')} that no row names, older than a day: {named}. They only"
            " use space. Delete them: penstock doctor --fix"
        )
        yield Finding(FindingLevel.NOTE, "blobs", text)
        return
    yield Finding(FindingLevel.FINE, "blobs", "every blob older than a day is named by a row")


async def _drift(database: Database, blobs: Blobs) -> AsyncIterator[Finding]:
    """Fold the newest logs again; logs that cannot be read are reported elsewhere."""
    logs, found = await drifted(database, blobs, most_events=MAX_READ, skips_unreadable=True)
    for text in found[:MAX_NAMED]:
        yield Finding(FindingLevel.WRONG, "drift", f"{text}. {REBUILD}")
    if not found:
        text = f"the lists of {count(logs, 'log')} are what their events give"
        yield Finding(FindingLevel.FINE, "drift", text)


async def _clocks(database: Database, clock: Clock) -> AsyncIterator[Finding]:
    found = await skew(database, clock)
    is_fine = True
    if found.newest_event is not None and found.newest_event > _TOLERATED_SECONDS:
        is_fine = False
        text = (
            f"the newest event is {found.newest_event:.0f} s in the future: the clock of this"
            " machine went back, or another machine is ahead. Synchronise the clocks (NTP)"
        )
        yield Finding(FindingLevel.WRONG, "clock", text)
    if found.server is not None and abs(found.server) > _TOLERATED_SECONDS:
        is_fine = False
        ahead = "ahead of" if found.server > 0 else "behind"
        text = (
            f"Postgres is {abs(found.server):.1f} s {ahead} this machine; leases last"
            f" {database.limits.lease_seconds:g} s. Synchronise the clocks (NTP)"
        )
        yield Finding(FindingLevel.WRONG, "clock", text)
    if is_fine:
        yield Finding(FindingLevel.FINE, "clock", "this machine, the database and its events agree")


async def _space(database: Database) -> AsyncIterator[Finding]:
    space = await space_of(database)
    if space is not None and space.is_wasted:
        more = "" if space.is_incremental else " --rewrite"
        text = (
            f"{100 * space.free // space.pages} % of the file are free pages. A server returns"
            f" them by and by; at once: penstock compact{more}"
        )
        yield Finding(FindingLevel.NOTE, "space", text)
