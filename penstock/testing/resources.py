"""State, files, media and secrets in memory: the fakes of `penstock.resources`.

State, files and media change together with the log in memory. MemoryChanges guarantees what the SQL
store guarantees with a transaction: a change is applied as a whole or not at all, and the outcome
of the call that made it says which. `settle` applies the change before the entry is written; a
refused change turns the outcome into an error. Shown by tests/contracts, which run the same tests
against the SQL store.
"""

from collections.abc import Sequence
from typing import assert_never

from msgspec import Struct, field

from penstock.core.call_errors import CallError, is_directory, not_a_directory, quota, tool_failure
from penstock.core.clock import Clock, Moment
from penstock.core.events.events import CallSettled, Entry
from penstock.core.ids import BlobId, MediaId, ProfileId, TaskId
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
from penstock.core.stored.subjects import SubjectChange, dispatched
from penstock.resources.state import StatePage, page_of
from penstock.resources.vault import SecretListing, by_place, check_secret, not_there
from penstock.resources.workspace import DirectoryEntry, WorkspaceFile, child_of, inside
from penstock.store.values.changes import (
    Outcome,
    check_room,
    put_for,
    refused,
    replaced_file,
    with_outcome,
)


class FileEntry(Struct, frozen=True):
    """A file of a workspace."""

    blob_id: BlobId
    size: int
    modified_at: Moment


class ScopeContents(Struct):
    """The state and files of one scope."""

    state: dict[str, StateEntry] = field(default_factory=dict)
    files: dict[str, FileEntry] = field(default_factory=dict)


class MemoryChanges:
    """Applies changes, each as a whole or not at all."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.media: dict[MediaId, MediaChange] = {}
        self.given_up: list[BlobId] = []
        """Blobs of changes that were not applied."""
        self._scopes: dict[Scope, ScopeContents] = {}

    def contents(self, scope: Scope) -> ScopeContents:
        """Return the contents of a scope."""
        return self._scopes.setdefault(scope, ScopeContents())

    def settle(self, entry: Entry, at: Moment) -> Entry:
        """Apply the change of a call's outcome; return the entry to write."""
        change, event = entry.change, entry.event
        if change is None or not isinstance(event, CallSettled):
            return entry
        if event.envelope.ok:
            try:
                event = with_outcome(event, self.make(change, at, is_kept=True))
            except CallError as error:
                event = refused(event, error)
        if not event.envelope.ok:
            self.given_up += put_for(change)
        return Entry(event, entry.task_id, entry.path)

    def make(self, change: Change, at: Moment, *, is_kept: bool = False) -> Outcome | None:
        """Apply a change, or raise CallError and change nothing. Return what came of it."""
        match change:
            case StateChange():
                return self.make_state(change, at)
            case WorkspaceChange(files=files):
                before = {file.scope: dict(self.contents(file.scope).files) for file in files}
                try:
                    return tuple(self._change_file(file, at, is_kept=is_kept) for file in files)
                except CallError:
                    for scope, kept in before.items():
                        self.contents(scope).files = kept
                    raise
            case MediaChange():
                self.media[change.media_id] = change
                return None
            case SubjectChange(scope=scope):
                return dispatched(change, MemoryShelf(self.contents(scope).state), at, self.limits)
            case _:
                assert_never(change)

    def drop_task(self, task_id: TaskId) -> None:
        """Delete the state and files of a task's own scope."""
        for scope in list(self._scopes):
            if scope.kind is ScopeKind.TASK and scope.id.partition("/")[0] == task_id:
                del self._scopes[scope]

    def make_state(self, change: StateChange, at: Moment) -> StateOutcome:
        """Change one value, or raise ToolFailed and change nothing."""
        values = self.contents(change.scope).state
        current = values.get(change.key)
        outcome = changed(current, change, at, self.limits)
        if outcome.entry is not None:
            if current is None:
                self._make_room(change.scope, at)
            values[change.key] = outcome.entry
        elif current is not None and (outcome.ok or current.is_over(at)):
            del values[change.key]
        return outcome

    def _make_room(self, scope: Scope, at: Moment) -> None:
        values, most = self.contents(scope).state, self.limits.state_entries
        if len(values) < most:
            return
        for key in [key for key, entry in values.items() if entry.is_over(at)]:
            del values[key]
        if len(values) >= most:
            raise quota(f"the state of {scope} has {most} values, which is the limit: delete some")

    def _change_file(self, change: FileChange, at: Moment, *, is_kept: bool) -> Replaced:
        files = self.contents(change.scope).files
        old = files.get(change.path)
        replaced = replaced_file(change, None if old is None else old.blob_id)
        if change.blob_id is None and old is None:
            raise tool_failure("not_found", f"there is no file {change.path!r}")
        if change.blob_id is not None:
            self._check_file(change, files)
            used = sum(each.size for each in files.values()) - (old.size if old else 0)
            check_room(change, used, self.limits)
        if old is not None:
            del files[change.path]
            if is_kept and change.scope.kind is ScopeKind.SESSION:
                self._keep(change.scope.part(BEFORE), old, at)
        if change.blob_id is not None:
            files[change.path] = FileEntry(change.blob_id, change.size, at)
        return replaced

    def _keep(self, scope: Scope, old: FileEntry, at: Moment) -> None:
        """Keep the bytes of a replaced file for an undo, and release older ones in their favour."""
        if old.size > (most := self.limits.undo_bytes):
            return
        kept, name = self.contents(scope).files, name_of(old.blob_id)
        kept.pop(name, None)
        used = old.size + sum(each.size for each in kept.values())
        for oldest in list(kept) if used > most else ():
            if used <= most // 2:
                break
            used -= kept.pop(oldest).size
        kept[name] = FileEntry(old.blob_id, old.size, at)

    def _check_file(self, change: FileChange, files: dict[str, FileEntry]) -> None:
        for above in parents(change.path):
            if above in files:
                raise not_a_directory(above)
        if not change.path or any(each.startswith(f"{change.path}/") for each in files):
            raise is_directory(change.path)
        if change.path in files and not change.replaces:
            raise tool_failure("exists", f"there is a file {change.path!r} already")


class MemoryShelf:
    """The texts of one dispatcher in memory."""

    def __init__(self, values: dict[str, StateEntry]) -> None:
        self._values = values

    def find(self, key: str) -> str | None:
        """Return the text under a key."""
        entry = self._values.get(key)
        return None if entry is None else entry.text

    def put(self, key: str, text: str) -> None:
        """Store a text."""
        self._values[key] = StateEntry(key=key, text=text, revision="")

    def drop(self, key: str) -> None:
        """Remove a text."""
        self._values.pop(key, None)

    def between(self, low: str, high: str, limit: int) -> Sequence[str]:
        """Return the first keys of a range."""
        first, end = low.encode(), high.encode()
        inside = [key for key in self._values if first <= key.encode() < end]
        return sorted(inside, key=str.encode)[:limit]


class MemoryState:
    """State values that change together with a MemoryLog."""

    def __init__(self, changes: MemoryChanges, clock: Clock) -> None:
        self._changes = changes
        self._clock = clock

    async def find(self, scope: Scope, key: str) -> StateEntry | None:
        """Return the value under a key."""
        entry = self._changes.contents(scope).state.get(key)
        return None if entry is None or entry.is_over(self._clock.now()) else entry

    async def page(
        self, scope: Scope, prefix: str, *, limit: int = 100, cursor: str = ""
    ) -> StatePage:
        """Return values whose keys start with the prefix, after the cursor."""
        now, after = self._clock.now(), cursor.encode()
        entries = [
            entry
            for key, entry in self._changes.contents(scope).state.items()
            if key.startswith(prefix) and key.encode() > after and not entry.is_over(now)
        ]
        return page_of(sorted(entries, key=lambda entry: entry.key.encode()), limit)

    async def make(self, change: StateChange) -> StateOutcome:
        """Apply a change without a log entry."""
        return self._changes.make_state(change, self._clock.now())


class MemoryFiles:
    """Files that change together with a MemoryLog."""

    def __init__(self, changes: MemoryChanges, clock: Clock) -> None:
        self._changes = changes
        self._clock = clock

    async def find(self, scope: Scope, path: str) -> WorkspaceFile | None:
        """Return the file at a path."""
        return self._all(scope).get(path)

    async def below(self, scope: Scope, directory: str, *, most: int) -> Sequence[WorkspaceFile]:
        """Return the files at any depth below a directory, in the order of their paths' bytes."""
        prefix = inside(directory)
        files = [file for path, file in self._all(scope).items() if path.startswith(prefix)]
        return sorted(files, key=lambda file: file.path.encode())[:most]

    async def children(
        self, scope: Scope, directory: str, *, most: int
    ) -> Sequence[DirectoryEntry]:
        """Return the direct children of a directory."""
        prefix = inside(directory)
        files = await self.below(scope, directory, most=len(self._all(scope)))
        children = {child.name: child for child in (child_of(prefix, file) for file in files)}
        return list(children.values())[:most]

    async def make(self, changes: WorkspaceChange) -> None:
        """Apply changes without a log entry."""
        self._changes.make(changes, self._clock.now())

    def _all(self, scope: Scope) -> dict[str, WorkspaceFile]:
        return {
            path: WorkspaceFile(
                path=path, blob_id=kept.blob_id, size=kept.size, modified_at=kept.modified_at
            )
            for path, kept in self._changes.contents(scope).files.items()
        }


class MemoryMedia:
    """Media that were stored with the calls of a MemoryLog."""

    def __init__(self, changes: MemoryChanges, clock: Clock) -> None:
        self._changes = changes
        self._clock = clock

    async def find(self, media_id: str, profile_id: ProfileId) -> MediaChange | None:
        """Return the media file of a profile; None if it is unknown or expired."""
        media = self._changes.media.get(MediaId(media_id))
        if media is None or media.profile_id != profile_id:
            return None
        return media if media.expires_at > self._clock.now() else None

    async def find_blob(self, blob_id: BlobId, profile_id: ProfileId) -> MediaChange | None:
        """Return the media of a profile with these bytes that expires last; None for none."""
        own = [
            each
            for each in self._changes.media.values()
            if (each.blob_id, each.profile_id) == (blob_id, profile_id)
            and each.expires_at > self._clock.now()
        ]
        return max(own, key=lambda each: each.expires_at, default=None)

    async def keep(self, change: MediaChange) -> None:
        """Keep bytes that no call made, such as an upload."""
        self._changes.media[change.media_id] = change


class MemoryVault:
    """Secrets in plain text, for tests."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._secrets: dict[tuple[Scope, str], tuple[str, Moment]] = {}

    async def set(self, scope: Scope, key: str, value: str) -> None:
        """Store a secret; replace an existing one."""
        check_secret(scope, key, value)
        self._secrets[scope, key] = value, self._clock.now()

    async def get(self, scope: Scope, key: str) -> str:
        """Return a secret."""
        if (scope, key) not in self._secrets:
            raise not_there(scope, key)
        return self._secrets[scope, key][0]

    async def notes(self, scope: Scope | None = None) -> Sequence[SecretListing]:
        """Return the secrets without their values."""
        listings = [
            SecretListing(scope=owner, key=key, updated_at=at)
            for (owner, key), (_, at) in self._secrets.items()
            if scope in {None, owner}
        ]
        return sorted(listings, key=by_place)

    async def delete(self, scope: Scope, key: str) -> bool:
        """Delete a secret."""
        return self._secrets.pop((scope, key), None) is not None

    async def rotate(self) -> int:
        """Return the number of secrets. There is nothing to re-encrypt."""
        return len(self._secrets)
