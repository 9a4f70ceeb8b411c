"""A value of the State, and what a change makes of it: the same rules wherever it is kept."""

import json
from typing import Any

from msgspec import Struct

from penstock.core.call_errors import ToolFailed
from penstock.core.clock import Moment, to_iso
from penstock.core.json_values.json_text import compact
from penstock.core.limits import Limits
from penstock.core.state import StateChange, StateVerb

TYPE_ERROR = "TYPE_ERROR"
"""The code of a change that does not fit what is there; a script sees a TypeError."""


class StateEntry(Struct, frozen=True, kw_only=True):
    """A value as it is kept."""

    key: str
    text: str
    """The value as JSON."""
    revision: str
    expires_at: Moment | None = None

    @property
    def value(self) -> Any:
        """The value."""
        return json.loads(self.text)

    def is_over(self, at: Moment) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and self.expires_at <= at

    def to_wire(self) -> dict[str, Any]:
        """Return it as scripts see it, without the value."""
        wire: dict[str, Any] = {"key": self.key, "revision": self.revision}
        if self.expires_at is not None:
            wire["expires_at"] = to_iso(self.expires_at)
        return wire


class StateOutcome(Struct, frozen=True, kw_only=True):
    """What a change comes to."""

    ok: bool
    entry: StateEntry | None = None
    """What is there now; None when nothing is."""
    conflict_revision: str | None = None
    """What was there instead of what was expected."""
    tells_value: bool = False
    """Whoever asked for the change cannot know the value without being told."""

    def to_wire(self) -> dict[str, Any]:
        """Return it as the log keeps it: nothing that whoever asked has in hand."""
        wire: dict[str, Any] = {"ok": self.ok}
        if self.entry is not None:
            wire["entry"] = self.entry.to_wire()
            if self.tells_value:
                wire["entry"]["value"] = self.entry.value
        if self.conflict_revision is not None:
            wire["conflict_revision"] = self.conflict_revision
        return wire


def changed(
    current: StateEntry | None, change: StateChange, at: Moment, limits: Limits
) -> StateOutcome:
    """Return what the change makes of what is there.

    Raises ToolFailed with TYPE_ERROR for a value that cannot be changed so, or becomes too large.
    """
    if current is not None and current.is_over(at):
        current = None
    revision = None if current is None else current.revision
    if change.expected and change.expected[0] != revision:
        told = None if _removes_nothing(change) else revision
        return StateOutcome(ok=False, conflict_revision=told)
    if change.verb is StateVerb.DELETE:
        return StateOutcome(ok=current is not None)
    text = _text(current, change)
    if len(text.encode()) > limits.state_value_bytes:
        raise ToolFailed(
            f"a value of the state has at most {limits.state_value_bytes} bytes as JSON,"
            f" {change.key!r} would have {len(text.encode())}",
            TYPE_ERROR,
        )
    entry = StateEntry(
        key=change.key,
        text=text,
        revision=change.revision,
        expires_at=_expires_at(current, change, at),
    )
    return StateOutcome(ok=True, entry=entry, tells_value=change.verb is not StateVerb.PUT)


def merge_patch(target: Any, patch: Any) -> Any:
    """Return what a merge patch (RFC 7386) makes of the target."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def _removes_nothing(change: StateChange) -> bool:
    return change.verb is StateVerb.DELETE and change.expected == (None,)


def _text(current: StateEntry | None, change: StateChange) -> str:
    """Return the new value as JSON: whatever it is, it must not break the append it is part of."""
    try:
        return compact(_value(current, change))
    except (RecursionError, TypeError, ValueError) as error:
        raise ToolFailed(
            f"the value under {change.key!r} is no JSON: {error}", TYPE_ERROR
        ) from None


def _value(current: StateEntry | None, change: StateChange) -> Any:
    if change.verb is StateVerb.PUT:
        return change.value
    if change.verb is StateVerb.PATCH:
        target = {} if current is None else current.value
        if not isinstance(target, dict):
            raise _unfit(change, "patch", "an object", target)
        return merge_patch(target, change.value)
    items = [] if current is None else current.value
    if not isinstance(items, list):
        raise _unfit(change, "append", "an array", items)
    return [*items, change.value]


def _unfit(change: StateChange, verb: str, wanted: str, found: Any) -> ToolFailed:
    kind = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    shown = "null" if found is None else kind.get(type(found), "a number")
    return ToolFailed(
        f"{verb} wants {wanted} under {change.key!r}, found {shown}; put replaces it", TYPE_ERROR
    )


def _expires_at(current: StateEntry | None, change: StateChange, at: Moment) -> Moment | None:
    if change.ttl_seconds is not None:
        return Moment(at + 1000 * change.ttl_seconds)
    if change.verb is StateVerb.PUT or current is None:
        return None
    return current.expires_at
