"""The loop guard: stops equal calls, cycles of calls, and rounds that bring nothing new.

It sees every call that a model requests in one task, in order, before the invoker. Its verdict
depends only on calls and outcomes that come earlier in the log. So a task that resumes in another
process gets the same verdicts, without any state of the guard in the log (`turn` feeds it again).

Detectors: `identical` counts equal calls within the last `loop_window` admitted ones; `cycle`
compares the newest calls with blocks of 2 to 6 calls that ran twice before; `no_progress` blocks a
round after `loop_no_progress` rounds without a new result or a new write. Blocked calls do not
enter the window: otherwise one block would cause the next. The cost per call does not grow with the
task, apart from the sets of known results and writes.

Proof: `tests/agents/test_loop_guard.py::test_each_row_of_the_table`.
"""

from collections.abc import Collection, Sequence

from msgspec import Struct

from penstock.agents.agent import ChatSettings
from penstock.core.call import Effect, ToolCall
from penstock.core.events.events import CallSettled
from penstock.core.json_values.json_text import canonical

SUGGESTION = "Use the results you have, change the arguments, or answer now."
MAX_BLOCKED = 2
"""After this many blocked calls a task must answer."""
_MAX_CYCLE = 6
_REPETITIONS = 3


class Verdict(Struct, frozen=True):
    """Why a call does not run."""

    detector: str
    """`identical`, `cycle` or `no_progress`."""
    message: str


class LoopGuard:
    """Judges every call that a model requests in one task, in order."""

    __slots__ = (
        "_admitted",
        "_blocked_round",
        "_by_result",
        "_counts",
        "_exempt",
        "_keys",
        "_known",
        "_results",
        "_settings",
        "_stale",
        "_window",
        "_writes",
        "blocked",
    )

    def __init__(
        self, settings: ChatSettings, *, exempt: Collection[str] = (), by_result: bool = False
    ) -> None:
        self._settings = settings
        self._exempt = exempt
        """Ids of tools whose calls always pass."""
        self._by_result = by_result
        """Whether an equal call counts as a repetition only if it also had an equal result."""
        self._results: dict[str, str] = {}
        """The last result of each call, by its key."""
        self._window: list[str] = []
        self._counts: dict[str, int] = {}
        self._admitted: list[str] = []
        self._known: set[str] = set()
        """Results that the task has seen, as tool id and text."""
        self._writes: set[str] = set()
        """Keys of write calls that the task has seen."""
        self._stale = 0
        """Rounds in a row that brought nothing new."""
        self._blocked_round = False
        self._keys: list[str] = []
        """The keys of this round's calls, in order."""
        self.blocked = 0
        """How many calls of this task were blocked."""

    def begin_round(self) -> None:
        """Start with the calls of a new reply."""
        self._keys = []
        limit = self._settings.loop_no_progress
        self._blocked_round = bool(limit) and self._stale >= limit
        # Blocked once, the model gets as many rounds again to find something new.
        if self._blocked_round:
            self._stale = 0

    def judge(self, call: ToolCall, arguments: str) -> Verdict | None:
        """Return why the call is blocked, or count it and return None; see `spelling`."""
        key = f"{call.name}\n{arguments}"
        self._keys.append(key)
        # The key of an exempt call is kept too: `end_round` pairs keys and outcomes by position.
        if call.name in self._exempt:
            return None
        verdict = self._no_progress(call) or self._identical(call, key) or self._cycle(call, key)
        if verdict is not None:
            self.blocked += 1
            return verdict
        self._admit(key)
        return None

    def end_round(
        self, calls: Sequence[ToolCall], settled: Sequence[CallSettled], effects: Sequence[Effect]
    ) -> None:
        """Compare the outcomes of a reply's calls with what the task has seen."""
        if self._by_result:
            self._compare(calls, settled)
        if not self._settings.loop_no_progress:
            return
        fresh = seen = False
        for call, key, outcome, effect in zip(calls, self._keys, settled, effects, strict=True):
            # A blocked call has no result of its own: a round of only those is neither fresh nor
            # stale.
            if outcome.detector is not None:
                continue
            seen = True
            result = _result(call.name, outcome)
            if result not in self._known:
                self._known.add(result)
                fresh = True
            if effect is Effect.WRITE and key not in self._writes:
                self._writes.add(key)
                fresh = True
        if seen:
            self._stale = 0 if fresh else self._stale + 1

    def _compare(self, calls: Sequence[ToolCall], settled: Sequence[CallSettled]) -> None:
        """Forget earlier repetitions of calls whose result is different this time."""
        for call, key, outcome in zip(calls, self._keys, settled, strict=True):
            result = _result(call.name, outcome)
            if outcome.detector is None and self._results.setdefault(key, result) != result:
                self._results[key] = result
                self._window = [other for other in self._window if other != key]
                self._admitted = [other for other in self._admitted if other != key]
                self._counts.pop(key, None)
                self._admit(key)

    def _admit(self, key: str) -> None:
        window, counts = self._window, self._counts
        window.append(key)
        counts[key] = counts.get(key, 0) + 1
        if len(window) > self._settings.loop_window:
            old = window.pop(0)
            left = counts[old] - 1  # counted along, so that a call never scans the window
            if left:
                counts[old] = left
            else:
                del counts[old]
        self._admitted.append(key)
        if len(self._admitted) > _MAX_CYCLE * _REPETITIONS:
            del self._admitted[0]

    def _no_progress(self, call: ToolCall) -> Verdict | None:
        if not self._blocked_round:
            return None
        rounds = self._settings.loop_no_progress
        message = f"the last {rounds} rounds of calls brought nothing new; {call.name} was not run"
        return Verdict("no_progress", f"{message}.")

    def _identical(self, call: ToolCall, key: str) -> Verdict | None:
        most = self._settings.loop_max_repeats
        if not most or self._counts.get(key, 0) < most:
            return None
        message = f"{call.name} was called with these arguments {most} times already"
        return Verdict("identical", f"{message}; it was not run again.")

    def _cycle(self, call: ToolCall, key: str) -> Verdict | None:
        if not self._settings.loop_cycles or key not in self._admitted:
            return None
        keys = [*self._admitted, key]
        for period in range(2, _MAX_CYCLE + 1):
            block = keys[-period:]
            # A block of equal calls is the business of `identical`, which has a limit of its own.
            if len(keys) < period * _REPETITIONS or len(set(block)) == 1:
                continue
            if keys[-period * _REPETITIONS :] == block * _REPETITIONS:
                message = f"the same {period} calls would have run {_REPETITIONS} times in a row"
                return Verdict("cycle", f"{message}; {call.name} was not run again.")
        return None


def _result(name: str, outcome: CallSettled) -> str:
    """Return a text that is equal for equal results of a tool."""
    # A clipped result is compared by its whole text: the blob's name is a hash of it.
    if outcome.artifact_blob is not None:
        return f"{name}\n{outcome.artifact_blob}"
    envelope = outcome.envelope
    if envelope.error is None:
        return f"{name}\n{canonical(envelope.output)}"
    return f"{name}\n{envelope.error.code}\n{envelope.error.message}"


def spelling(call: ToolCall) -> str:
    """Return the canonical JSON of the arguments, or their text if it is not JSON."""
    text = call.arguments_text
    return canonical(call.arguments) if text is None else text
