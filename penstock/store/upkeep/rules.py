"""The rules of retention: which closed logs are old enough to be deleted.

Imports no database, because the settings contain the rules and every command reads the settings.
"""

from fnmatch import fnmatchcase

from msgspec import Struct

from penstock.core.clock import Moment
from penstock.core.ids import LogId

CONVERSATIONS, CALLS, RUNS = "conversations", "calls", "runs"
DAY = 24 * 3600 * 1000
"""Milliseconds."""


class RetentionRule(Struct, frozen=True, kw_only=True):
    """One rule: which logs are deleted, and after how long."""

    of: str
    """`conversations`, `calls` or `runs`."""
    days: float
    """Since the newest event."""
    status: frozenset[str] = frozenset()
    """Every task ended with one of these; empty means any end."""
    agent: str = "*"
    """A pattern for the name of the agent; for runs, of the flow."""

    def matches(self, log: "OldLog", now: Moment) -> bool:
        """Whether the rule deletes the log."""
        return (
            log.of == self.of
            and log.at <= now - self.days * DAY
            and fnmatchcase(log.agent, self.agent)
            and (not self.status or log.status <= self.status)
        )


class OldLog(Struct, frozen=True, kw_only=True):
    """A log in which nothing is open, as the rules see it."""

    log_id: LogId
    of: str
    agent: str
    at: Moment
    """The time of its newest event."""
    status: frozenset[str]
    """How its tasks ended."""


class RetentionPlan(Struct, frozen=True, kw_only=True):
    """The rules of retention, and the size of its steps."""

    rules: tuple[RetentionRule, ...] = ()
    step: int = 20
    """Logs that are deleted between two pauses."""
    pause_seconds: float = 1.0


KEEP_ALL = RetentionPlan()
