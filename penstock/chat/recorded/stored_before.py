"""Puts back the values and files that a call replaced, unless somebody changed them since.

Guarantees: what was changed after the call is left as it is, and reported; several files of one
call are all put back, or none of them.

How: the outcome of a call says what it replaced (`CallSettled.replaced`). A value is put back with
its old revision, and a file with its old bytes, so that an earlier call of the same task finds what
it left. The change names what must be there now, and the store checks that in the transaction that
records it (decision 103). `checked` compares the same without a change, for a plan.

Shown by tests/chat/recorded/test_stored_before.py.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from penstock.core.clock import Clock
from penstock.core.events.events import CallSettled
from penstock.core.json_values.json_text import parse_json
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.stored.changes import (
    BEFORE,
    Change,
    FileChange,
    Replaced,
    StateChange,
    StateVerb,
    WorkspaceChange,
    name_of,
)
from penstock.resources.state import State
from penstock.resources.workspace import Files

PUT_BACK = "undo.putBack"
"""The name of the change in the log of an undo."""
CHANGED = "it was changed since by another call, and is left as it is"
TOO_LARGE = "the value that was there is too large to be kept for an undo"
NOT_KEPT = "the file that was there is not kept any more"
MOVED = "changed"
"""The reason of a change of a file that is not as expected."""
_SECOND = 1000
Seen = dict[tuple[Scope, str], str | None]
"""The revision of a value, or the name of the bytes of a file, that a place has."""


class StoredBefore:
    """Finds what can be put back, and the change that does it."""

    def __init__(self, state: State | None, files: Files | None, clock: Clock) -> None:
        self._state = state
        self._files = files
        self._clock = clock

    async def obstacle(self, replaced: Sequence[Replaced], seen: Seen) -> str:
        """Return why a call cannot be put back now; empty if it can.

        `seen` is what newer calls of the plan leave; it receives what this one leaves.
        """
        for each in replaced:
            place = (each.scope, each.name)
            there = seen[place] if place in seen else await self._now(each)
            if there != each.left:
                return CHANGED
        change = await self.change(replaced)
        if isinstance(change, str):
            return change
        seen.update({(each.scope, each.name): each.was for each in replaced})
        return ""

    async def _now(self, replaced: Replaced) -> str | None:
        if replaced.is_file:
            found = self._files and await self._files.find(replaced.scope, replaced.name)
            return name_of(found.blob_id) if found else None
        entry = self._state and await self._state.find(replaced.scope, replaced.name)
        return entry.revision if entry else None

    async def change(self, replaced: Sequence[Replaced]) -> Change | str:
        """Return the change that puts everything back, or why there is none."""
        value = replaced[0]
        if value.is_file:
            made = [await self._file(each) for each in replaced]
            files = [each for each in made if each is not None]
            return WorkspaceChange(files=tuple(files)) if len(files) == len(made) else NOT_KEPT
        change = StateChange(
            verb=StateVerb.DELETE,
            scope=value.scope,
            key=value.name,
            revision=value.was or "",
            expected=(value.left,),
        )
        left_ms = (value.expires_at or 0) - self._clock.now()
        if value.was is None or (value.expires_at is not None and left_ms < _SECOND):
            return change
        if value.text is None:
            return TOO_LARGE
        ttl = None if value.expires_at is None else left_ms // _SECOND
        old = parse_json(value.text)
        return replace(change, verb=StateVerb.PUT, value=old, ttl_seconds=ttl)

    async def _file(self, replaced: Replaced) -> FileChange | None:
        """Return the change that puts one file back; None if its bytes are not kept."""
        change = FileChange(
            scope=replaced.scope, path=replaced.name, blob_id=None, expected=(replaced.left,)
        )
        if replaced.was is None:
            return change
        if self._files is None:
            return None
        place = replaced.scope if replaced.was == replaced.left else replaced.scope.part(BEFORE)
        name = replaced.name if replaced.was == replaced.left else replaced.was
        kept = await self._files.find(place, name)
        return None if kept is None else replace(change, blob_id=kept.blob_id, size=kept.size)


def shown(replaced: Sequence[Replaced]) -> dict[str, object]:
    """Return where a call changed something, for people."""
    value = replaced[0]
    if not value.is_file:
        return {"scope": value.scope.kind.value, "key": value.name}
    paths = [f"{ScopeKind.SESSION}://{each.name}" for each in replaced]
    return {"path": paths[0]} if len(paths) == 1 else {"paths": paths}


def why_left(settled: CallSettled) -> str:
    """Return why a call was not put back; empty if it was, or if that failed for another reason."""
    envelope = settled.envelope
    if envelope.error is not None:
        details = envelope.error.details or {}
        return CHANGED if details.get("reason") == MOVED else ""
    made = envelope.output or {}
    return "" if made.get("ok", True) else str(made.get("reason", CHANGED))
