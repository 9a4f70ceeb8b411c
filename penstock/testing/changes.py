"""State, files and media in memory, changed together with the log in memory.

Guarantees what the SQL store guarantees with a transaction: a change is applied as a whole or not
at all, and the outcome of the call that made it says which. `settle` applies the change before the
entry is written; a refused change turns the outcome into an error.
"""

from typing import assert_never

from msgspec import Struct, field

from penstock.core.call_errors import CallError, is_directory, not_a_directory, quota, tool_failure
from penstock.core.clock import Moment
from penstock.core.events.events import CallSettled, Entry
from penstock.core.ids import BlobId, MediaId, TaskId
from penstock.core.limits import Limits
from penstock.core.state.changes import Change, FileChange, FileChanges, MediaChange, StateChange
from penstock.core.state.paths import parents
from penstock.core.state.scope import Scope, ScopeKind
from penstock.store.changes import check_room, put_for, refused, with_outcome
from penstock.store.state_entry import StateEntry, StateOutcome, changed


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

    def of(self, scope: Scope) -> ScopeContents:
        """Return the contents of a scope."""
        return self._scopes.setdefault(scope, ScopeContents())

    def settle(self, entry: Entry, at: Moment) -> Entry:
        """Apply the change of a call's outcome; return the entry to write."""
        change, event = entry.change, entry.event
        if change is None or not isinstance(event, CallSettled):
            return entry
        if event.envelope.ok:
            try:
                event = with_outcome(event, self.make(change, at))
            except CallError as error:
                event = refused(event, error)
        if not event.envelope.ok:
            self.given_up += put_for(change)
        return Entry(event, entry.task_id, entry.path)

    def make(self, change: Change, at: Moment) -> StateOutcome | None:
        """Apply a change, or raise CallError and change nothing."""
        match change:
            case StateChange():
                return self.make_state(change, at)
            case FileChanges(files=files):
                before = {each.scope: dict(self.of(each.scope).files) for each in files}
                try:
                    for file in files:
                        self._change_file(file, at)
                except CallError:
                    for scope, kept in before.items():
                        self.of(scope).files = kept
                    raise
                return None
            case MediaChange():
                self.media[change.media_id] = change
                return None
            case _:
                assert_never(change)

    def drop_task(self, task_id: TaskId) -> None:
        """Delete the state and files of a task's own scope."""
        for scope in list(self._scopes):
            if scope.kind is ScopeKind.TASK and scope.id.partition("/")[0] == task_id:
                del self._scopes[scope]

    def make_state(self, change: StateChange, at: Moment) -> StateOutcome:
        """Change one value, or raise ToolFailed and change nothing."""
        values = self.of(change.scope).state
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
        values, most = self.of(scope).state, self.limits.state_entries
        if len(values) < most:
            return
        for key in [key for key, entry in values.items() if entry.is_over(at)]:
            del values[key]
        if len(values) >= most:
            raise quota(f"the state of {scope} has {most} values, more may not be: delete some")

    def _change_file(self, change: FileChange, at: Moment) -> None:
        files = self.of(change.scope).files
        old = files.get(change.path)
        if change.blob_id is None:
            if old is None:
                raise tool_failure("not_found", f"there is no file {change.path!r}")
            del files[change.path]
            return
        self._check_file(change, files)
        used = sum(each.size for each in files.values()) - (old.size if old else 0)
        check_room(change, used, self.limits)
        files[change.path] = FileEntry(change.blob_id, change.size, at)

    def _check_file(self, change: FileChange, files: dict[str, FileEntry]) -> None:
        for above in parents(change.path):
            if above in files:
                raise not_a_directory(above)
        if not change.path or any(each.startswith(f"{change.path}/") for each in files):
            raise is_directory(change.path)
        if change.path in files and not change.replaces:
            raise tool_failure("exists", f"there is a file {change.path!r} already")
