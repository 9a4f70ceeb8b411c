"""A launcher, its log, and a body that blocks where the test wants it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from penstock.core.events.events import (
    Entry,
    Record,
    SessionOpened,
    TaskStarted,
)
from penstock.core.ids import LogId, TaskId, new_id
from penstock.core.limits import Limits, World
from penstock.engine.activation import Activations
from penstock.engine.held_log import HeldLog
from penstock.engine.launcher import InlineLauncher
from penstock.engine.session_state import SessionState
from penstock.engine.task_body import MissingParts, TaskBody
from penstock.engine.task_state import TaskState
from penstock.testing.clock import FakeClock
from penstock.testing.log import MemoryLog
from tests.kit.activations import Work, end, finish
from tests.kit.session_events import ANN, message


class LauncherAtWork:
    """A launcher, its log, and a body that blocks where the test wants it."""

    def __init__(self, log: MemoryLog, clock: FakeClock, limits: Limits, work: Work) -> None:
        self.lacking: dict[LogId, MissingParts] = {}
        """By log: the parts that this process lacks to run its tasks."""
        self.log = log
        self.clock = clock
        self.at_work = 0
        self.most_at_work = 0
        self.worked: list[TaskId] = []
        self.gates: dict[LogId, asyncio.Event] = {}
        self._finish = work
        world = World(clock, limits, new_id)
        body = TaskBody(work=self._work, end=end, find_missing=self._lacks, is_available=self._has)
        self.activations = Activations(log, body, world, owner=new_id("run"))
        self.launcher = InlineLauncher(log, self.activations, world)

    def _lacks(self, state: SessionState, task: TaskState) -> MissingParts | None:
        return self.lacking.get(state.log_id)

    def _has(self, log_id: LogId, lack: MissingParts) -> bool:
        return self.lacking.get(log_id) != lack

    async def _work(self, held: HeldLog, task: TaskState) -> None:
        self.worked.append(task.task_id)
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        try:
            if gate := self.gates.get(held.state.log_id):
                await gate.wait()
            await self._finish(held, task)
        finally:
            self.at_work -= 1

    def stop_at(self, name: str) -> asyncio.Event:
        return self.gates.setdefault(LogId(name), asyncio.Event())

    async def say(self, name: str, *, wake: bool = True) -> TaskId:
        task_id = TaskId(new_id("task"))
        entries = [Entry(message(), task_id)]
        if not await self.log.head(LogId(name)):
            opened = SessionOpened(profile_id=ANN, agent="assistant", title="")
            entries.insert(0, Entry(opened))
        await self.log.send(LogId(name), entries)
        if wake:
            self.launcher.wake(LogId(name))
        return task_id

    async def begin(self, name: str, *, head: int = 0) -> Sequence[Record] | None:
        task_id = TaskId(new_id("task"))
        opened = SessionOpened(profile_id=ANN, agent="assistant", title="")
        entries = [Entry(opened), Entry(message(), task_id), Entry(TaskStarted(), task_id)]
        records = await self.activations.begin(LogId(name), entries, head=head)
        self.launcher.wake(LogId(name))
        return records


@asynccontextmanager
async def opened(
    log: MemoryLog | None = None,
    clock: FakeClock | None = None,
    *,
    limits: Limits | None = None,
    work: Work = finish,
    attends: bool = False,
) -> AsyncIterator[LauncherAtWork]:
    clock = clock or FakeClock()
    limits = limits or Limits()
    running = LauncherAtWork(log or MemoryLog(clock, limits), clock, limits, work)
    before = asyncio.all_tasks()
    await (running.launcher.attend() if attends else running.launcher.open())
    try:
        yield running
    finally:
        await running.launcher.close()
        assert asyncio.all_tasks() - before == set()
