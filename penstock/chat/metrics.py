"""What tools were used for, and how that went: counted from the logs."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

from sqlalchemy import select

from penstock.chat.aside import Aside
from penstock.core.call import CallPath
from penstock.core.call_errors import Interrupted, LoopDetected, Rejected
from penstock.core.canonical import compact
from penstock.core.clock import Moment
from penstock.core.codec import decode
from penstock.core.events import CallSettled, Event, ReplyReceived, TaskStarted
from penstock.core.text import CHARACTERS_PER_TOKEN
from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.tables import events, logs

_KINDS = ("agent_began", "call_settled", "reply_received", "task_started")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Which agent, and from when until when."""

    agent: str
    since: Moment
    until: Moment


@dataclass(slots=True)
class Tally:
    """What is known about one tool."""

    calls: int = 0
    succeeded: int = 0
    failed: int = 0
    blocked: int = 0
    """By the loop guard; not among the failed."""
    rejected: int = 0
    """By a person; not among the failed."""
    durations: list[int] = field(default_factory=list)
    arguments: int = 0
    """Tokens that models wrote to call it."""
    results: int = 0
    """Tokens that models read of it."""
    definitions: int = 0
    """Tokens that it took to offer it."""
    errors: Counter[str] = field(default_factory=Counter)

    def settle(self, settled: CallSettled) -> None:
        """Count a call that has its outcome."""
        self.calls += 1
        error = settled.envelope.error
        if error is None:
            self.succeeded += 1
        else:
            self.errors[error.code] += 1
            self.blocked += error.code == LoopDetected.code
            self.rejected += error.code == Rejected.code
            self.failed += error.code not in {LoopDetected.code, Rejected.code}
        if settled.ran and (error is None or error.code != Interrupted.code):
            self.durations.append(settled.duration_ms)
        if settled.call_id is not None:
            self.results += tokens(settled.context or "")

    def to_wire(self, tool_id: str) -> dict[str, Any]:
        """Return the tally as the API shows it."""
        tried = self.succeeded + self.failed
        return {
            "tool": tool_id,
            "calls": self.calls,
            "succeeded": self.succeeded,
            "failed": self.failed,
            "blocked": self.blocked,
            "rejected": self.rejected,
            "successRate": self.succeeded / tried if tried else None,
            "durationMs": durations(self.durations),
            "tokens": {
                "arguments": self.arguments,
                "results": self.results,
                "definitions": self.definitions,
            },
            "errors": dict(sorted(self.errors.items())),
        }


class Metrics:
    """Counts what happened in the logs of an agent."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self._database = database
        self._blobs = blobs

    async def of_tools(self, span: Span, definitions: Mapping[str, int]) -> dict[str, Tally]:
        """Return a tally for each tool that was called or offered.

        `definitions` says how many tokens it takes to offer a tool.
        """
        wanted = (
            select(events.c.task_id, events.c.path, events.c.kind, events.c.body, events.c.blob_id)
            .join(logs, logs.c.log_id == events.c.log_id)
            .where(logs.c.agent == span.agent, events.c.kind.in_(_KINDS))
            .where(events.c.at >= span.since, events.c.at < span.until)
            .order_by(events.c.log_id, events.c.seq)
        )
        rows = await self._database.read(lambda connection: connection.execute(wanted).all())
        happened = []
        for row in rows:
            body = (await self._blobs.get(row.blob_id)).decode() if row.blob_id else row.body
            happened.append((row.task_id, row.path, decode(row.kind, body)))
        return count(happened, definitions)


def count(
    happened: Iterable[tuple[str | None, CallPath | None, Event]], definitions: Mapping[str, int]
) -> dict[str, Tally]:
    """Count what happened, task by task in the order of the log.

    What agents do that a chat put to work is not counted: it is no use of its tools.
    """
    tallies: dict[str, Tally] = {}
    offered: dict[str | None, tuple[str, ...]] = {}
    asides: defaultdict[str | None, Aside] = defaultdict(Aside)
    for task_id, path, event in happened:
        if asides[task_id].has(event, path):
            continue
        match event:
            case TaskStarted():
                offered[task_id] = event.offered
            case ReplyReceived():
                sent = () if event.closing else offered.get(task_id, ())
                for tool_id in sent:
                    tally = tallies.setdefault(tool_id, Tally())
                    tally.definitions += definitions.get(tool_id, 0)
                for call in event.calls:
                    tally = tallies.setdefault(call.name, Tally())
                    tally.arguments += tokens(call.arguments_text or compact(call.arguments))
            case CallSettled() if not _is_of_host(event):
                tallies.setdefault(event.tool_id, Tally()).settle(event)
            case _:
                pass
    return dict(sorted(tallies.items()))


def _is_of_host(settled: CallSettled) -> bool:
    """Whether code asked its host (for its state, for a note): what succeeded without running."""
    return settled.envelope.ok and not settled.ran


def tokens(text: str) -> int:
    """Return about how many tokens a text has."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def durations(found: list[int]) -> dict[str, float | None]:
    """Return the usual and the longest times."""
    if not found:
        return dict.fromkeys(("mean", "p50", "p95", "max"))
    ranked = sorted(found)
    return {
        "mean": round(mean(ranked), 1),
        "p50": ranked[len(ranked) // 2],
        "p95": ranked[min(len(ranked) * 95 // 100, len(ranked) - 1)],
        "max": ranked[-1],
    }
