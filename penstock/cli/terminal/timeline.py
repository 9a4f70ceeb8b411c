"""What a call tells on its way: its console, its events, and the calls inside it."""

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

CUT = "what it tells is cut here: the stream was over before the task"
_MOST = 300


class Timeline:
    """Shows on stderr what happens in one task, as it happens; `asks`: what is asked, too."""

    def __init__(self, runtime: Runtime, task_id: TaskId, *, asks: bool = True) -> None:
        self._runtime = runtime
        self._asks = asks
        self._task_id = task_id
        self._seq = 0

    async def show(self) -> None:
        """Go on until the task has ended or waits for a person.

        That a run which it waits for asks once more does not stand in its own log.
        """
        telling = asyncio.create_task(self._tell())
        resting = asyncio.create_task(self._runtime.wait(self._task_id))
        try:
            await asyncio.wait((telling, resting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            is_told = telling.done()
            for each in (telling, resting):
                each.cancel()
            await asyncio.gather(telling, resting, return_exceptions=True)
        if is_told:
            await telling
        else:
            await self._tell_rest()

    async def _tell(self) -> None:
        """Show what comes; a reader that was cut comes back for the rest, if there is one."""
        before = -1
        while before < self._seq:
            before = self._seq
            if await self._follow():
                return
        note(CUT)

    async def _tell_rest(self) -> None:
        """Show what is there already."""
        for record in await self._runtime.parts.log.read(LogId(self._task_id), after=self._seq):
            if record.task_id == self._task_id:
                self._take(record)

    async def _follow(self) -> bool:
        """Show what comes; False when the stream was over before the task was."""
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
    """Return what an event says to the author of a script; None when that is nothing."""
    tools = tools_on(record.path) if record.path else ()
    match record.event:
        case NoteEmitted() as told:
            return note_line(note_part(told, record.path))
        case CallSettled(ran=ran, envelope=envelope) as settled:
            is_inside = len(tools) > 1 or DETACHED in (record.path or "").split("/")
            if not is_inside or (envelope.ok and not ran):
                return None  # the call itself, or what its script asked of its host
            error = envelope.error
            said = "" if error is None else f" {error.code}: {one_line(error.message)}"
            return cut(f"→ {settled.tool_id}: {envelope.status.value}{said}", _MOST)
        case QuestionAsked(question=question):
            return question_line(question)
        case _:
            return None
