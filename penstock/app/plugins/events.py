"""Delivers the events of flow runs to the listeners of plugins, for runs of this process.

Listeners receive the messages of a run in order and each once, starting with the first event that
this process wrote; earlier events were delivered by the process that wrote them. A listener that
raises is logged and changes nothing. `close` delivers what is left of ended runs for a bounded
time. Tests: tests/app/plugins/test_events.py.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from threading import get_ident
from typing import Any

from penstock.app.run_feed import TYPES, RunFeed
from penstock.core.diagnostics import did_you_mean
from penstock.core.envelope import Json
from penstock.core.errors import NotFound
from penstock.core.events.events import Record, TaskEnded
from penstock.core.events.flow_events import FlowRequested, FlowStarted, StepSettled, StepStarted
from penstock.core.foreign_code import CaughtError
from penstock.core.ids import LogId, TaskId
from penstock.engine.bus import Delta, Live

log = logging.getLogger(__name__)

Listener = Callable[[dict[str, Any]], object]
Follow = Callable[[LogId], AsyncGenerator[Live, None]]
"""Yields the stored events of a log, then new ones."""
OF_PROJECTS = ("flow_rediscovered", "flow_autonomous_mode_changed")
LAST_SECONDS = 2
"""How long `close` waits until the end of a run is delivered."""
_OF_RUNS = frozenset({FlowRequested, FlowStarted, StepStarted, StepSettled})
_OTHER_NAMES = {
    "flow_flow_started": "flow_started",
    "flow_notify": "flow_warning",
    "flow_subagent_tool_call": "flow_tool_call",
    "flow_subagent_tool_result": "flow_tool_result",
}


class Listeners:
    """The listeners of plugins, by type of event."""

    def __init__(self) -> None:
        self._by_type: defaultdict[str, list[Listener]] = defaultdict(list)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._follow_runs: Callable[[], None] | None = None

    def open(self, follow_runs: Callable[[], None]) -> None:
        """Record that the project is open: listeners are called in this event loop.

        `follow_runs` is called once, when there is a listener to events of runs: without one, a
        commit costs nothing here.
        """
        self._loop, self._thread = asyncio.get_running_loop(), get_ident()
        self._follow_runs = follow_runs
        self._begin()

    def on(self, type: str, listener: Listener) -> None:
        """Add a listener. Raises NotFound for an unknown event."""
        known = (*TYPES, *OF_PROJECTS)
        plain = type.replace(":", "_").replace("-", "_")
        name = _OTHER_NAMES.get(plain, plain)
        if name not in known:
            raise NotFound(f"there is no event {type!r}.{did_you_mean(plain, known)}")
        self._by_type[name].append(listener)
        self._begin()

    def _begin(self) -> None:
        begin = self._follow_runs
        if begin is not None and not self._by_type.keys().isdisjoint(TYPES):
            self._follow_runs = None
            begin()

    def tell(self, type: str, body: Json) -> None:
        """Call the listeners, from any thread; one that raises is logged and changes nothing."""
        if self._loop is None or get_ident() == self._thread:
            self._tell(type, body)
        else:
            self._loop.call_soon_threadsafe(self._tell, type, body)

    def _tell(self, type: str, body: Json) -> None:
        for listener in tuple(self._by_type.get(type, ())):
            with CaughtError() as fault:
                listener({"type": type, **body})
            if fault.error is not None:
                log.error("a listener to %s failed: %s", type, fault, exc_info=fault.error)


class RunFollower:
    """Follows each run of this process from its first event here to its end."""

    def __init__(self, listeners: Listeners, follow: Follow) -> None:
        self._listeners = listeners
        self._follow = follow
        self._tasks: dict[LogId, asyncio.Task[None]] = {}
        self._over: set[LogId] = set()
        """Ended runs with undelivered events."""

    def hear(self, records: Sequence[Record]) -> None:
        """Receive committed events; this is the listener of the log."""
        for record in records:
            kind = type(record.event)
            if kind in _OF_RUNS and record.task_id is not None and record.log_id not in self._tasks:
                following = self._follow_run(record.task_id, record.log_id, record.seq)
                self._tasks[record.log_id] = asyncio.create_task(following)
            if kind is TaskEnded and record.log_id in self._tasks:
                self._over.add(record.log_id)

    async def close(self) -> None:
        """Deliver the rest of ended runs, and stop following the others."""
        if over := [self._tasks[following] for following in self._over]:
            await asyncio.wait(over, timeout=LAST_SECONDS)
        for following in self._tasks.values():
            following.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _follow_run(self, run_id: TaskId, log_id: LogId, first: int) -> None:
        """Deliver the events of a run until it ends; unreadable logs are logged."""
        with CaughtError() as fault:
            await self._tell(run_id, log_id, first)
        if fault.error is not None:
            log.error("plugins receive no more events of the run %s: %s", run_id, fault)
        self._tasks.pop(log_id, None)
        self._over.discard(log_id)

    async def _tell(self, run_id: TaskId, log_id: LogId, first: int) -> None:
        """Deliver a run from event `first`; another process delivered those before it."""
        feed: RunFeed | None = None
        seq = 0
        async with aclosing(self._follow(log_id)) as items:
            async for item in items:
                if isinstance(item, Record) and isinstance(item.event, FlowRequested):
                    feed = RunFeed(run_id, item.event.command)
                if feed is None:
                    continue
                if isinstance(item, Record):
                    seq = item.seq
                for body in _messages(feed, item, seq):
                    if seq >= first:
                        self._listeners.tell(body["type"], body)
                if feed.is_over:
                    break


def _messages(feed: RunFeed, item: Live, seq: int) -> Sequence[Json]:
    if isinstance(item, Record):
        return feed.messages_of(item)
    message = feed.text_message(item, seq) if type(item) is Delta else None
    return [message] if message is not None else ()
