"""Control flow that no tool can stop; a door turns each into a value or an error.

Signal                        a BaseException, so that `except Exception` lets it pass
├── Suspend                   ends the activation until someone answers, or a run has ended
├── Cancel                    ends the task
└── LeaseLost                 ends the activation: another process has the log
"""

from typing import Any


class Signal(BaseException):
    """Control flow, not an error."""


class Suspend(Signal):
    """Ends the activation; it goes on when these questions are answered, these runs have ended."""

    def __init__(self, *awaited: Any) -> None:
        super().__init__(*awaited)
        self.awaited = awaited


class Cancel(Signal):
    """Ends the task."""


class LeaseLost(Signal):
    """Ends the activation: another process has the log."""
