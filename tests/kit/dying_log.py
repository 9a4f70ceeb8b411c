"""A log that simulates the death of its process, and a person who answers until the task ends."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from penstock.agents.attachments.content import Attachment
from penstock.app.runtime import Runtime
from penstock.chat.requests import NewMessage
from penstock.chat.requests import TaskReply as Outcome
from penstock.core.clock import Moment
from penstock.core.events.events import Entry, Record
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.core.task import Question, TaskStatus
from penstock.store.logs.log import Lease, OnWay
from penstock.store.projections import Page
from penstock.testing.clock import FakeClock
from penstock.testing.log import MemoryLog
from penstock.testing.runtime import MemoryStorage, memory_runtime

Told = TypeVar("Told")
"""The end of a story."""


class DyingLog(MemoryLog):
    """Dies at its n-th write, before or after it is stored. Every later request hangs forever."""

    def __init__(self, clock: FakeClock, *, writes: int, before: bool) -> None:
        super().__init__(clock)
        self.clock = clock
        self._left = writes
        self._before = before
        self.died = asyncio.Event()
        self.writes = 0

    def revive(self) -> None:
        """Let the next process write without a limit."""
        self._left = -1
        self.died.clear()

    def die_next(self) -> None:
        """Die at the next write."""
        self.die_at(self.writes + 1)

    def die_at(self, writes: int) -> None:
        """Die at this write, counted from the first one of the log."""
        self._left = writes

    async def send(
        self,
        log_id: LogId,
        entries: Sequence[Entry],
        *,
        head: int | None = None,
        on_way: OnWay | None = None,
    ) -> Sequence[Record]:
        if self._dies(before=True):
            await _never()
        records = await super().send(log_id, entries, head=head, on_way=on_way)
        if self._dies(before=False):
            await _never()
        return records

    def append(self, lease: Lease, entries: Sequence[Entry]) -> Awaitable[Sequence[Record]]:
        if self._dies(before=True):
            return _never()
        appended = super().append(lease, entries)
        return _never() if self._dies(before=False) else appended

    async def renew(self, lease: Lease, *, after: int) -> Sequence[Record]:
        return await (_never() if self.died.is_set() else super().renew(lease, after=after))

    async def release(
        self, lease: Lease, *, head: int, wake_at: Moment | None = None
    ) -> Sequence[Record]:
        if self.died.is_set():
            await _never()
        return await super().release(lease, head=head, wake_at=wake_at)

    async def surrender(self, lease: Lease) -> None:
        if not self.died.is_set():
            await super().surrender(lease)

    def _dies(self, *, before: bool) -> bool:
        if not self.died.is_set():
            self.writes += before
            if before is self._before and self.writes == self._left:
                self.died.set()
        return self.died.is_set()


def _never() -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().create_future()


Answers = Callable[[Question], Mapping[str, Any]]


async def see_through(
    runtime: Runtime, content: str | Sequence[str | Attachment], answers: Answers
) -> Outcome:
    """Send a message, once, and answer every question until the task has ended."""
    tasks, _ = await runtime.parts.storage.projections.tasks(page=Page())
    if tasks:
        task_id = tasks[0].task_id
    else:
        requests = runtime.requests
        kept = await requests.known.attachments.keep(content, requests.local)
        message = NewMessage(content=kept.text, attachments=kept.files)
        task_id = (await requests.send(message)).task_id
    while True:
        reply = await runtime.requests.wait(task_id)
        assert reply
        if reply.status is not TaskStatus.SUSPENDED:
            return reply
        question = reply.questions[0].question
        await runtime.requests.answer(question.question_id, answers(question))


async def live(runtime: Runtime, log: DyingLog, story: Awaitable[Told]) -> Told | None:
    """Run a story; None if the process died in it."""
    telling = asyncio.ensure_future(story)
    death = asyncio.ensure_future(log.died.wait())
    await asyncio.wait({telling, death}, return_when=asyncio.FIRST_COMPLETED)
    death.cancel()
    if not log.died.is_set():
        return await telling
    telling.cancel()
    await asyncio.gather(telling, return_exceptions=True)
    return None


async def outlived(
    log: DyingLog,
    content: str | Sequence[str | Attachment],
    answers: Answers = lambda question: {},
    **parts: Any,
) -> Outcome:
    """Send a message and see it through, in as many processes as it takes.

    `parts` are those of `memory_runtime`; all processes have the same ones.
    """
    place = MemoryStorage(clock=log.clock, log=log, limits=Limits(shutdown_seconds=0))
    while True:
        async with memory_runtime(place=place, **parts) as runtime:
            reply = await live(runtime, log, see_through(runtime, content, answers))
        if reply is not None:
            return reply
        log.revive()
        log.clock.advance(place.limits.lease_seconds + 1)
