"""The host's side of one entry of a script: the Bridge, made of one Invocation."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from penstock.core.call_errors import BudgetExceeded, CallError, InvalidInput, NotAvailable
from penstock.core.events.events import NoteEmitted
from penstock.engine.suspend import withdraw
from penstock.sandbox.bridge import HostCallResult
from penstock.tools.invocation import Invocation
from penstock.tools.scripts.recording import Recording, refused
from penstock.tools.scripts.timestamps import format_timestamp

CALL_TOOL = "callTool"
CONSOLE, DIVERGED = "script.console", "script.diverged"
ERROR_LEVELS = {"warn": "warning", "warning": "warning", "error": "error"}
SYNCHRONOUS: dict[str, Callable[[Any], Any]] = {"time.formatUnixTimestamp": format_timestamp}

Answer = HostCallResult | Awaitable[HostCallResult]
HostCall = Callable[[Any], Answer]
"""Takes the arguments of one host call, as docs/scripts/bridge.md has them.

Raises TypeError and CallError for what is refused without a record.
"""


class Host:
    """Answers what one script asks, in one entry. It is the capability that the script holds."""

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
        notes = invocation.ledger.task.notes
        self._printed = notes.get((invocation.call.path, CONSOLE), 0)
        """Lines that earlier entries printed."""
        self._before = Counter(notes) if invocation.attempt > 1 else Counter()
        """What earlier attempts printed: in a further one the lines have other places."""

    @property
    def task(self) -> str:
        """Its entries take turns with those of other tasks."""
        return self._invocation.ledger.task.task_id

    @property
    def seed(self) -> bytes:
        """The same chance in every entry."""
        return self._invocation.ledger.seed(self._invocation.call.path)

    @property
    def begins_ms(self) -> int:
        """What the script's clock shows at first."""
        return self._recording.begins_ms

    def ask(self, name: str, arguments: Any) -> Answer:
        """Begin a host call."""
        self._asked += 1
        most = self._invocation.inside.world.limits.host_calls
        try:
            if self._asked > most:
                raise BudgetExceeded(f"one script asked its host more than {most} times")
            call = self._calls.get(name)
            if call is None:
                raise NotAvailable(f"flo.{name} is not available in this version")
            _check(name, arguments)
            self._recording.begin()
            return call(arguments)
        except (CallError, TypeError) as error:
            return refused(error, self._recording.now())

    def refuse(self, name: str, problem: str) -> HostCallResult:
        """Refuse a host call for its arguments; that of a tool settles with an envelope."""
        if name == CALL_TOOL:
            return self._recording.fresh(InvalidInput(problem).envelope().to_wire())
        return refused(TypeError(problem), self._recording.now())

    def answer(self, name: str, arguments: Any) -> HostCallResult:
        """Answer at once; nothing is recorded."""
        try:
            call = SYNCHRONOUS.get(name)
            if call is None:
                raise NotAvailable(f"flo.{name} is not available in this version")
            _check(name, arguments)
            return HostCallResult(value=call(arguments), at_ms=self._recording.begins_ms)
        except (CallError, TypeError) as error:
            return refused(error, self._recording.begins_ms)

    def print(self, level: str, text: str) -> None:
        """Take a line of the console: what an earlier entry printed is not printed again."""
        self._lines += 1
        text = self._invocation.caller.secrets.text(text)
        payload, severity = {"level": level, "text": text}, ERROR_LEVELS.get(level, "info")
        note = NoteEmitted(event_type=CONSOLE, payload=payload, level=severity)
        if not self._was_printed(note):
            self._invocation.note(note)

    def warn(self, event_type: str, message: str) -> None:
        """Note what the script's author should know."""
        said = self._invocation.caller.secrets.text(message)
        note = NoteEmitted(event_type=event_type, message=said, level="warning")
        self._invocation.note(note)

    def computed(self, ms: int) -> None:
        """Note how long the script computed: an entry that follows has the rest."""
        self._invocation.computed_ms = ms

    def close(self) -> None:
        """Give back what the entry holds, however it ended."""
        self._close()

    def end(self, *, returned: bool) -> None:
        """Close the questions that nobody waits for: the script is over.

        One that returned should have asked for all that its earlier entries did.
        """
        ledger, path = self._invocation.ledger, self._invocation.call.path
        withdraw(ledger.held, ledger.task, below=path)
        if returned and (unasked := self._recording.unasked()):
            said = ", ".join(sorted(set(unasked)))
            self.warn(DIVERGED, f"recorded before, and not asked for again: {said}")

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
