"""The virtual file trees of a task and of its conversation, on the blob store."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct
from sqlalchemy import Connection, select

from penstock.core.call_errors import is_directory, not_a_directory, tool_failure
from penstock.core.clock import Clock, Moment
from penstock.core.ids import BlobId
from penstock.core.limits import Limits
from penstock.core.state import FileChange, FileChanges, FilePath, Scope, ScopeKind, parents
from penstock.store.blobs.blobs import Blobs
from penstock.store.changes import Changes, of_scope, starts_with
from penstock.store.database import Database
from penstock.store.statements import Statements
from penstock.store.tables import files

MOST_CHILDREN = 1000


class File(Struct, frozen=True, kw_only=True):
    """A file of a workspace."""

    path: str
    blob_id: BlobId
    size: int
    modified_at: Moment


class DirectoryEntry(Struct, frozen=True):
    """What stands in a directory."""

    name: str
    file: File | None
    """None for a directory."""


class Files(Protocol):
    """Which bytes stand under which path of a scope.

    Contract: what a method reports is on disk; changes made together are all made or none is, also
    between processes. A path is a file, or a directory that has files below it, never both.
    """

    async def find(self, scope: Scope, path: str) -> File | None:
        """Return the file at a path."""
        ...

    async def below(self, scope: Scope, directory: str, *, most: int) -> Sequence[File]:
        """Return the files at any depth below a directory, in the order of their paths' bytes."""
        ...

    async def children(
        self, scope: Scope, directory: str, *, most: int
    ) -> Sequence[DirectoryEntry]:
        """Return what stands in a directory itself."""
        ...

    async def make(self, changes: FileChanges) -> None:
        """Make changes that no log records; raises ToolFailed with nothing changed.

        The changes of a call go with the record of the call instead: `Ledger.change`.
        """
        ...


class SqlFiles:
    """Files in the table of that name."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._changes = Changes(Statements(database.dialect), database.limits)

    async def find(self, scope: Scope, path: str) -> File | None:
        """Return the file at a path."""
        wanted = select(files).where(of_scope(files, scope), files.c.path == path.encode())
        row = await self._database.read(lambda each: each.execute(wanted).first())
        return None if row is None else _file(row)

    async def below(self, scope: Scope, directory: str, *, most: int) -> Sequence[File]:
        """Return the files at any depth below a directory, in the order of their paths' bytes."""
        own = (of_scope(files, scope), starts_with(files, inside(directory)))
        wanted = select(files).where(*own).order_by(files.c.path).limit(most)
        rows = await self._database.read(lambda each: each.execute(wanted).all())
        return [_file(row) for row in rows]

    async def children(
        self, scope: Scope, directory: str, *, most: int
    ) -> Sequence[DirectoryEntry]:
        """Return what stands in a directory itself."""
        prefix = inside(directory)
        own = (of_scope(files, scope), starts_with(files, prefix))
        first = select(files).where(*own).order_by(files.c.path).limit(1)

        def unit(connection: Connection) -> list[DirectoryEntry]:
            found: list[DirectoryEntry] = []
            row = connection.execute(first).first()
            while row is not None and len(found) < most:
                child = child_of(prefix, _file(row))
                found.append(child)
                # "0" comes after "/": what is below a directory is passed over
                after = f"{prefix}{child.name}" + ("" if child.file else "0")
                behind = after.encode() + (b"\0" if child.file else b"")
                row = connection.execute(first.where(files.c.path >= behind)).first()
            return found

        return await self._database.read(unit)

    async def make(self, changes: FileChanges) -> None:
        """Make changes that no log records."""
        at = self._clock.now()
        await self._database.write(lambda each: self._changes.make(each, changes, at))


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
        """Return whose tree a path stands in."""
        return self._owners[path.kind]

    async def exists(self, path: FilePath) -> bool:
        """Whether there is a file or a directory."""
        return await self._find(path) is not None or await self.is_directory(path)

    async def is_directory(self, path: FilePath) -> bool:
        """Whether the path is the root, or has files below it."""
        return not path.path or bool(await self._files.below(self.scope(path), path.path, most=1))

    async def file(self, path: FilePath) -> File:
        """Return the file at a path."""
        found = await self._find(path)
        if found is not None:
            return found
        if await self.is_directory(path):
            raise is_directory(str(path))
        for above in parents(path.path):
            if await self._files.find(self.scope(path), above) is not None:
                raise not_a_directory(above)
        raise tool_failure("not_found", f"there is no file {str(path)!r}")

    async def read(self, path: FilePath, *, most: int) -> bytes:
        """Return the bytes of a file, which may be at most so many."""
        found = await self.file(path)
        if found.size > most:
            raise tool_failure(
                "too_large", f"{str(path)!r} has {found.size} bytes, more than the {most} wanted"
            )
        return await self._blobs.get(found.blob_id)

    async def children(self, path: FilePath) -> tuple[Sequence[DirectoryEntry], bool]:
        """Return what stands in a directory, by name, and whether there is more of it."""
        await self._check_directory(path)
        most = MOST_CHILDREN + 1
        found = await self._files.children(self.scope(path), path.path, most=most)
        return sorted(found[:MOST_CHILDREN], key=lambda each: each.name), len(found) == most

    async def below(self, path: FilePath, *, most: int) -> Sequence[File]:
        """Return the files at any depth below a directory."""
        await self._check_directory(path)
        return await self._files.below(self.scope(path), path.path, most=most)

    async def write(self, path: FilePath, content: bytes, *, replaces: bool = True) -> FileChange:
        """Put the bytes away; returns the change that makes a file of them."""
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
        found = await self.file(source)
        return self._change(target, found.blob_id, found.size, replaces=replaces)

    def of_blob(self, path: FilePath, blob_id: BlobId, size: int) -> FileChange:
        """Return the change that makes a file of bytes which are stored already."""
        return self._change(path, blob_id, size, replaces=True)

    def remove(self, path: FilePath) -> FileChange:
        """Return the change that removes a file."""
        return self._change(path, None, 0, replaces=True)

    async def make(self, *changes: FileChange) -> None:
        """Make changes that no log records."""
        await self._files.make(FileChanges(files=changes))

    async def _find(self, path: FilePath) -> File | None:
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
    """Return what the paths below a directory begin with."""
    return f"{directory}/" if directory else ""


def child_of(prefix: str, file: File) -> DirectoryEntry:
    """Return what a file is to a directory above it."""
    name, _, further = file.path.removeprefix(prefix).partition("/")
    return DirectoryEntry(name, None if further else file)


def _file(row: Any) -> File:
    return File(
        path=bytes(row.path).decode(),
        blob_id=row.blob_id,
        size=row.size,
        modified_at=row.modified_at,
    )
