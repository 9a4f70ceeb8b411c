"""Reports of replays: how far the task is the same, and the first difference."""

import json
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Literal

from msgspec import Struct, field

from penstock.core.envelope import Json
from penstock.core.json_values.json_text import canonical
from penstock.core.messages import NOTHING_SPENT, Usage

DifferenceKind = Literal[
    "prompt",
    "tools",
    "reply",
    "tool_input",
    "tool_missing",
    "permission",
    "output_schema",
    "code",
    "limit",
]
StopReason = Literal["difference", "end", "write", "until"]
SHOWN_CHARACTERS = 4000
"""A longer text is cut around the place where it differs."""
CHANGES = 20
"""Most single changes that a difference lists."""
_HASH_CHARACTERS = 16
_OCCURRENCE = re.compile(r"#[0-9a-f]{16}(?:\.(\d+))?")
_SUMMARY_CHARACTERS = 120


class ReplayChanges(Struct, frozen=True, kw_only=True):
    """Changes of the project as it is now, for a replay.

    Example:
        >>> from penstock import ReplayChanges
        >>> ReplayChanges(system_prompt="Be brief.").model is None
        True
    """

    system_prompt: str | None = None
    """Other instructions for the agent of the task."""
    model: str | None = None
    """The model that is asked with `live`, from the first request on."""
    settings: Json = field(default_factory=dict)
    """Settings of the agent of the task, such as `{"max_iterations": 3}`."""
    tools: Mapping[str, Json] = field(default_factory=dict)
    """Parts of specifications by tool, such as `{"pay": {"requires_approval": True}}`."""


NO_CHANGES = ReplayChanges()


class ReplayOptions(Struct, frozen=True, kw_only=True):
    """How a task is replayed."""

    changes: ReplayChanges = NO_CHANGES
    live: bool = False
    """Whether real models, and tools that only read, go on from the first difference."""
    until: int | None = None
    """The newest event to compare."""


class ValueChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One place in which two values differ.

    Example:
        >>> from penstock import ValueChange
        >>> ValueChange(pointer="/id", was="7", now=7).pointer
        '/id'
    """

    pointer: str
    """The place, as a JSON pointer; empty for the whole value."""
    was: Any = None
    """The recorded value; None if there was none."""
    now: Any = None
    """The value now; None if there is none."""
    character: int | None = None
    """The first character that differs, if both values are texts."""


class Difference(Struct, frozen=True, kw_only=True):
    """The first place at which a replay is not like its recorded task.

    Example:
        >>> from penstock import Difference
        >>> found = Difference(seq=9, path="task/2", kind="prompt", summary="the prompt changed")
        >>> found.kind, found.diff
        ('prompt', ())
    """

    seq: int
    """The recorded event with which it was compared."""
    path: str
    """The turn or the call, such as `task/3/fetch_order#1`."""
    kind: DifferenceKind
    """The kind of what differs."""
    summary: str
    """One line for people."""
    recorded: Any = None
    """The value of the log."""
    now: Any = None
    """The value now."""
    diff: tuple[ValueChange, ...] = ()
    """The single changes from `recorded` to `now`."""

    def to_wire(self) -> dict[str, Any]:
        """Return the difference as the JSON of the HTTP API."""
        return {
            "seq": self.seq,
            "path": self.path,
            "kind": self.kind,
            "summary": self.summary,
            "recorded": self.recorded,
            "now": self.now,
            "diff": [_wire_of(each) for each in self.diff],
        }


class ReplayReport(Struct, frozen=True, kw_only=True):
    """How far a task runs now as it was recorded.

    Example:
        >>> from penstock import ReplayReport
        >>> report = ReplayReport(task_id="task_1", total_events=9, compared_events=9)
        >>> report.equal, report.stopped
        (True, 'end')
    """

    task_id: str
    """The recorded task."""
    compared_events: int
    """How many recorded events came out the same."""
    total_events: int
    """How many events of the recorded task decide something, unlike the start of a write."""
    up_to_seq: int = 0
    """The newest event that came out the same."""
    stopped: StopReason = "end"
    """Why the replay ended."""
    difference: Difference | None = None
    """The first difference; None if there is none."""
    later: tuple[Difference, ...] = ()
    """With `live`, the replies and calls that differ after the first difference."""
    usage: Usage = NOTHING_SPENT
    """The price of real replies of models; nothing without `live`."""
    warnings: tuple[str, ...] = field(default_factory=tuple)
    """Parts that could not be compared, or that are missing and were not reached."""

    @property
    def equal(self) -> bool:
        """Whether nothing differs, as far as the replay went."""
        return self.difference is None

    def to_wire(self) -> dict[str, Any]:
        """Return the report as the JSON of the HTTP API and of `penstock replay --json`."""
        usage = self.usage
        wire: dict[str, Any] = {
            "taskId": self.task_id,
            "equal": self.equal,
            "comparedEvents": self.compared_events,
            "totalEvents": self.total_events,
            "upToSeq": self.up_to_seq,
            "stopped": self.stopped,
            "usage": {"modelCalls": usage.model_calls, "costUsd": usage.cost_usd or 0},
        }
        if self.difference is not None:
            wire["difference"] = self.difference.to_wire()
        if self.later:
            wire["later"] = [each.to_wire() for each in self.later]
        return {**wire, "warnings": list(self.warnings)}


def difference(
    kind: DifferenceKind,
    summary: str,
    *,
    seq: int,
    path: str,
    recorded: Any = None,
    now: Any = None,
) -> Difference:
    """Return a difference with its single changes, its long texts cut around them."""
    changes = []
    for change in _changes(recorded, now, ""):
        changes.append(change)
        if len(changes) == CHANGES:
            break
    places = {each.pointer: each.character or 0 for each in changes}
    return Difference(
        seq=seq,
        path=path,
        kind=kind,
        summary=summary,
        recorded=_cut(recorded, "", places),
        now=_cut(now, "", places),
        diff=tuple(map(_shortened, changes)),
    )


def shown_path(task_id: str, path: str, shown: str = "task") -> str:
    """Return a path for people: with another name of the task, and no hashes of inputs."""
    text = path.replace(task_id, shown, 1)
    return _OCCURRENCE.sub(lambda found: f"#{found[1] or 1}", text)


def short(value: Any) -> str:
    """Return a value on one short line."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text if len(text) <= _SUMMARY_CHARACTERS else text[: _SUMMARY_CHARACTERS - 1] + "…"


def hash_of(value: Any) -> str:
    """Return the beginning of the SHA-256 of a text, or of the canonical JSON of a value."""
    text = value if isinstance(value, str) else canonical(value)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARACTERS]


def _changes(was: Any, now: Any, pointer: str) -> Iterator[ValueChange]:
    if was == now and type(was) is type(now):
        return
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        for name in [*was, *(each for each in now if each not in was)]:
            yield from _changes(was.get(name), now.get(name), f"{pointer}/{_token(name)}")
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for place, (before, after) in enumerate(zip(was, now, strict=True)):
            yield from _changes(before, after, f"{pointer}/{place}")
    elif isinstance(was, str) and isinstance(now, str):
        place = next(
            (at for at, (a, b) in enumerate(zip(was, now, strict=False)) if a != b),
            min(len(was), len(now)),
        )
        yield ValueChange(pointer=pointer, was=was, now=now, character=place)
    else:
        yield ValueChange(pointer=pointer, was=was, now=now)


def _token(name: Any) -> str:
    return str(name).replace("~", "~0").replace("/", "~1")


def _cut(value: Any, pointer: str, places: Mapping[str, int]) -> Any:
    if isinstance(value, str):
        return around(value, places.get(pointer, 0), SHOWN_CHARACTERS)
    if isinstance(value, Mapping):
        return {
            name: _cut(each, f"{pointer}/{_token(name)}", places) for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_cut(each, f"{pointer}/{place}", places) for place, each in enumerate(value)]
    return value


def around(text: str, place: int, size: int) -> str:
    """Return at most about `size` characters of a text around a place."""
    if len(text) <= size:
        return text
    begin = max(min(place - size // 2, len(text) - size), 0)
    end = begin + size
    return ("…" if begin else "") + text[begin:end] + ("…" if end < len(text) else "")


def _shortened(change: ValueChange) -> ValueChange:
    place = change.character or 0
    size = _SUMMARY_CHARACTERS
    was, now = (
        around(each, place, size) if isinstance(each, str) else each
        for each in (change.was, change.now)
    )
    return ValueChange(pointer=change.pointer, was=was, now=now, character=change.character)


def _wire_of(change: ValueChange) -> dict[str, Any]:
    wire = {"pointer": change.pointer, "was": change.was, "is": change.now}
    return wire if change.character is None else {**wire, "character": change.character}
