"""Shows what happens during a call: console lines, events, and nested calls.

Guarantees that every event of the task is shown once, in order, although a reader that is too slow
is disconnected: it reads the rest from the log, starting after the last shown event. Two things end
the display: an event that ends or suspends the task, or `Runtime.wait`. The second is needed when
the task waits for a run that asks another question, because only that run's log has this event.

Proof: tests/cli/terminal/test_timeline.py, and the burst in tests/cli/tools/test_run_tool.py.
"""

import asyncio
from contextlib import aclosing

from penstock.app.runtime import Runtime
from penstock.chat.representations import note_part
from penstock.cli.terminal.output import note
from penstock.cli.terminal.plain import hanging
from penstock.cli.terminal.render import note_line, question_line
from penstock.core.call import tools_on
from penstock.core.events.events import (
    CallSettled,
    NoteEmitted,
    QuestionAsked,
    Record,
    TaskBlocked,
    TaskEnded,
    TaskSuspended,
)
from penstock.core.ids import LogId, TaskId
from penstock.core.text import cut, one_line
from penstock.tools.detached import DETACHED

CUT = "the output is cut here: the stream ended before the task"
_MOST = 300


class Timeline:
    """Shows the events of one task on stderr as they happen; `asks` includes its questions."""

    def __init__(self, runtime: Runtime, task_id: TaskId, *, asks: bool = True) -> None:
        self._runtime = runtime
        self._asks = asks
        self._task_id = task_id
        self._seq = 0

    async def show(self) -> None:
        """Show events until the task has ended or waits for a person."""
        showing = asyncio.create_task(self._show_live())
        waiting = asyncio.create_task(self._runtime.wait(self._task_id))
        try:
            await asyncio.wait((showing, waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            is_complete = showing.done()
            for task in (showing, waiting):
                task.cancel()
            await asyncio.gather(showing, waiting, return_exceptions=True)
        if is_complete:
            await showing
        else:
            await self._show_stored()

    async def _show_live(self) -> None:
        """Follow the task. After a disconnect, follow again as long as that brings new events."""
        before = -1
        while before < self._seq:
            before = self._seq
            if await self._follow():
                return
        note(CUT)

    async def _show_stored(self) -> None:
        """Show the events of the log that were not shown yet."""
        for record in await self._runtime.parts.log.read(LogId(self._task_id), after=self._seq):
            if record.task_id == self._task_id:
                self._take(record)

    async def _follow(self) -> bool:
        """Show new events; False if the stream ended before the task."""
        log_id = LogId(self._task_id)
        feed = self._runtime.follow(log_id, after=self._seq, task_id=self._task_id)
        async with aclosing(feed):
            async for item in feed:
                if not isinstance(item, Record):
                    continue
                self._take(item)
                if isinstance(item.event, TaskEnded | TaskSuspended | TaskBlocked):
                    return True
        return False

    def _take(self, record: Record) -> None:
        self._seq = record.seq
        is_shown = self._asks or not isinstance(record.event, QuestionAsked)
        if is_shown and (line := line_of(record)):
            note(hanging(line))


def line_of(record: Record) -> str | None:
    """Return the line of an event for the author of a script; None if it has none."""
    tools = tools_on(record.path) if record.path else ()
    match record.event:
        case NoteEmitted() as emitted:
            return note_line(note_part(emitted, record.path))
        case CallSettled(ran=ran, envelope=envelope) as settled:
            is_inside = len(tools) > 1 or DETACHED in (record.path or "").split("/")
            if not is_inside or (envelope.ok and not ran):
                return None  # the call itself, or a host function that its script called
            error = envelope.error
            reason = "" if error is None else f" {error.code}: {one_line(error.message)}"
            return cut(f"→ {settled.tool_id}: {envelope.status.value}{reason}", _MOST)
        case QuestionAsked(question=question):
            return question_line(question)
        case _:
            return None
