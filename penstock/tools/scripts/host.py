"""The host's side of one entry of a script: all that a script can reach of the runtime.

The sandbox calls `ask` (asynchronous), `answer` (synchronous) and `print`. It guarantees that a
script gets only the calls in its table, which `bridge_of` builds from the manifest, that at most
`limits.host_calls` are made per entry, and that a bad argument or a failure is a refusal inside
the script, never an exception in the host. Arguments are untrusted: a script may have replaced the
checks of its own world, so every call checks them again (`arguments`).

A console line or a warning that an earlier entry printed is not printed again: lines are counted in
the first attempt, and compared by content in later ones, where their positions may differ.

Proof: `tests/tools/scripts/test_host.py`.
"""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from penstock.core.call_errors import BudgetExceeded, CallError, InvalidInput, NotAvailable
from penstock.core.events.events import NoteEmitted
from penstock.engine.suspend import withdraw
from penstock.sandbox.bridge import HostCallResult
from penstock.tools.invocation import Invocation
from penstock.tools.scripts.arguments import text
from penstock.tools.scripts.recording import Recording, refused

_LETTERS = re.compile(r"YYYY|MM|DD|HH|mm|ss")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
"""No brackets inside: otherwise a pattern of a million `[` would take quadratic time."""
_WORDS = {
    "year": "YYYY",
    "month": "MM",
    "day": "DD",
    "hour": "HH",
    "minute": "mm",
    "second": "ss",
}
CALL_TOOL = "callTool"
CONSOLE, DIVERGED = "script.console", "script.diverged"
ERROR_LEVELS = {"warn": "warning", "warning": "warning", "error": "error"}


def format_timestamp(arguments: Any) -> str:
    """Format seconds since 1970 for `flo.time.formatUnixTimestamp`. Raises TypeError."""
    seconds = arguments.get("seconds")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds % 1:
        raise TypeError("seconds must be an integer")
    pattern, zone = text(arguments, "format"), text(arguments, "timezone")
    try:
        moment = datetime.fromtimestamp(int(seconds), UTC).astimezone(_zone(zone))
    except (OverflowError, OSError, ValueError):
        raise TypeError("seconds must be in the years 1 to 9999") from None
    parts = {
        "YYYY": f"{moment.year:04}",
        "MM": f"{moment.month:02}",
        "DD": f"{moment.day:02}",
        "HH": f"{moment.hour:02}",
        "mm": f"{moment.minute:02}",
        "ss": f"{moment.second:02}",
    }
    if "[" in pattern:
        return _BRACKETS.sub(lambda token: parts[_token(token[1])], pattern)
    return _LETTERS.sub(lambda token: parts[token[0]], pattern)


def _token(word: str) -> str:
    if word not in _WORDS:
        raise TypeError(f"unknown token [{word}]; known are {', '.join(_WORDS)}")
    return _WORDS[word]


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise TypeError(f"unknown time zone {name!r}") from None


SYNCHRONOUS: dict[str, Callable[[Any], Any]] = {"time.formatUnixTimestamp": format_timestamp}
Answer = HostCallResult | Awaitable[HostCallResult]
HostCall = Callable[[Any], Answer]
"""Takes the arguments of one host call, as docs/scripts/bridge.md describes them.

Raises TypeError and CallError for refusals that are not recorded.
"""


MAX_IN_FLIGHT = 64
"""How many tool calls, and how many HTTP requests, one script has in progress at once; further ones
are queued. Each request takes a connection, and all scripts share the process's descriptors."""


class Host:
    """Answers the host calls of one entry of a script."""

    def __init__(
        self,
        invocation: Invocation,
        recording: Recording,
        calls: Mapping[str, HostCall],
        *,
        close: Callable[[], None],
    ) -> None:
        self._invocation = invocation
        self._recording = recording
        self._calls = calls
        self._close = close
        self._asked = 0
        self._lines = 0
        notes = invocation.ledger.task.records.notes
        self._printed = notes.get((invocation.call.path, CONSOLE), 0)
        """How many lines earlier entries printed."""
        self._before = Counter(notes) if invocation.attempt > 1 else Counter()
        """Lines that earlier attempts printed, by content."""

    @property
    def task(self) -> str:
        """The task's id. The sandbox schedules scripts fairly between tasks."""
        return self._invocation.ledger.task.task_id

    @property
    def seed(self) -> bytes:
        """The seed of the script's randomness, the same in every entry."""
        return self._invocation.ledger.seed(self._invocation.call.path)

    @property
    def begins_ms(self) -> int:
        """The first time on the script's clock, in milliseconds since 1970."""
        return self._recording.begins_ms

    def ask(self, name: str, arguments: Any) -> Answer:
        """Start a host call."""
        self._asked += 1
        most = self._invocation.edition.world.limits.host_calls
        try:
            if self._asked > most:
                raise BudgetExceeded(
                    f"one script made more than {most} host calls (limits.host_calls)"
                )
            call = self._calls.get(name)
            if call is None:
                raise NotAvailable(f"flo.{name} is not available in this version")
            _check(name, arguments)
            self._recording.begin()
            return call(arguments)
        except (CallError, TypeError) as error:
            return refused(error, self._recording.now())

    def refuse(self, name: str, problem: str) -> HostCallResult:
        """Refuse a host call because of its arguments. A tool call gets an envelope instead."""
        if name == CALL_TOOL:
            return self._recording.fresh(InvalidInput(problem).envelope().to_wire())
        return refused(TypeError(problem), self._recording.now())

    def answer(self, name: str, arguments: Any) -> HostCallResult:
        """Answer a synchronous call. It is pure, so nothing is recorded."""
        try:
            call = SYNCHRONOUS.get(name)
            if call is None:
                raise NotAvailable(f"flo.{name} is not available in this version")
            _check(name, arguments)
            return HostCallResult(value=call(arguments), at_ms=self._recording.begins_ms)
        except (CallError, TypeError) as error:
            return refused(error, self._recording.begins_ms)

    def print(self, level: str, text: str) -> None:
        """Write a line of the console into the log, unless an earlier entry did."""
        self._lines += 1
        # Redacted before it is compared: an earlier entry stored the redacted line.
        text = self._invocation.caller.secrets.text(text)
        payload, severity = {"level": level, "text": text}, ERROR_LEVELS.get(level, "info")
        note = NoteEmitted(event_type=CONSOLE, payload=payload, level=severity)
        if not self._was_printed(note):
            self._invocation.note(note)

    def warn(self, event_type: str, message: str) -> None:
        """Write a warning for the script's author into the log."""
        shown = self._invocation.caller.secrets.text(message)
        note = NoteEmitted(event_type=event_type, message=shown, level="warning")
        self._invocation.note(note)

    def computed(self, ms: int) -> None:
        """Record the CPU milliseconds of this entry: the next entry gets the rest of the limit."""
        self._invocation.computed_ms = ms

    def close(self) -> None:
        """Release what the entry holds."""
        self._close()

    def end(self, *, returned: bool) -> None:
        """Withdraw the open questions of a script that has ended.

        A script that returned should have repeated all recorded host calls; otherwise it is warned.
        """
        ledger, path = self._invocation.ledger, self._invocation.call.path
        # A script may return while a question is open: `Promise.race` does not wait for the loser.
        withdraw(ledger.held, ledger.task, below=path)
        if returned and (unrepeated := self._recording.unrepeated()):
            names = ", ".join(sorted(set(unrepeated)))
            self.warn(DIVERGED, f"recorded in an earlier entry, but not requested again: {names}")

    def _was_printed(self, line: NoteEmitted) -> bool:
        if self._invocation.attempt == 1:
            return self._lines <= self._printed
        same = (self._invocation.call.path, line.line)
        if self._recording.is_live or not self._before[same]:
            return False
        self._before[same] -= 1
        return True


def _check(name: str, arguments: Any) -> None:
    if not isinstance(arguments, dict):
        raise TypeError(f"flo.{name} takes an object")
