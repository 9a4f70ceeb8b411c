"""Questions of the runs that a task started and waits for.

Guarantees: a question in such a run, at any depth and whichever process works on it, is reported
within `poll_seconds` while the task works, and at once when the task suspends. How: a task's own
log names the runs that it waits for only when it suspends, so until then the open questions of the
project are polled; the first event of a run names the task that waits for it. Cost: one query of a
page of open questions per second, only while a person watches at a terminal. Relies on: fewer than
a page of questions is newer than the wanted one; a question missed for that reason is asked when
the task suspends.

Proof: tests/cli/interaction/test_nested_questions.py.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

from penstock.app.runtime import Runtime
from penstock.core.events.flow_events import FlowRequested
from penstock.core.ids import LogId, TaskId
from penstock.core.task import QuestionRecord, QuestionStatus, TaskStatus
from penstock.store.projections.projections import Page

POLL_SECONDS = 1.0
_PAGE = Page(limit=100, is_descending=True)
Item = TypeVar("Item")


async def asked_in(runtime: Runtime, runs: Sequence[str]) -> AsyncIterator[QuestionRecord]:
    """Yield the questions of runs that a suspended task waits for; stop once one run is over."""
    waits = [asyncio.ensure_future(runtime.wait(TaskId(each))) for each in runs]
    try:
        for wait in asyncio.as_completed(waits):
            reply = await wait
            if reply is None or reply.status is not TaskStatus.SUSPENDED:
                return
            for question in reply.questions:
                yield question
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def asked_below(
    runtime: Runtime, task_id: TaskId, poll_seconds: float = POLL_SECONDS
) -> AsyncIterator[QuestionRecord]:
    """Yield each new question of the runs below a task, once. Never ends by itself."""
    briefs: dict[LogId, FlowRequested | None] = {}
    seen: set[str] = set()
    while True:
        found, _ = await runtime.parts.projections.questions(status=QuestionStatus.OPEN, page=_PAGE)
        for record in reversed(found):
            if record.question.question_id not in seen:
                seen.add(record.question.question_id)
                if await _is_below(runtime, record.log_id, task_id, briefs):
                    yield record
        await runtime.parts.clock.sleep(poll_seconds)


async def with_questions(
    items: AsyncIterator[Item], questions: AsyncIterator[QuestionRecord]
) -> AsyncIterator[Item | QuestionRecord]:
    """Yield items and questions as they arrive, until the items end."""
    queue: asyncio.Queue[tuple[Item | QuestionRecord] | None] = asyncio.Queue()

    async def pass_items() -> None:
        try:
            async for item in items:
                queue.put_nowait((item,))
        finally:
            queue.put_nowait(None)

    async def pass_questions() -> None:
        async for question in questions:
            queue.put_nowait((question,))

    passing, asking = (asyncio.ensure_future(each()) for each in (pass_items, pass_questions))
    try:
        while (entry := await queue.get()) is not None:
            yield entry[0]
        await passing  # raises the error of the items, if there was one
    finally:
        passing.cancel()
        asking.cancel()
        await asyncio.gather(passing, asking, return_exceptions=True)


async def _is_below(
    runtime: Runtime, log_id: LogId, task_id: TaskId, briefs: dict[LogId, FlowRequested | None]
) -> bool:
    """Whether a log is a run that the task waits for, directly or through other runs."""
    run: LogId | None = log_id
    while run is not None:
        # The first event of a log never changes, so it is read once for all polls.
        if run not in briefs:
            records = await runtime.parts.log.read(run, limit=1)
            first = records[0].event if records else None
            briefs[run] = first if isinstance(first, FlowRequested) else None
        brief = briefs[run]
        if brief is not None and brief.waiter == task_id:
            return True
        run = None if brief is None else brief.waiter_log
    return False
