"""Subjects of a dispatcher: work that is due at times, and that one task at a time may lease.

A dispatcher belongs to a profile. `dispatched` applies one change to its shelf by the same rules in
the database and in tests; it checks everything before it writes, so a refused change writes
nothing. Guarantees: a subject has one lease at a time; a lease ends by itself, so the work of a
task that died is claimed again; a write needs the revision of the last one.

How: a shelf holds texts by key. `row/KEY` is a subject as JSON, `due/TIME/KEY` says when it can be
claimed next (its due time, or the end of its lease), and `meta` counts the subjects. So a claim is
a range of keys, however many subjects wait. Proof: tests/core/stored/test_subjects.py, and for each
database tests/contracts/test_subjects.py.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct

from penstock.core.call_errors import ToolFailed, quota
from penstock.core.clock import Moment, to_iso
from penstock.core.ids import TaskId
from penstock.core.json_values.json_text import compact, parse_json
from penstock.core.limits import Limits
from penstock.core.scopes import Scope

META = "meta"
MAX_BACKOFF_MS, BACKOFF_MS = 3_600_000, 60_000
_LATE = 10**15
"""No moment has more digits."""
_TIMES = ("next_due_at", "lease_expires_at", "last_started_at", "last_finished_at")
TIMES = (*_TIMES, "last_success_at", "created_at", "updated_at")
"""The members of a subject that are moments."""
Row = dict[str, Any]


class SubjectVerb(StrEnum):
    """How a change writes subjects."""

    SYNC = "syncSubjects"
    CLAIM = "claimDueSubjects"
    CHECKPOINT = "checkpointSubject"
    COMPLETE = "completeSubject"
    FAIL = "failSubject"
    RELEASE = "releaseSubject"


class SubjectChange(Struct, frozen=True, kw_only=True):
    """One write to the subjects of a dispatcher."""

    verb: SubjectVerb
    scope: Scope
    """The part of the profile that holds the dispatcher."""
    dispatcher_id: str
    task_id: TaskId
    """The task that gets, or has, the leases."""
    subjects: tuple[Mapping[str, Any], ...] = ()
    """For `sync`: `subject_key`, and `cursor`, `meta`, `next_due_at` where given."""
    subject_key: str = ""
    revision: int = 0
    """The revision that the caller knows."""
    limit: int = 0
    lease_ms: int | None = None
    given: Mapping[str, Any] = {}
    """The other members: `cursor`, `meta`, `next_due_at`, `retry_after_ms`, `error`."""


class SubjectOutcome(Struct, frozen=True):
    """The subjects after a change, as scripts see them."""

    body: Mapping[str, Any]

    def to_wire(self) -> dict[str, Any]:
        """Return the stored form."""
        return dict(self.body)


class Shelf(Protocol):
    """The texts of one dispatcher, locked for one change.

    Contract: `between` returns keys from `low` on and below `high`, in the order of their bytes.
    """

    def find(self, key: str) -> str | None:
        """Return the text under a key."""

    def put(self, key: str, text: str) -> None:
        """Store a text."""

    def drop(self, key: str) -> None:
        """Remove a text; nothing happens if there is none."""

    def between(self, low: str, high: str, limit: int) -> Sequence[str]:
        """Return the first keys of a range."""


def dispatched(change: SubjectChange, shelf: Shelf, at: Moment, limits: Limits) -> SubjectOutcome:
    """Apply a change. Raises ToolFailed: no_such_subject, not_leased, stale_revision, quota."""
    if change.verb is SubjectVerb.SYNC:
        return _sync(change, shelf, at, limits.dispatcher_subjects)
    if change.verb is SubjectVerb.CLAIM:
        return _claim(change, shelf, at)
    row = _leased(change, shelf)
    old = _slot(row)
    _WRITES[change.verb](row, change, at)
    _write(shelf, row, old, at)
    return SubjectOutcome(_wire(row))


def _sync(change: SubjectChange, shelf: Shelf, at: Moment, most: int) -> SubjectOutcome:
    found = {each["subject_key"]: _find(shelf, each["subject_key"]) for each in change.subjects}
    text = shelf.find(META)
    meta = {"subjects": 0, "created_at": at} if text is None else parse_json(text)
    count = meta["subjects"] + sum(row is None for row in found.values())
    if count > most:
        raise quota(
            f"the dispatcher {change.dispatcher_id!r} would have {count} subjects, of at most"
            f" {most} (limits.dispatcher_subjects)"
        )
    for given in change.subjects:
        key = given["subject_key"]
        row = found[key]
        if row is None:
            row = found[key] = _new(change.dispatcher_id, key, at)
            _take(row, given, "cursor", "meta", "next_due_at")
            _write(shelf, row, None, at)
        elif row["status"] not in _AT_WORK and len(given) > 1:
            old = _slot(row)
            _take(row, given, "cursor", "meta", "next_due_at")
            _write(shelf, row, old, at)
    meta |= {"subjects": count, "updated_at": at}
    shelf.put(META, compact(meta))
    times = {name: to_iso(Moment(meta[name])) for name in ("created_at", "updated_at")}
    about = {"dispatcher_id": change.dispatcher_id, "subject_count": count, **times}
    rows = [_wire(row) for row in found.values() if row is not None]
    return SubjectOutcome({"dispatcher": about, "subjects": rows})


def _claim(change: SubjectChange, shelf: Shelf, at: Moment) -> SubjectOutcome:
    claimed = []
    for place in shelf.between("due/", _due(Moment(at + 1), ""), change.limit):
        row = _find(shelf, place.split("/", 2)[2])
        assert row is not None  # noqa: S101  both keys are written together
        # A lease that is over: its task died or was too slow.
        row["consecutive_timeouts"] += row["status"] in _AT_WORK
        row |= {
            "status": "leased",
            "lease_owner_id": change.task_id,
            "lease_expires_at": at + (change.lease_ms or 0),
            "attempt": row["attempt"] + 1,
            "last_started_at": at,
        }
        _write(shelf, row, place, at)
        claimed.append(_wire(row))
    return SubjectOutcome({"subjects": claimed})


def _checkpoint(row: Row, change: SubjectChange, at: Moment) -> None:
    _take(row, change.given, "cursor", "meta")
    row["status"] = "running"
    if change.lease_ms is not None:
        row["lease_expires_at"] = at + change.lease_ms


def _complete(row: Row, change: SubjectChange, at: Moment) -> None:
    _take(row, change.given, "cursor", "meta")
    _end(row, "succeeded", at)
    row |= {"failure_count": 0, "consecutive_timeouts": 0, "last_success_at": at}
    row["next_due_at"] = change.given.get("next_due_at")


def _fail(row: Row, change: SubjectChange, at: Moment) -> None:
    given = change.given
    _take(row, given, "cursor", "meta")
    _end(row, "failed", at)
    row["failure_count"] += 1
    row["last_error"] = {"retryable": False, "continuable": True, **given["error"]}
    backoff = min(BACKOFF_MS * 2 ** min(row["failure_count"] - 1, 10), MAX_BACKOFF_MS)
    row["next_due_at"] = given.get("next_due_at", at + given.get("retry_after_ms", backoff))


def _release(row: Row, _: SubjectChange, __: Moment) -> None:
    row |= {"status": "idle", "attempt": row["attempt"] - 1}
    row["lease_owner_id"] = row["lease_expires_at"] = None


_AT_WORK = ("leased", "running")
_WRITES = {
    SubjectVerb.CHECKPOINT: _checkpoint,
    SubjectVerb.COMPLETE: _complete,
    SubjectVerb.FAIL: _fail,
    SubjectVerb.RELEASE: _release,
}


def _leased(change: SubjectChange, shelf: Shelf) -> Row:
    """Return the subject that the task leases, at the revision that it knows."""
    key = change.subject_key
    row = _find(shelf, key)
    if row is None:
        message = f"the dispatcher {change.dispatcher_id!r} has no subject {key!r}"
        raise ToolFailed(message, details={"reason": "no_such_subject"})
    if row["status"] not in _AT_WORK or row["lease_owner_id"] != change.task_id:
        message = f"this task has no lease of {key!r}: claim it first, or again if its lease ended"
        raise ToolFailed(message, details={"reason": "not_leased"})
    if row["revision"] != change.revision:
        details = {"reason": "stale_revision", "revision": row["revision"]}
        message = f"{key!r} has the revision {row['revision']}, not {change.revision}"
        raise ToolFailed(message, details=details)
    return row


def _new(dispatcher_id: str, key: str, at: Moment) -> Row:
    return {
        "dispatcher_id": dispatcher_id,
        "subject_key": key,
        "status": "idle",
        "next_due_at": at,
        "lease_owner_id": None,
        "lease_expires_at": None,
        "attempt": 0,
        "failure_count": 0,
        "consecutive_timeouts": 0,
        "revision": 0,
        "created_at": at,
    }


def _take(row: Row, given: Mapping[str, Any], *names: str) -> None:
    row.update((name, given[name]) for name in names if name in given)


def _end(row: Row, status: str, at: Moment) -> None:
    row |= {"status": status, "last_finished_at": at}
    row["lease_owner_id"] = row["lease_expires_at"] = None


def _write(shelf: Shelf, row: Row, old: str | None, at: Moment) -> None:
    """Store a subject, and the place at which it can be claimed next."""
    row |= {"revision": row["revision"] + 1, "updated_at": at}
    new = _slot(row)
    if old is not None and old != new:
        shelf.drop(old)
    if new is not None and old != new:
        shelf.put(new, "")
    shelf.put(f"row/{row['subject_key']}", compact(row))


def _slot(row: Row) -> str | None:
    """Return the key that says when a subject can be claimed; None if it is not due again."""
    name = "lease_expires_at" if row["status"] in _AT_WORK else "next_due_at"
    return None if row.get(name) is None else _due(row[name], row["subject_key"])


def _due(moment: Moment, key: str) -> str:
    return f"due/{min(max(moment, 0), _LATE - 1):015d}/{key}"


def _find(shelf: Shelf, key: str) -> Row | None:
    text = shelf.find(f"row/{key}")
    row: Row | None = None if text is None else parse_json(text)
    return row


def _wire(row: Row) -> dict[str, Any]:
    """Return a subject as scripts see it: without what it lacks, and with times as texts."""
    shown = {name: value for name, value in row.items() if value is not None}
    return shown | {name: to_iso(shown[name]) for name in TIMES if name in shown}
