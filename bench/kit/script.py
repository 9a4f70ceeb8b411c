"""The side of a run that the fake model plays: scripted, without latency.

Every adapter's fake model asks `current().next(len(history))` what to answer, and its one tool
calls `current().add(a, b)`. The script counts both, so a run that skipped a call, or showed its
model a cut history, is refused instead of looking fast.
"""

from contextvars import ContextVar

FINAL = "done"
"""What the model says when no call is left to ask for."""

_current: "ContextVar[Script]" = ContextVar("script")


class Script:
    """One run: how many tool turns, how many calls in each, and what has happened so far."""

    __slots__ = ("calls", "left", "seen", "total", "turns", "width")

    def __init__(self, turns: int, width: int) -> None:
        self.turns, self.width, self.left = turns, width, turns
        self.seen = self.calls = self.total = 0

    def next(self, history_length: int) -> list[tuple[str, dict[str, int]]]:
        """Return the calls to ask for; none means: answer FINAL."""
        self.seen = history_length
        if self.left == 0:
            return []
        self.left -= 1
        left = self.left
        return [(f"c{left}_{i}", {"a": i, "b": left}) for i in range(self.width)]

    def add(self, a: int, b: int) -> int:
        """Be the tool."""
        self.calls += 1
        self.total += a + b
        return a + b

    def check(self, text: str) -> None:
        """Refuse a run that did not do all of its work."""
        wanted = self.turns * self.width
        total = sum(i + b for b in range(self.turns) for i in range(self.width))
        if text != FINAL or self.calls != wanted or self.total != total:
            raise AssertionError(
                f"run of {self.turns}x{self.width}: text {text!r}, {self.calls} of {wanted} calls, "
                f"sum {self.total} of {total}"
            )
        if self.seen <= self.turns:
            raise AssertionError(f"model saw {self.seen} messages after {self.turns} tool turns")


def start(turns: int, width: int) -> Script:
    """Begin a run in this context."""
    script = Script(turns, width)
    _current.set(script)
    return script


def current() -> Script:
    """Return the run of this context."""
    return _current.get()
