"""Files of workspaces in memory."""

from collections.abc import Sequence

from penstock.core.clock import Clock
from penstock.core.state.changes import FileChanges
from penstock.core.state.scope import Scope
from penstock.resources.workspace import DirectoryEntry, File, child_of, inside
from penstock.testing.changes import MemoryChanges


class MemoryFiles:
    """Files that change together with a MemoryLog."""

    def __init__(self, changes: MemoryChanges, clock: Clock) -> None:
        self._changes = changes
        self._clock = clock

    async def find(self, scope: Scope, path: str) -> File | None:
        """Return the file at a path."""
        return self._all(scope).get(path)

    async def below(self, scope: Scope, directory: str, *, most: int) -> Sequence[File]:
        """Return the files at any depth below a directory, in the order of their paths' bytes."""
        prefix = inside(directory)
        found = [each for path, each in self._all(scope).items() if path.startswith(prefix)]
        return sorted(found, key=lambda each: each.path.encode())[:most]

    async def children(
        self, scope: Scope, directory: str, *, most: int
    ) -> Sequence[DirectoryEntry]:
        """Return the direct children of a directory."""
        prefix = inside(directory)
        found = await self.below(scope, directory, most=len(self._all(scope)))
        children = {child.name: child for child in (child_of(prefix, each) for each in found)}
        return list(children.values())[:most]

    async def make(self, changes: FileChanges) -> None:
        """Apply changes without a log entry."""
        self._changes.make(changes, self._clock.now())

    def _all(self, scope: Scope) -> dict[str, File]:
        return {
            path: File(
                path=path, blob_id=kept.blob_id, size=kept.size, modified_at=kept.modified_at
            )
            for path, kept in self._changes.of(scope).files.items()
        }
