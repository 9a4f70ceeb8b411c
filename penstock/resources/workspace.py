"""Files on the blob store: the trees of a task and of its conversation, and media of a profile.

A row maps a path or an id to a blob. The bytes are stored first; the row is written in the same
transaction as the record of the call that makes it, so a crash in between leaves a blob without a
row, which `store` removes later, and never a row without its bytes.
Proof: tests/contracts/test_workspace.py, tests/contracts/test_media.py.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from penstock.core.call_errors import is_directory, not_a_directory, tool_failure
from penstock.core.clock import Moment
from penstock.core.ids import BlobId, ProfileId
from penstock.core.limits import Limits
from penstock.core.scopes import FilePath, Scope, ScopeKind, parents
from penstock.core.stored.changes import FileChange, MediaChange, WorkspaceChange
from penstock.store.blobs import Blobs

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
