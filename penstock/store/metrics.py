"""Usage of tools and models: calls, outcomes, times and tokens, counted from the logs."""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace
from sqlalchemy import Row as RowOf
from sqlalchemy import literal, select, tuple_

from penstock.core.call import CallPath
from penstock.core.call_errors import Interrupted, LoopDetected, Rejected
from penstock.core.clock import Moment
from penstock.core.errors import StoreCorrupt
from penstock.core.events.events import CallSettled, Event, Record, ReplyReceived, TaskStarted
from penstock.core.events.flow_events import HandedOff
from penstock.core.events.roles import SubagentFilter
from penstock.core.ids import LogId
from penstock.core.json_values.json_text import compact
from penstock.core.messages import Usage, total_usage
from penstock.core.text import CHARACTERS_PER_TOKEN
from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.rows import EventRows, Parts
from penstock.store.tables import events, logs

log = logging.getLogger(__name__)

PAGE = 200
"""Events in memory at once."""
_COLUMNS = ("seq", "at", "task_id", "path", "kind", "body", "blob_id")
"""In the form that `EventRows` reads."""
_KINDS = ("agent_began", "call_settled", "handed_off", "reply_received", "task_started")
UNKNOWN = "unknown"
"""The model of replies whose task started before the period."""


class MetricsRange(Struct, frozen=True, kw_only=True):
    """The agent and the period to count."""

    agent: str
    since: Moment
    until: Moment


class DurationHistogram(Struct):
    """Durations of calls in buckets, so that memory does not grow with the number of calls."""

    buckets: Counter[int] = field(default_factory=Counter)
    total: int = 0
    longest: int = 0

    def add(self, duration_ms: int) -> None:
        """Count a call by its duration."""
        self.buckets[_bucket(duration_ms)] += 1
        self.total += duration_ms
        self.longest = max(self.longest, duration_ms)

    def to_wire(self) -> dict[str, float | None]:
        """Return percentiles (at most 5 % off) and the exact maximum."""
        if not (count := self.buckets.total()):
            return dict.fromkeys(("mean", "p50", "p95", "max"))
        return {
            "mean": round(self.total / count, 1),
            "p50": self._at(count // 2),
            "p95": self._at(count * 95 // 100),
            "max": self.longest,
        }

    def _at(self, rank: int) -> int:
        for duration_ms in sorted(self.buckets):
            rank -= self.buckets[duration_ms]
            if rank < 0:
                return min(duration_ms, self.longest)
        return self.longest


def _bucket(duration_ms: int) -> int:
    """Return the middle of a bucket: the times with the same two leading digits."""
    scale: int = 10 ** max(len(str(duration_ms)) - 2, 0)
    return duration_ms // scale * scale + scale // 2


class ToolMetrics(Struct):
    """The counters of one tool."""

    calls: int = 0
    succeeded: int = 0
    failed: int = 0
    blocked: int = 0
    """Refused by the loop guard; not counted as failed."""
    rejected: int = 0
    """Refused by a person; not counted as failed."""
    times: DurationHistogram = field(default_factory=DurationHistogram)
    arguments: int = 0
    """Tokens that models wrote to call it."""
    results: int = 0
    """Tokens of its results that models read."""
    definitions: int = 0
    """Tokens of its description in requests to models."""
    errors: Counter[str] = field(default_factory=Counter)

    def settle(self, settled: CallSettled) -> None:
        """Count a settled call."""
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
            self.times.add(settled.duration_ms)
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
            "durationMs": self.times.to_wire(),
            "tokens": {
                "arguments": self.arguments,
                "results": self.results,
                "definitions": self.definitions,
            },
            "errors": dict(sorted(self.errors.items())),
        }


class Metrics:
    """Counts events in the logs of an agent."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self._database = database
        self._rows = EventRows(blobs)

    async def of_agent(
        self, span: MetricsRange, definitions: Mapping[str, int]
    ) -> "MetricsCounter":
        """Return what the tools and models of an agent did.

        `definitions` says how many tokens it takes to offer a tool. Events are read a page at a
        time; one that does not read back is skipped, and named to operators.
        """
        count, log_id, seq, parts = MetricsCounter(definitions), LogId(""), 0, Parts()
        while rows := await self._page(span, log_id, seq):
            for row in rows:
                if row.log_id != log_id:
                    count.turn_page()
                log_id, seq = row.log_id, row.seq
                if (record := await self._record(log_id, row[1:], parts)) is not None:
                    count.take(record.task_id, record.path, record.event)
        return count

    async def _page(self, span: MetricsRange, log_id: LogId, seq: int) -> Sequence[RowOf[Any]]:
        """Return the next events, in the order of their logs."""
        each = events.c
        query = (
            select(each.log_id, *map(each.__getitem__, _COLUMNS))
            .join(logs, logs.c.log_id == each.log_id)
            .where(logs.c.agent == span.agent, each.kind.in_(_KINDS))
            .where(each.at >= span.since, each.at < span.until)
            .where(tuple_(each.log_id, each.seq) > tuple_(literal(log_id), literal(seq)))
            .order_by(each.log_id, each.seq)
            .limit(PAGE)
        )
        return await self._database.read(lambda connection: connection.execute(query).all())

    async def _record(self, log_id: LogId, row: Any, parts: Parts) -> Record | None:
        try:
            (record,) = await self._rows.records(log_id, [tuple(row)], parts=parts)
        except StoreCorrupt as error:
            log.warning("a metric passes over what does not read back: %s", error)
            return None
        return record


class MetricsCounter:
    """Counts what happened, task by task in the order of the log.

    What agents do that a chat put to work is not counted: it does not use its tools.
    """

    __slots__ = ("_asked", "_definitions", "_offered", "_subagents", "_tallies", "models")

    def __init__(self, definitions: Mapping[str, int]) -> None:
        self.models: dict[str, Usage] = {}
        """The usage of each model that replied."""
        self._asked: dict[str | None, str] = {}
        """The model of each task."""
        self._definitions = definitions
        self._tallies: defaultdict[str, ToolMetrics] = defaultdict(ToolMetrics)
        self._offered: dict[str | None, tuple[str, ...]] = {}
        self._subagents: defaultdict[str | None, SubagentFilter] = defaultdict(SubagentFilter)

    def turn_page(self) -> None:
        """Reset the state of tasks, before another log."""
        self._asked.clear()
        self._offered.clear()
        self._subagents.clear()

    def take(self, task_id: str | None, path: CallPath | None, event: Event) -> None:
        """Count the next event."""
        if self._subagents[task_id].has(event, path):
            return
        match event:
            case TaskStarted() | HandedOff():
                self._offered[task_id] = event.offered
                self._asked[task_id] = event.model or UNKNOWN
            case ReplyReceived():
                self._spend(event.model or self._asked.get(task_id, UNKNOWN), event.usage)
                sent = () if event.closing else self._offered.get(task_id, ())
                for tool_id in sent:
                    self._tallies[tool_id].definitions += self._definitions.get(tool_id, 0)
                for call in event.calls:
                    text = call.arguments_text or compact(call.arguments)
                    self._tallies[call.name].arguments += tokens(text)
            case CallSettled() if not _is_of_host(event):
                self._tallies[event.tool_id].settle(event)
            case _:
                pass

    def _spend(self, model: str, usage: Usage) -> None:
        before = self.models.get(model)
        both = [usage] if before is None else [before, usage]
        calls = 1 if before is None else before.model_calls + 1
        self.models[model] = replace(total_usage(both, tool_calls=0), model_calls=calls)

    @property
    def tools(self) -> dict[str, ToolMetrics]:
        """The counters of each tool that was called or offered, by name."""
        return dict(sorted(self._tallies.items()))

    def models_to_wire(self) -> list[dict[str, Any]]:
        """Return the usage of each model as the API shows it, by name."""
        return [
            {"model": model, "usage": usage.to_wire()}
            for model, usage in sorted(self.models.items())
        ]


def count(
    happened: Iterable[tuple[str | None, CallPath | None, Event]], definitions: Mapping[str, int]
) -> dict[str, ToolMetrics]:
    """Count the events of one log."""
    count = MetricsCounter(definitions)
    for task_id, path, event in happened:
        count.take(task_id, path, event)
    return count.tools


def _is_of_host(settled: CallSettled) -> bool:
    """Return whether a call only asked the host (state, notes): it succeeded without running."""
    return settled.envelope.ok and not settled.ran


def tokens(text: str) -> int:
    """Return an estimate of the tokens in a text."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)
