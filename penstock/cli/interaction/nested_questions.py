"""Questions of the runs that a task started: calls of its tools wait for them.

Guarantees: a question in such a run, at any depth and whichever process works on it, is reported
within about a second while the task is at work, and at once when the task rests. How: a task's own
log names the runs that it waits for only once it rests, so the open questions of the project are
looked through meanwhile; a run names its waiter in its first event. Cost: one query of a page of
open questions a second, while somebody watches at a terminal. Relies on: fewer than a page of
questions is newer than the one that is looked for; a question missed for that reason is asked when
the task rests.

Proof: tests/cli/interaction/test_nested_questions.py.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

from penstock.app.runtime import Runtime
from penstock.core.events.flow_events import FlowRequested
from penstock.core.ids import LogId, TaskId
from penstock.core.question import QuestionRecord, QuestionStatus
from penstock.core.task import TaskStatus
from penstock.store.projections.projections import Page

LOOK_SECONDS = 1.0
_PAGE = Page(limit=100, is_descending=True)
Item = TypeVar("Item")


async def asked_in(runtime: Runtime, runs: Sequence[str]) -> AsyncIterator[QuestionRecord]:
    """Yield what runs ask that a task rests for, in order; nothing, once one of them is over."""
    waits = [asyncio.ensure_future(runtime.wait(TaskId(each))) for each in runs]
    try:
        for each in asyncio.as_completed(waits):
            reply = await each
            if reply is None or reply.status is not TaskStatus.SUSPENDED:
                return
            for question in reply.questions:
                yield question
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def asked_below(runtime: Runtime, task_id: TaskId) -> AsyncIterator[QuestionRecord]:
    """Yield each question of the runs below a task, as it is asked; never ends by itself."""
    briefs: dict[LogId, FlowRequested | None] = {}
    seen: set[str] = set()
    while True:
        found, _ = await runtime.parts.projections.questions(status=QuestionStatus.OPEN, page=_PAGE)
        for record in reversed(found):
            if record.question.question_id not in seen:
                seen.add(record.question.question_id)
                if await _is_below(runtime, record.log_id, task_id, briefs):
                    yield record
        await runtime.parts.clock.sleep(LOOK_SECONDS)


async def with_questions(
    items: AsyncIterator[Item], questions: AsyncIterator[QuestionRecord]
) -> AsyncIterator[Item | QuestionRecord]:
    """Yield both as they come, until the items are over."""
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
        while (found := await queue.get()) is not None:
            yield found[0]
        await passing
    finally:
        passing.cancel()
        asking.cancel()
        await asyncio.gather(passing, asking, return_exceptions=True)


async def _is_below(
    runtime: Runtime, log_id: LogId, task_id: TaskId, briefs: dict[LogId, FlowRequested | None]
) -> bool:
    """Whether a log is a run that the task waits for, or that such a run waits for."""
    above: LogId | None = log_id
    while above is not None:
        if above not in briefs:
            records = await runtime.parts.log.read(above, limit=1)
            first = records[0].event if records else None
            briefs[above] = first if isinstance(first, FlowRequested) else None
        brief = briefs[above]
        if brief is not None and brief.waiter == task_id:
            return True
        above = None if brief is None else brief.waiter_log
    return False
