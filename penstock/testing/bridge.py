"""A fake host for scripts: returns scripted answers and records every host call."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from penstock.core.call_errors import CallError, NotAvailable
from penstock.core.envelope import ErrorDetail
from penstock.sandbox.bridge import HostCallResult, Refusal

BEGINS_MS = 1_800_000_000_000
NEVER_MS = 60_000
"""A timer or sleep of this length never fires. Shorter ones fire at once, ordered by time."""

Answer = Callable[[Any], Any]
"""Takes the arguments; returns a value or a HostCallResult, or raises. May be async."""


class FakeBridge:
    """Answers host calls by name. Each answer is one millisecond later than the previous one."""

    def __init__(
        self,
        answers: Mapping[str, Answer] | None = None,
        *,
        seed: bytes = bytes(32),
        task: str = "",
    ) -> None:
        self.task = task
        self._answers: dict[str, Answer] = dict(answers or {})
        self._seed = seed
        self.now_ms = BEGINS_MS
        self.asked: list[tuple[str, Any]] = []
        """Name and arguments of every host call, in order."""
        self.printed: list[tuple[str, str]] = []
        """Level and text."""
        self.warned: list[tuple[str, str]] = []
        """Event type and message."""
        self.computed_ms = 0
        """Computing time of the last script, in milliseconds."""

    @property
    def seed(self) -> bytes:
        """32 bytes that seed the script's random numbers."""
        return self._seed

    @property
    def begins_ms(self) -> int:
        """The script's start time, in milliseconds since the epoch."""
        return BEGINS_MS

    def ask(self, name: str, arguments: Any) -> HostCallResult | Awaitable[HostCallResult]:
        """Answer a host call."""
        self.asked.append((name, arguments))
        if name in {"sleep", "timer"} and name not in self._answers:
            return self._passed(arguments["ms"])
        return self._answered(name, arguments)

    def refuse(self, name: str, problem: str) -> HostCallResult:
        """Refuse a host call because of its arguments."""
        return self._refused(TypeError(problem))

    def answer(self, name: str, arguments: Any) -> HostCallResult:
        """Answer a synchronous host call."""
        result = self._answered(name, arguments)
        if not isinstance(result, HostCallResult):
            raise TypeError(f"{name} is a synchronous host call: its answer cannot be async")
        return result

    def print(self, level: str, text: str) -> None:
        """Record a console line."""
        self.printed.append((level, text))

    def warn(self, event_type: str, message: str) -> None:
        """Record a warning."""
        self.warned.append((event_type, message))

    def computed(self, ms: int) -> None:
        """Record the script's computing time."""
        self.computed_ms = ms

    def _passed(self, ms: float) -> HostCallResult | Awaitable[HostCallResult]:
        if ms >= NEVER_MS:
            return self._awaited(never, None)
        due = self.now_ms + int(ms)
        return HostCallResult(at_ms=due, order=due)

    def _answered(self, name: str, arguments: Any) -> HostCallResult | Awaitable[HostCallResult]:
        answer = self._answers.get(name, _unknown(name))
        if inspect.iscoroutinefunction(answer):
            return self._awaited(answer, arguments)
        try:
            return self._settled(answer(arguments))
        except (CallError, TypeError) as error:
            return self._refused(error)

    async def _awaited(self, answer: Answer, arguments: Any) -> HostCallResult:
        try:
            return self._settled(await answer(arguments))
        except (CallError, TypeError) as error:
            return self._refused(error)

    def _settled(self, value: Any) -> HostCallResult:
        if isinstance(value, HostCallResult):
            return value
        self.now_ms += 1
        return HostCallResult(value=value, at_ms=self.now_ms)

    def _refused(self, error: CallError | TypeError) -> HostCallResult:
        self.now_ms += 1
        if isinstance(error, TypeError):
            detail = ErrorDetail(code="SCRIPT_ERROR", message=str(error))
            return HostCallResult(
                refusal=Refusal(name="TypeError", detail=detail), at_ms=self.now_ms
            )
        detail = error.envelope().error or ErrorDetail(code=error.code, message=str(error))
        return HostCallResult(refusal=Refusal(name="FloError", detail=detail), at_ms=self.now_ms)


async def never(_arguments: Any) -> None:
    """Never answer a host call."""
    await asyncio.Event().wait()


def _unknown(name: str) -> Answer:
    def refuse(_arguments: Any) -> Any:
        raise NotAvailable(f"the fake host has no answer for {name!r}")

    return refuse
