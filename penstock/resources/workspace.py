"""Files on the blob store: the trees of a task and of its conversation, and media of a profile.

A row maps a path or an id to a blob. The bytes are stored first; the row is written in the same
transaction as the record of the call that makes it, so a crash in between leaves a blob without a
row, which `store` removes later, and never a row without its bytes.
Proof: tests/contracts/test_workspace.py, tests/contracts/test_media.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, select

from penstock.core.call_errors import is_directory, not_a_directory, tool_failure
from penstock.core.clock import Clock, Moment
from penstock.core.ids import BlobId, MediaId, ProfileId
from penstock.core.limits import Limits
from penstock.core.scopes import FilePath, Scope, ScopeKind, parents
from penstock.core.stored_changes import FileChange, MediaChange, WorkspaceChange
from penstock.store.blobs import Blobs
from penstock.store.changes import Changes, keep_media, of_scope, starts_with
from penstock.store.database import Database
from penstock.store.statements import Statements
from penstock.store.tables import files, media

MAX_CHILDREN = 1000


class WorkspaceFile(Struct, frozen=True, kw_only=True):
    """A file of a workspace."""

    path: str
    blob_id: BlobId
    size: int
    modified_at: Moment


class DirectoryEntry(Struct, frozen=True):
    """An entry of a directory."""

    name: str
    file: WorkspaceFile | None
    """None for a directory."""


class Files(Protocol):
    """Which blob is the file at a path of a scope.

    Contract: what a method reports is on disk; changes made together are atomic, also across
    processes. A path is a file, or a directory that has files below it, never both.
    """

    async def find(self, scope: Scope, path: str) -> WorkspaceFile | None:
        """Return the file at a path."""
        ...

    async def below(self, scope: Scope, directory: str, *, most: int) -> Sequence[WorkspaceFile]:
        """Return the files at any depth below a directory, in the order of their paths' bytes."""
        ...

    async def children(
        self, scope: Scope, directory: str, *, most: int
    ) -> Sequence[DirectoryEntry]:
        """Return the entries of a directory itself."""
        ...

    async def make(self, changes: WorkspaceChange) -> None:
        """Make changes that no log records. Raises ToolFailed and then changes nothing.

        The changes of a call are part of its record instead: `Ledger.change`.
        """
        ...


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


class Workspace:
    """The two trees that a call sees. Failures are ToolFailed with a `reason`."""

    def __init__(
        self, files: Files, blobs: Blobs, owners: Mapping[ScopeKind, Scope], limits: Limits
    ) -> None:
        self._files = files
        self._blobs = blobs
        self._owners = owners
        self._limits = limits

    def scope(self, path: FilePath) -> Scope:
        """Return the scope that owns the tree of a path."""
        return self._owners[path.kind]

    async def exists(self, path: FilePath) -> bool:
        """Whether there is a file or a directory."""
        return await self._find(path) is not None or await self.is_directory(path)

    async def is_directory(self, path: FilePath) -> bool:
        """Whether the path is the root, or has files below it."""
        return not path.path or bool(await self._files.below(self.scope(path), path.path, most=1))

    async def file(self, path: FilePath) -> WorkspaceFile:
        """Return the file at a path."""
        file = await self._find(path)
        if file is not None:
            return file
        if await self.is_directory(path):
            raise is_directory(str(path))
        for above in parents(path.path):
            if await self._files.find(self.scope(path), above) is not None:
                raise not_a_directory(above)
        raise tool_failure("not_found", f"there is no file {str(path)!r}")

    async def read(self, path: FilePath, *, most: int) -> bytes:
        """Return the bytes of a file of at most `most` bytes."""
        file = await self.file(path)
        if file.size > most:
            raise tool_failure(
                "too_large", f"{str(path)!r} has {file.size} bytes; at most {most} are read"
            )
        return await self._blobs.get(file.blob_id)

    async def children(self, path: FilePath) -> tuple[Sequence[DirectoryEntry], bool]:
        """Return the entries of a directory, by name, and whether there are more."""
        await self._check_directory(path)
        most = MAX_CHILDREN + 1
        entries = await self._files.children(self.scope(path), path.path, most=most)
        return sorted(entries[:MAX_CHILDREN], key=lambda each: each.name), len(entries) == most

    async def below(self, path: FilePath, *, most: int) -> Sequence[WorkspaceFile]:
        """Return the files at any depth below a directory."""
        await self._check_directory(path)
        return await self._files.below(self.scope(path), path.path, most=most)

    async def write(self, path: FilePath, content: bytes, *, replaces: bool = True) -> FileChange:
        """Store the bytes, and return the change that makes them a file."""
        size = len(content)
        if size > self._limits.file_bytes:
            most = self._limits.file_bytes
            raise tool_failure(
                "too_large", f"a file has at most {most} bytes, {str(path)!r} has {size}"
            )
        blob_id = await self._blobs.put(content)
        return self._change(path, blob_id, size, replaces=replaces)

    async def copy(
        self, source: FilePath, target: FilePath, *, replaces: bool = True
    ) -> FileChange:
        """Return the change that makes a file with the bytes of another, of either tree."""
        file = await self.file(source)
        return self._change(target, file.blob_id, file.size, replaces=replaces)

    def of_blob(self, path: FilePath, blob_id: BlobId, size: int) -> FileChange:
        """Return the change that makes a stored blob a file."""
        return self._change(path, blob_id, size, replaces=True)

    def remove(self, path: FilePath) -> FileChange:
        """Return the change that removes a file."""
        return self._change(path, None, 0, replaces=True)

    async def make(self, *changes: FileChange) -> None:
        """Make changes that no log records."""
        await self._files.make(WorkspaceChange(files=changes))

    async def _find(self, path: FilePath) -> WorkspaceFile | None:
        return await self._files.find(self.scope(path), path.path)

    async def _check_directory(self, path: FilePath) -> None:
        if await self.is_directory(path):
            return
        if await self._find(path) is not None:
            raise not_a_directory(str(path))
        raise tool_failure("not_found", f"there is no directory {str(path)!r}")

    def _change(
        self, path: FilePath, blob_id: BlobId | None, size: int, *, replaces: bool
    ) -> FileChange:
        scope = self.scope(path)
        return FileChange(
            scope=scope, path=path.path, blob_id=blob_id, size=size, replaces=replaces
        )


def inside(directory: str) -> str:
    """Return the prefix of the paths below a directory."""
    return f"{directory}/" if directory else ""


def child_of(prefix: str, file: WorkspaceFile) -> DirectoryEntry:
    """Return the entry that leads to a file from a directory above it."""
    name, _, further = file.path.removeprefix(prefix).partition("/")
    return DirectoryEntry(name, None if further else file)


def _file(row: Any) -> WorkspaceFile:
    return WorkspaceFile(
        path=bytes(row.path).decode(),
        blob_id=row.blob_id,
        size=row.size,
        modified_at=row.modified_at,
    )


# ---- media ----


class Media(Protocol):
    """Blobs that profiles keep under ids for a while. A call makes one with a MediaChange.

    Contract: only the profile that made an id finds it, and only until it expires.
    """

    async def find(self, media_id: str, profile_id: ProfileId) -> MediaChange | None:
        """Return the media of an id; None if it is unknown or expired."""
        ...

    async def find_blob(self, blob_id: BlobId, profile_id: ProfileId) -> MediaChange | None:
        """Return the media of a profile with these bytes that expires last; None for none."""
        ...

    async def keep(self, change: MediaChange) -> None:
        """Keep bytes that no call made, such as an upload."""
        ...


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
