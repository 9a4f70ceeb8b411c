"""Flow runs for plugins: start and end runs, and receive their events.

Listeners receive the messages of the runs of this process, in order and each once, starting with
the first event that this process wrote; the process that wrote the earlier ones delivered them. A
listener that raises is logged and changes nothing. Commits are observed only once a listener for
runs exists. `close` delivers what is left of ended runs for a bounded time. Tests:
tests/app/plugins/test_runs.py.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from threading import get_ident
from types import MappingProxyType
from typing import Any

from penstock.agents.catalog import catalog_entries
from penstock.app.run_feed import TYPES, RunFeed, run_result
from penstock.app.runtime import Runtime
from penstock.chat.requests import NewRun, TaskReply
from penstock.core.diagnostics import did_you_mean
from penstock.core.envelope import Json
from penstock.core.errors import NotFound, NotReady
from penstock.core.events.events import Record, TaskEnded
from penstock.core.events.flow_events import FlowRequested, FlowStarted, StepSettled, StepStarted
from penstock.core.foreign_code import CaughtError
from penstock.core.ids import LogId, TaskId
from penstock.core.task import TaskStatus
from penstock.engine.bus import Delta, Live
from penstock.flows.project.authoring import remove_flow
from penstock.flows.project.files import FlowFile
from penstock.flows.project.flows import ProjectFlows
from penstock.flows.project.library import unknown_flow
from penstock.tools.resources import NO_PROJECT

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


class PluginListeners:
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

    def notify(self, type: str, body: Json) -> None:
        """Call the listeners, from any thread; one that raises is logged and changes nothing."""
        if self._loop is None or get_ident() == self._thread:
            self._notify(type, body)
        else:
            self._loop.call_soon_threadsafe(self._notify, type, body)

    def _notify(self, type: str, body: Json) -> None:
        for listener in tuple(self._by_type.get(type, ())):
            with CaughtError() as fault:
                listener({"type": type, **body})
            if fault.error is not None:
                log.error("a listener to %s failed: %s", type, fault, exc_info=fault.error)


class RunFollower:
    """Follows each run of this process from its first event here to its end."""

    def __init__(self, listeners: PluginListeners, follow: Follow) -> None:
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
            await self._deliver(run_id, log_id, first)
        if fault.error is not None:
            log.error("plugins receive no more events of the run %s: %s", run_id, fault)
        self._tasks.pop(log_id, None)
        self._over.discard(log_id)

    async def _deliver(self, run_id: TaskId, log_id: LogId, first: int) -> None:
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
                        self._listeners.notify(body["type"], body)
                if feed.is_over:
                    break


def _messages(feed: RunFeed, item: Live, seq: int) -> Sequence[Json]:
    if isinstance(item, Record):
        return feed.messages_of(item)
    message = feed.text_message(item, seq) if type(item) is Delta else None
    return [message] if message is not None else ()


NOTHING: Mapping[str, Any] = MappingProxyType({})
Notify = Callable[[str, Json], None]


class PluginFlows:
    """The flows of the project; usable once the project is open."""

    def __init__(self, notify: Notify) -> None:
        self._runtime: Runtime | None = None
        self._notify = notify

    def open(self, runtime: Runtime) -> None:
        """Record that the project is open."""
        self._runtime = runtime

    async def run(
        self,
        command: str,
        task: str = "",
        inputs: Mapping[str, Any] = NOTHING,
        autonomous: bool | None = None,  # noqa: FBT001  its fourth place is public
    ) -> Json:
        """Run a flow, and return its FlowResult once it has ended, even after questions.

        Raises NotFound for an unknown command.
        """
        run_id = TaskId(await self.start(command, task, inputs, autonomous))
        return run_result(run_id, command.removeprefix("/"), await self._end(run_id))

    async def start(
        self,
        command: str,
        task: str = "",
        inputs: Mapping[str, Any] = NOTHING,
        autonomous: bool | None = None,  # noqa: FBT001  its fourth place is public
    ) -> str:
        """Start a run, and return its id at once. Raises NotFound for an unknown command."""
        command = command.removeprefix("/")
        self._file(command)
        run = NewRun(command=command, task=task, inputs=dict(inputs), autonomous=autonomous)
        return await self._open.start_flow(run)

    async def abort(self, run_id: str) -> None:
        """Abort a run. Raises NotFound, or TaskOver if it has ended."""
        await self._open.requests.cancel(TaskId(run_id))

    def delete(self, command: str) -> None:
        """Delete the file of a flow. Raises NotFound, or ReadOnly for a flow of another folder."""
        remove_flow(self._file(command.removeprefix("/")))
        self.rediscover()

    def agents(self) -> Sequence[Json]:
        """Return the agents that flows can name."""
        return catalog_entries(self._open.parts.chat.agents)

    def list(self) -> Sequence[Json]:
        """Return the flows, by command."""
        return [
            {
                "command": each.file.command,
                "description": each.description,
                "source": each.file.tier.value,
                "errors": each.errors,
            }
            for each in self._files.list()
        ]

    def rediscover(self) -> Json:
        """Read agents and flows again; return the body of `flow_rediscovered`."""
        authoring = self._open.parts.flows.authoring
        if authoring is None:
            raise NotReady(NO_PROJECT)
        return authoring.rediscover()

    def set_autonomous(self, enabled: bool) -> None:  # noqa: FBT001  as its event has it
        """Set the default for `autonomous` of later runs."""
        self._open.parts.flows.work.set_autonomous(enabled=enabled)
        self._notify("flow_autonomous_mode_changed", {"enabled": enabled})

    def _file(self, command: str) -> FlowFile:
        files = self._files.files().files
        if command not in files:
            raise unknown_flow(command, files)
        return files[command]

    async def _end(self, run_id: TaskId) -> TaskReply:
        parts = self._open.parts
        while True:
            reply = await self._open.requests.wait(run_id)
            if reply is None:
                raise NotFound(f"the run {run_id!r} is gone")
            if reply.status is not TaskStatus.SUSPENDED:
                return reply
            await parts.world.clock.sleep(parts.world.limits.poll_seconds)

    @property
    def _open(self) -> Runtime:
        if self._runtime is None:
            raise NotReady(
                "the project is not open yet: call this from a listener, tool or hook, "
                "not while registering"
            )
        return self._runtime

    @property
    def _files(self) -> ProjectFlows:
        files = self._open.parts.flows.files
        if files is None:
            raise NotReady(NO_PROJECT)
        return files
