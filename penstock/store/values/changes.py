"""Writes the changes that calls make to state, files and media, and deletes what owners had.

Guarantees: a change is written in the transaction that records its call, completely or not at all.
The sizes in `scopes` are those of the rows. Bytes that lose a reference are entered in
`loose_blobs` by the same transaction, so a crash leaves none behind.

How it works. A change first writes the row of its scope, which locks it: changes of one scope run
one after the other, so the checks of sizes and revisions hold until the commit. Several files are
one change, in a savepoint: if one is refused, none is written.

A file of a conversation that a call replaces stays for an undo, in a part of the scope that no
path leads to; over `limits.undo_bytes` the oldest are released. Its row protects the bytes.

Proof: tests/store/values/test_changes.py, tests/contracts/test_state.py, test_workspace.py and
test_subjects.py.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, assert_never

from msgspec.structs import asdict, replace
from sqlalchemy import ColumnElement, Connection, Row, Table, and_, func, or_, select, text, true
from sqlalchemy.engine.interfaces import DBAPICursor

from penstock.core.call_errors import (
    CallError,
    is_directory,
    not_a_directory,
    quota,
    tool_failure,
)
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope
from penstock.core.events.events import CallSettled, Entry
from penstock.core.ids import BlobId, LogId, ProfileId, TaskId
from penstock.core.json_values.json_text import compact
from penstock.core.limits import Limits
from penstock.core.scopes import Scope, ScopeKind, parents
from penstock.core.stored.changes import (
    BEFORE,
    Change,
    FileChange,
    MediaChange,
    Replaced,
    StateChange,
    StateEntry,
    StateOutcome,
    WorkspaceChange,
    changed,
    name_of,
)
from penstock.core.stored.subjects import SubjectChange, SubjectOutcome, dispatched
from penstock.store.statements import Statements
from penstock.store.tables import (
    files,
    idempotency,
    keys,
    media,
    schedules,
    scopes,
    secrets,
    sign_ins,
    state,
    tasks,
    web_links,
)
from penstock.store.values.shelf import SqlShelf

_LOOSEN = text(
    "INSERT INTO loose_blobs (blob_id, at) VALUES (:blob_id, :at) "
    "ON CONFLICT (blob_id) DO UPDATE SET at = excluded.at"
)


Outcome = StateOutcome | SubjectOutcome | tuple[Replaced, ...]
"""The result of a change for the call that made it; of files what they replaced."""


class Changes:
    """Writes changes; each completely or not at all."""

    def __init__(self, sql: Statements, limits: Limits) -> None:
        self._sql = sql
        self._limits = limits

    def settle(self, connection: Connection, entry: Entry, at: Moment) -> Entry:
        """Write the change of a call. Return the entry with the outcome of the change.

        The change of a failed call is not written. The bytes of a change that is not written are
        released.
        """
        change, event = entry.change, entry.event
        if change is None or not isinstance(event, CallSettled):
            return entry
        if event.envelope.ok:
            try:
                event = with_outcome(event, self.make(connection, change, at, is_kept=True))
            except CallError as error:
                event = refused(event, error)
        if not event.envelope.ok:
            loosen(connection, put_for(change), at)
        return Entry(event, entry.task_id, entry.path)

    def make(
        self, connection: Connection, change: Change, at: Moment, *, is_kept: bool = False
    ) -> Outcome | None:
        """Write a change, or raise CallError and change nothing. Return what came of it.

        `is_kept` keeps the files that it replaces.
        """
        match change:
            case StateChange():
                return self.make_state(connection, change, at)
            case WorkspaceChange(files=changes):
                # the transaction continues after a refused change, to record the refusal
                connection.exec_driver_sql("SAVEPOINT change")
                try:
                    return tuple(
                        self._change_file(connection, file, at, is_kept=is_kept) for file in changes
                    )
                except CallError:
                    connection.exec_driver_sql("ROLLBACK TO SAVEPOINT change")
                    raise
                finally:
                    connection.exec_driver_sql("RELEASE SAVEPOINT change")
            case MediaChange():
                keep_media(connection, change, at)
                return None
            case SubjectChange(scope=scope):
                cursor = connection.connection.cursor()
                self._take(cursor, scope)
                return dispatched(change, SqlShelf(self._sql, cursor, scope), at, self._limits)
            case _:
                assert_never(change)

    # ---- state ----

    def make_state(self, connection: Connection, change: StateChange, at: Moment) -> StateOutcome:
        """Change one value. Raises ToolFailed; then only the row of the scope exists."""
        cursor, sql = connection.connection.cursor(), self._sql
        owner = (change.scope.kind.value, change.scope.id)
        place = (*owner, change.key.encode())
        entries, _ = self._take(cursor, change.scope)
        cursor.execute(sql.value, place)
        row = cursor.fetchone()
        current = None if row is None else entry_at(change.key, row)
        outcome = changed(current, change, at, self._limits)
        new = outcome.entry
        if new is not None:
            values = (new.text, new.revision, new.expires_at, *place)
            if current is not None:
                cursor.execute(sql.set_value, values)
                return outcome
            if entries >= self._limits.state_entries:
                self._make_room(cursor, change.scope, at)
            cursor.execute(sql.add_value, values)
            cursor.execute(sql.count_scope, (1, 0, *owner))
        elif current is not None and (outcome.ok or current.is_over(at)):
            cursor.execute(sql.drop_value, place)
            cursor.execute(sql.count_scope, (-1, 0, *owner))
        return outcome

    def _take(self, cursor: DBAPICursor, scope: Scope) -> tuple[int, int]:
        """Lock the scope until the commit. Return its number of values and its bytes."""
        cursor.execute(self._sql.take_scope, (scope.kind.value, scope.id))
        entries, file_bytes = cursor.fetchone() or (0, 0)
        return int(entries), int(file_bytes)

    def _make_room(self, cursor: DBAPICursor, scope: Scope, at: Moment) -> None:
        """Delete expired values of a full scope. Raises ToolFailed if none has expired."""
        owner = (scope.kind.value, scope.id)
        cursor.execute(self._sql.drop_expired, (*owner, at))
        if not cursor.rowcount:
            most = self._limits.state_entries
            raise quota(f"the state of {scope} has {most} values, which is the limit: delete some")
        cursor.execute(self._sql.count_scope, (-cursor.rowcount, 0, *owner))

    # ---- files ----

    def _change_file(
        self, connection: Connection, change: FileChange, at: Moment, *, is_kept: bool
    ) -> Replaced:
        cursor, owner = connection.connection.cursor(), (change.scope.kind.value, change.scope.id)
        _, used = self._take(cursor, change.scope)
        here = and_(of_scope(files, change.scope), files.c.path == change.path.encode())
        old = connection.execute(select(files).where(here)).first()
        replaced = replaced_file(change, None if old is None else old.blob_id)
        if change.blob_id is None and old is None:
            raise tool_failure("not_found", f"there is no file {change.path!r}")
        if change.blob_id is not None:
            self._check_file(connection, change, is_there=old is not None)
            check_room(change, used - (old.size if old else 0), self._limits)
        if old is not None:
            connection.execute(files.delete().where(here))
            if not (is_kept and self._keep(connection, change.scope, old, at)):
                loosen(connection, [old.blob_id], at)
        if change.blob_id is not None:
            values = {
                "kind": change.scope.kind.value,
                "scope_id": change.scope.id,
                "path": change.path.encode(),
                "blob_id": change.blob_id,
                "size": change.size,
                "modified_at": at,
            }
            connection.execute(files.insert().values(values))
        more = (change.size if change.blob_id else 0) - (old.size if old else 0)
        cursor.execute(self._sql.count_scope, (0, more, *owner))
        return replaced

    def _keep(self, connection: Connection, scope: Scope, old: Row[Any], at: Moment) -> bool:
        """Keep the bytes of a replaced file for an undo, and release older ones in their favour."""
        most = self._limits.undo_bytes
        if scope.kind is not ScopeKind.SESSION or old.size > most:
            return False
        cursor, kept = connection.connection.cursor(), scope.part(BEFORE)
        _, used = self._take(cursor, kept)
        own, name = of_scope(files, kept), name_of(old.blob_id).encode()
        is_there = connection.execute(files.delete().where(own, files.c.path == name)).rowcount
        more = 0 if is_there else old.size
        oldest = select(files).where(own).order_by(files.c.modified_at, files.c.path)
        # down to half: the next ones then have room without reading all rows
        for row in connection.execute(oldest).all() if used + more > most else ():
            if used + more <= most // 2:
                break
            connection.execute(files.delete().where(own, files.c.path == row.path))
            loosen(connection, [row.blob_id], at)
            more -= row.size
        new = files.insert().values(kind=kept.kind.value, scope_id=kept.id, path=name)
        connection.execute(new.values(blob_id=old.blob_id, size=old.size, modified_at=at))
        cursor.execute(self._sql.count_scope, (0, more, kept.kind.value, kept.id))
        return True

    def _check_file(self, connection: Connection, change: FileChange, *, is_there: bool) -> None:
        above = [each.encode() for each in parents(change.path)]
        own = of_scope(files, change.scope)
        statement = select(files.c.path).where(own, files.c.path.in_(above)).limit(1)
        if above and (file := connection.execute(statement).scalar()) is not None:
            raise not_a_directory(bytes(file).decode())
        inside = select(files.c.path).where(own, starts_with(files, f"{change.path}/")).limit(1)
        if not change.path or connection.execute(inside).first() is not None:
            raise is_directory(change.path)
        if is_there and not change.replaces:
            raise tool_failure("exists", f"there is a file {change.path!r} already")


def keep_media(connection: Connection, change: MediaChange, at: Moment) -> None:
    """Add a medium; delete expired ones."""
    drop_expired(connection, at)
    connection.execute(media.insert().values(**asdict(change)))


def drop_expired(connection: Connection, at: Moment) -> None:
    """Delete expired media, and release their bytes."""
    over = media.delete().where(media.c.expires_at <= at).returning(media.c.blob_id)
    loosen(connection, connection.execute(over).scalars().all(), at)


def put_for(change: Change) -> Collection[BlobId]:
    """Return the blobs that a change names; the caller stored them before."""
    match change:
        case WorkspaceChange(files=files):
            return {each.blob_id for each in files if each.blob_id is not None}
        case MediaChange(blob_id=blob_id):
            return [blob_id]
        case StateChange() | SubjectChange():
            return []
        case _:
            assert_never(change)


def with_outcome(event: CallSettled, outcome: Outcome | None) -> CallSettled:
    """Return the record of a call whose change was written, with what it replaced."""
    if outcome is None:
        return event
    if isinstance(outcome, tuple):
        return replace(event, replaced=outcome)
    old = outcome.replaced if isinstance(outcome, StateOutcome) else None
    made = Envelope.success(outcome.to_wire())
    return replace(event, envelope=made, replaced=() if old is None else (old,))


def replaced_file(change: FileChange, current: BlobId | None) -> Replaced:
    """Return what a change of a file replaces. Raises ToolFailed if that is not as expected."""
    was = None if current is None else name_of(current)
    if change.expected and change.expected[0] != was:
        raise tool_failure("changed", f"the file {change.path!r} was changed since")
    left = None if change.blob_id is None else name_of(change.blob_id)
    return Replaced(scope=change.scope, name=change.path, is_file=True, left=left, was=was)


def refused(event: CallSettled, error: CallError) -> CallSettled:
    """Return the record of a call whose change was refused."""
    wire = {"error": str(error), "code": error.code, "details": error.details}
    context = None if event.context is None else compact(wire)
    blank = replace(event, preview=None, artifact_id=None, artifact_blob=None, files=())
    return replace(blank, envelope=error.envelope(), context=context, total_characters=None)


def check_room(change: FileChange, used: int, limits: Limits) -> None:
    """Raise ToolFailed if a file is too large, or does not fit into its scope."""
    if change.size > limits.file_bytes:
        raise tool_failure(
            "too_large", f"a file has at most {limits.file_bytes} bytes, this has {change.size}"
        )
    is_task = change.scope.kind is ScopeKind.TASK
    most = limits.task_bytes if is_task else limits.session_bytes
    if used + change.size > most:
        raise quota(
            f"the files of {change.scope} may have {most} bytes in all, and have {used}:"
            f" {change.path!r} with {change.size} does not fit"
        )


def drop_task(connection: Connection, task_id: TaskId, at: Moment) -> None:
    """Delete the state and files of a task, and release their bytes."""
    # not LIKE: the `_` of an id would be a wildcard
    parts = func.substr(scopes.c.scope_id, 1, len(task_id) + 1) == f"{task_id}/"
    of_task = and_(scopes.c.kind == ScopeKind.TASK.value, or_(scopes.c.scope_id == task_id, parts))
    drop_scopes(connection, of_task, at)


def drop_log(connection: Connection, log_id: LogId, at: Moment) -> None:
    """Delete the state and files of a conversation, and of its tasks that have not ended."""
    unended = select(tasks.c.task_id).where(tasks.c.log_id == log_id, tasks.c.ended_seq.is_(None))
    for task_id in connection.execute(unended).scalars().all():
        drop_task(connection, task_id, at)
    kind = ScopeKind.SESSION.value
    drop_scopes(connection, and_(scopes.c.kind == kind, scopes.c.scope_id == log_id), at)
    drop_kept(connection, log_id, at)


def drop_kept(connection: Connection, log_id: LogId, at: Moment) -> None:
    """Delete the replaced files that a conversation keeps for undos."""
    kept = Scope(ScopeKind.SESSION, log_id).part(BEFORE)
    drop_scopes(connection, and_(scopes.c.kind == kept.kind, scopes.c.scope_id == kept.id), at)


def drop_profile(profile_id: ProfileId, at: Moment, connection: Connection) -> None:
    """Delete what a profile has apart from its logs, and all keys and links that give access."""
    kind, part = ScopeKind.PROFILE.value, f"{profile_id}/"
    parts = func.substr(scopes.c.scope_id, 1, len(part)) == part
    own_scopes = or_(scopes.c.scope_id == profile_id, parts)
    drop_scopes(connection, and_(scopes.c.kind == kind, own_scopes), at)
    connection.execute(
        secrets.delete().where(of_scope(secrets, Scope(ScopeKind.PROFILE, profile_id)))
    )
    own = media.delete().where(media.c.profile_id == profile_id).returning(media.c.blob_id)
    loosen(connection, connection.execute(own).scalars().all(), at)
    mine = select(keys.c.sha256).where(keys.c.profile_id == profile_id)
    connection.execute(sign_ins.delete().where(sign_ins.c.key_sha256.in_(mine)))
    for table in (keys, web_links, idempotency, schedules):
        connection.execute(table.delete().where(table.c.profile_id == profile_id))


def drop_scopes(connection: Connection, condition: ColumnElement[bool], at: Moment) -> None:
    """Delete the scopes that match a condition, with their state and files."""
    gone = scopes.delete().where(condition).returning(scopes.c.kind, scopes.c.scope_id)
    for kind, scope_id in connection.execute(gone).all():
        scope = Scope(ScopeKind(kind), scope_id)
        connection.execute(state.delete().where(of_scope(state, scope)))
        mine = files.delete().where(of_scope(files, scope)).returning(files.c.blob_id)
        loosen(connection, connection.execute(mine).scalars().all(), at)


def of_scope(table: Table, scope: Scope) -> ColumnElement[bool]:
    """Return the condition that a row belongs to the scope."""
    return and_(table.c.kind == scope.kind.value, table.c.scope_id == scope.id)


def starts_with(table: Table, prefix: str) -> ColumnElement[bool]:
    """Return the condition that a key or path starts with a prefix, as a range of the index."""
    name = table.c.key if "key" in table.c else table.c.path
    low = prefix.encode()
    if not low:
        return true()
    return and_(name >= low, name < low[:-1] + bytes([low[-1] + 1]))


def entry_at(key: str, row: Sequence[Any]) -> StateEntry:
    """Return the entry of a key and its columns value, revision, expires_at."""
    text, revision, expires_at = row
    return StateEntry(key=key, text=text, revision=revision, expires_at=expires_at)


def entry_of(row: Any) -> StateEntry:
    """Return the entry of a row of `state`."""
    return StateEntry(
        key=bytes(row.key).decode(),
        text=row.value,
        revision=row.revision,
        expires_at=row.expires_at,
    )


def loosen(connection: Connection, blob_ids: Iterable[str], at: Moment) -> None:
    """Enter bytes for the sweeper, which deletes them when due if nothing else refers to them."""
    # sorted: two transactions that lock the same rows in another order would deadlock on Postgres
    if rows := [{"blob_id": each, "at": at} for each in sorted(blob_ids)]:
        connection.execute(_LOOSEN, rows)
