"""One log and the activations that run it, with a body that the test provides."""

from collections.abc import Awaitable, Callable
from typing import Any

from penstock.core.clock import Moment
from penstock.core.events.events import (
    Entry,
    SessionOpened,
    TaskEnded,
    TaskStarted,
)
from penstock.core.ids import TaskId, new_id
from penstock.core.limits import Limits, World
from penstock.engine.activation import Activations
from penstock.engine.held_log import HeldLog
from penstock.engine.session_state import SessionState
from penstock.engine.task_body import MissingParts, TaskBody, ignore_end, nothing_missing
from penstock.engine.task_state import TaskState
from penstock.testing.clock import FakeClock
from penstock.testing.log import MemoryLog
from tests.kit.session_events import ANN, LOG, ONE, ended, message

Work = Callable[[HeldLog, TaskState], Awaitable[None]]
Lacks = Callable[[SessionState, TaskState], MissingParts | None]


End = Callable[[HeldLog, TaskState, TaskEnded], None]


async def finish(held: HeldLog, task: TaskState) -> None:
    if task.started is None:
        held.add(TaskStarted(), task.task_id)
    held.add(ended(), task.task_id)


def end(held: HeldLog, task: TaskState, event: TaskEnded) -> None:
    held.add(event, task.task_id)


def no_end(held: HeldLog, task: TaskState, event: TaskEnded) -> None:
    """Fail the test if the activation calls `end`."""
    raise ZeroDivisionError


class ActiveLog:
    """A log with one message, and activations whose body the test provides."""

    def __init__(
        self,
        work: Work,
        *,
        log: MemoryLog | None = None,
        end: End = end,
        tell: Work = ignore_end,
        lacks: Lacks = nothing_missing,
        **limits: Any,
    ) -> None:
        self.clock = FakeClock()
        self.log = log or MemoryLog(self.clock)
        self.worked: list[TaskId] = []
        self._work = work
        world = World(self.clock, Limits(**limits), new_id)
        body = TaskBody(work=self._body, end=end, notify=tell, find_missing=lacks)
        self.activations = Activations(self.log, body, world, owner="me")

    async def _body(self, held: HeldLog, task: TaskState) -> None:
        self.worked.append(task.task_id)
        await self._work(held, task)

    async def say(self, task_id: TaskId = ONE, *, is_new: bool = True) -> None:
        opened = SessionOpened(profile_id=ANN, agent="assistant", title="")
        entries = [Entry(opened)] if is_new else []
        await self.log.send(LOG, [*entries, Entry(message(), task_id)])

    async def run(self) -> Moment | None:
        ends: list[tuple[Moment | None, Exception | None]] = []
        await self.activations.run(LOG, lambda _, wake_at, error: ends.append((wake_at, error)))
        ((wake_at, error),) = ends
        if error is not None:
            raise error
        return wake_at

    async def events(self) -> list[Any]:
        return [record.event for record in await self.log.read(LOG)][2:]

    async def is_free(self) -> bool:
        lease = await self.log.acquire(LOG, "other")
        return lease is not None and not lease.crashed
