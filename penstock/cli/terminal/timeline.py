"""Shows what happens during a call: console lines, events, nested calls; with `--trace` its hops.

A `Timeline` guarantees that every event of the task is shown once, in order, although a reader that
is too slow is disconnected: it reads the rest from the log, starting after the last shown event.
Two things end the display: an event that ends or suspends the task, or `Runtime.wait`. The second
is needed when the task waits for a run that asks another question, because only that run's log has
this event.

A `Trace` records which functions of penstock a call enters, in order. It uses the interpreter's
profile hook, so the traced code contains nothing for it, and a process that does not trace pays
nothing. Only the functions in `HOPS` are recorded, each at its first entry.

Proof: tests/cli/terminal/test_timeline.py, and the burst in tests/cli/tools/test_run_tool.py.
"""

import asyncio
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import aclosing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from penstock.app.runtime import Runtime
from penstock.chat.wire_forms import note_part
from penstock.cli.terminal.output import hanging, note
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
from penstock.core.events.roles import waits_for_tasks
from penstock.core.ids import LogId, TaskId
from penstock.core.text import cut, one_line
from penstock.tools.detached_calls import DETACHED

CUT = "the output is cut here: the stream ended before the task"
_MAX_CHARACTERS = 300


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
        waiting = asyncio.create_task(self._runtime.requests.wait(self._task_id))
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
        for record in await self._runtime.parts.storage.log.read(
            LogId(self._task_id), after=self._seq
        ):
            if record.task_id == self._task_id:
                self._take(record)

    async def _follow(self) -> bool:
        """Show new events; False if the stream ended before the task."""
        log_id = LogId(self._task_id)
        feed = self._runtime.requests.follow(log_id, after=self._seq, task_id=self._task_id)
        async with aclosing(feed):
            async for item in feed:
                if not isinstance(item, Record):
                    continue
                self._take(item)
                if waits_for_tasks(item.event):
                    continue
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
            return cut(f"→ {settled.tool_id}: {envelope.status.value}{reason}", _MAX_CHARACTERS)
        case QuestionAsked(question=question):
            return question_line(question)
        case _:
            return None


PACKAGE = Path(__file__).parents[2]
HOPS: Mapping[str, str] = {
    "app/runtime.call": "the runtime receives the call",
    "chat/inbox.request": "the call becomes a task with a log of its own",
    "store/logs/sql_log.begin": "the request is on disk before anything happens, with the lease",
    "engine/session_state.fold": "the state is folded from the log",
    "engine/launcher.wake": "the log needs a run",
    "engine/activation.run": "runs the tasks of the log: no other process works on it",
    "chat/calls/direct_calls.work": "the work of this task is one call",
    "tools/invoker.call": "every call of every tool goes through here",
    "engine/ledger.find": "replay: if the call is settled, return that outcome",
    "tools/admission.resolve": "resolve: the tool by its id",
    "tools/policy.find_refusal": "permit: may this caller use the tool?",
    "core/json_values/schema.problems": "validate: every problem of the input, by path",
    "tools/policy.decide": "ask: allow, ask a person, or deny",
    "engine/ledger.start": "a write is recorded before it starts",
    "engine/budget.reserve_call": "reserve: the budget of the whole task",
    "tools/python/function.run": "run: the function of the tool",
    "tools/artifacts.show": "settle: clip and preview the output, store all of it",
    "engine/ledger.settle": "settle: record the outcome, once",
    "store/logs/sql_log.append": "the outcome is on its way to disk",
    "engine/held_log.commit": "the outcome is on disk",
    "store/logs/sql_log.release": "releases the lease",
    "app/runtime.outcome_of": "the caller receives the envelope",
}
"""The recorded functions, with a description of each hop."""


class Trace:
    """Records hops of this process while `watch` is active."""

    def __init__(self, among: Collection[str] = HOPS) -> None:
        self._among = among
        self.hops: list[str] = []
        """The entered functions, in the order of their first entry."""

    @contextmanager
    def watch(self, *, is_wanted: bool = True) -> Iterator[None]:
        """Record hops until the block ends; do nothing if they are not wanted."""
        if not is_wanted:
            yield
            return
        sys.setprofile(self._enter)
        threading.setprofile(self._enter)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def text(self) -> str:
        """Return the hops as lines."""
        width = max((len(hop) for hop in self.hops), default=0)
        return "\n".join(
            f"{number:>3}  {hop:<{width}}  {HOPS[hop]}" for number, hop in enumerate(self.hops, 1)
        )

    def _enter(self, frame: FrameType, event: str, arg: Any) -> None:
        if event != "call" or frame.f_code.co_filename.startswith("<"):
            return
        path = Path(frame.f_code.co_filename)
        if PACKAGE not in path.parents:
            return
        place = path.relative_to(PACKAGE).with_suffix("").as_posix()
        name = f"{place}.{frame.f_code.co_name}"
        if name in self._among and name not in self.hops:
            self.hops.append(name)
