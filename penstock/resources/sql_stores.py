"""The tables behind `Vault`, `State`, `Files` and `Media`.

What a method reports is committed. Changes that a call makes are not made here: they are part of
the record of the call (`Ledger.change`). Secrets are encrypted by `cipher.py`.

Nothing that declares agents and tools imports this file, so that they load without SQLAlchemy.
Proof: tests/resources/test_sql_stores.py, tests/contracts/test_vault.py, test_state.py,
test_workspace.py, test_media.py.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, or_, select

from penstock.core.call_errors import VaultNotFound
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError
from penstock.core.ids import BlobId, MediaId, ProfileId
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.stored.changes import (
    MediaChange,
    StateChange,
    StateEntry,
    StateOutcome,
    WorkspaceChange,
)
from penstock.resources.cipher import Cipher, Sealed
from penstock.resources.state import PAGE_ENTRIES, StatePage, page_of
from penstock.resources.vault import SecretListing, by_place, check_secret, may_be, not_there
from penstock.resources.workspace import DirectoryEntry, WorkspaceFile, child_of, inside
from penstock.store.database import Database
from penstock.store.statements import Statements
from penstock.store.tables import files, media, secrets, state
from penstock.store.values.changes import (
    Changes,
    entry_at,
    entry_of,
    keep_media,
    of_scope,
    starts_with,
)


class SqlVault:
    """Secrets in the table `secrets`."""

    def __init__(self, database: Database, cipher: Cipher, clock: Clock) -> None:
        self._database = database
        self._cipher = cipher
        self._clock = clock

    async def set(self, scope: Scope, key: str, value: str) -> None:
        """Store a secret, or replace it."""
        check_secret(scope, key, value)
        sealed = self._cipher.seal(value, scope, key)
        made = {"key_id": sealed.key_id, "sealed": sealed.sealed, "updated_at": self._clock.now()}
        here = _is(scope, key)
        place = {"kind": scope.kind.value, "scope_id": scope.id, "key": key}

        def unit(connection: Connection) -> None:
            if not connection.execute(secrets.update().where(here).values(made)).rowcount:
                connection.execute(secrets.insert().values({**place, **made}))

        await self._database.write(unit)

    async def get(self, scope: Scope, key: str) -> str:
        """Return a secret."""
        if not may_be(scope, key):
            raise not_there(scope, key)
        query = select(secrets).where(_is(scope, key))
        row = await self._database.read(lambda connection: connection.execute(query).first())
        if row is None:
            raise not_there(scope, key)
        value = self._cipher.open(Sealed(row.key_id, bytes(row.sealed)), scope, key)
        if value is None:
            raise VaultNotFound(f"the secret {key!r} of {scope} cannot be decrypted: set it again")
        return value

    async def notes(self, scope: Scope | None = None) -> Sequence[SecretListing]:
        """List the secrets."""
        query = select(secrets.c.kind, secrets.c.scope_id, secrets.c.key, secrets.c.updated_at)
        if scope is not None:
            if not may_be(scope):
                return []
            query = query.where(of_scope(secrets, scope))
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        listings = [
            SecretListing(
                scope=Scope(ScopeKind(row.kind), row.scope_id),
                key=row.key,
                updated_at=row.updated_at,
            )
            for row in rows
        ]
        return sorted(listings, key=by_place)

    async def delete(self, scope: Scope, key: str) -> bool:
        """Remove a secret."""
        if not may_be(scope, key):
            return False
        delete = secrets.delete().where(_is(scope, key))
        return bool(await self._database.write(lambda unit: unit.execute(delete).rowcount))

    async def rotate(self) -> int:
        """Encrypt all secrets with the first key, or none."""
        return await self._database.write(self._seal_again)

    def _seal_again(self, connection: Connection) -> int:
        rows = connection.execute(select(secrets).with_for_update()).all()
        for row in rows:
            scope = Scope(ScopeKind(row.kind), row.scope_id)
            value = self._cipher.open(Sealed(row.key_id, bytes(row.sealed)), scope, row.key)
            if value is None:
                raise ConfigError(
                    f"the secret {row.key!r} of {scope} cannot be decrypted with the present keys,"
                    " so nothing was changed: name its key in PENSTOCK_SECRET_KEY too"
                )
            sealed = self._cipher.seal(value, scope, row.key)
            made = {"key_id": sealed.key_id, "sealed": sealed.sealed}
            connection.execute(secrets.update().where(_is(scope, row.key)).values(made))
        return len(rows)


class SqlState:
    """Values in the table `state`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._sql = Statements(database.dialect)
        self._changes = Changes(self._sql, database.limits)

    async def find(self, scope: Scope, key: str) -> StateEntry | None:
        """Return the value under a key."""
        place = (scope.kind.value, scope.id, key.encode())
        row = await self._database.read(
            lambda each: each.exec_driver_sql(self._sql.value, place).first()
        )
        entry = None if row is None else entry_at(key, row)
        return None if entry is None or entry.is_over(self._clock.now()) else entry

    async def page(
        self, scope: Scope, prefix: str, *, limit: int = PAGE_ENTRIES, cursor: str = ""
    ) -> StatePage:
        """Return values whose keys start with `prefix`, after the cursor."""
        living = or_(state.c.expires_at.is_(None), state.c.expires_at > self._clock.now())
        own = (of_scope(state, scope), starts_with(state, prefix), state.c.key > cursor.encode())
        query = select(state).where(*own, living).order_by(state.c.key).limit(limit + 1)
        rows = await self._database.read(lambda each: each.execute(query).all())
        return page_of([entry_of(row) for row in rows], limit)

    async def make(self, change: StateChange) -> StateOutcome:
        """Make a change that no log records."""
        at = self._clock.now()

        def unit(connection: Connection) -> StateOutcome:
            return self._changes.make_state(connection, change, at)

        return await self._database.write(unit)


class SqlFiles:
    """`Files` in the table `files`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._changes = Changes(Statements(database.dialect), database.limits)

    async def find(self, scope: Scope, path: str) -> WorkspaceFile | None:
        """Return the file at a path."""
        query = select(files).where(of_scope(files, scope), files.c.path == path.encode())
        row = await self._database.read(lambda connection: connection.execute(query).first())
        return None if row is None else _file(row)

    async def below(self, scope: Scope, directory: str, *, most: int) -> Sequence[WorkspaceFile]:
        """Return the files at any depth below a directory, in the order of their paths' bytes."""
        prefix = inside(directory)
        query = select(files).where(of_scope(files, scope), starts_with(files, prefix))
        query = query.order_by(files.c.path).limit(most)
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        return [_file(row) for row in rows]

    async def children(
        self, scope: Scope, directory: str, *, most: int
    ) -> Sequence[DirectoryEntry]:
        """Return the entries of a directory itself."""
        prefix = inside(directory)
        first = select(files).where(of_scope(files, scope), starts_with(files, prefix))
        first = first.order_by(files.c.path).limit(1)

        def unit(connection: Connection) -> list[DirectoryEntry]:
            children: list[DirectoryEntry] = []
            row = connection.execute(first).first()
            while row is not None and len(children) < most:
                child = child_of(prefix, _file(row))
                children.append(child)
                # "0" is the character after "/": this skips everything below a directory
                after = f"{prefix}{child.name}" + ("" if child.file else "0")
                behind = after.encode() + (b"\0" if child.file else b"")
                row = connection.execute(first.where(files.c.path >= behind)).first()
            return children

        return await self._database.read(unit)

    async def make(self, changes: WorkspaceChange) -> None:
        """Make changes that no log records."""
        at = self._clock.now()
        await self._database.write(lambda unit: self._changes.make(unit, changes, at))


class SqlMedia:
    """`Media` in the table `media`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def find(self, media_id: str, profile_id: ProfileId) -> MediaChange | None:
        """Return the media of an id; None if it is unknown or expired."""
        return await self._find(media.c.media_id == media_id, profile_id)

    async def find_blob(self, blob_id: BlobId, profile_id: ProfileId) -> MediaChange | None:
        """Return the media of a profile with these bytes that expires last; None for none."""
        return await self._find(media.c.blob_id == blob_id, profile_id)

    async def keep(self, change: MediaChange) -> None:
        """Keep bytes that no call made, such as an upload."""
        now = self._clock.now()
        await self._database.write(lambda connection: keep_media(connection, change, now))

    async def _find(
        self, condition: ColumnElement[bool], profile_id: ProfileId
    ) -> MediaChange | None:
        mine = (media.c.profile_id == profile_id, media.c.expires_at > self._clock.now())
        query = select(media).where(condition, *mine).order_by(media.c.expires_at.desc()).limit(1)
        row = await self._database.read(lambda connection: connection.execute(query).first())
        if row is None:
            return None
        return MediaChange(
            media_id=MediaId(row.media_id),
            profile_id=profile_id,
            blob_id=row.blob_id,
            media_type=row.media_type,
            size=row.size,
            filename=row.filename,
            expires_at=row.expires_at,
        )


def _is(scope: Scope, key: str) -> ColumnElement[bool]:
    return and_(of_scope(secrets, scope), secrets.c.key == key)


def _file(row: Any) -> WorkspaceFile:
    return WorkspaceFile(
        path=bytes(row.path).decode(),
        blob_id=row.blob_id,
        size=row.size,
        modified_at=row.modified_at,
    )
