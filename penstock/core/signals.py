"""Control flow that no tool can stop; a door turns each into a value or an error.

Signal                        a BaseException, so that `except Exception` lets it pass
├── Suspend                   ends the activation until someone answers, or a run has ended
├── Cancel                    ends the task
├── Blocked                   ends the activation: another process may have what is missing here
└── LeaseLost                 ends the activation: another process has the log
"""

from typing import Any

from penstock.core.task import Missing


class Signal(BaseException):
    """Control flow, not an error."""


class Suspend(Signal):
    """Ends the activation; it goes on when these questions are answered, these runs have ended."""

    def __init__(self, *awaited: Any) -> None:
        super().__init__(*awaited)
        self.awaited = awaited


class Cancel(Signal):
    """Ends the task."""


class Blocked(Signal):
    """Ends the activation: this process lacks what the task needs."""

    def __init__(self, blocked_on: tuple[Missing, ...]) -> None:
        super().__init__(blocked_on)
        self.blocked_on = blocked_on


class LeaseLost(Signal):
    """Ends the activation: another process has the log."""
