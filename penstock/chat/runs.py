"""Runs of flows that tools want: each is a task of its own, and a call finds its run again."""

from collections.abc import Callable
from contextlib import suppress

from penstock.chat.inbox import Inbox
from penstock.chat.message import NewRun, Reply
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.errors import NameTaken, NotFound, PenstockError, TaskOver
from penstock.core.events.events import CancelRequested, Entry, Event
from penstock.core.events.flow_events import FlowRequested, RunEnded
from penstock.core.ids import LogId, TaskId
from penstock.core.profile import Profile
from penstock.engine.held_log import HeldLog
from penstock.engine.slots import Slots
from penstock.engine.task_state import TaskState
from penstock.store.logs.log import Log
from penstock.tools.callbacks import FlowRequest

Look = Callable[[str], object]
"""Looks for a flow by its command. Raises NotFound."""


class ToolRuns:
    """Begins runs for calls, and waits for them while they are at work."""

    def __init__(self, inbox: Inbox, look: Look, slots: Slots) -> None:
        self._inbox = inbox
        self._look = look
        self._slots = slots

    async def begin(self, request: FlowRequest) -> TaskId:
        """Begin a run, or return the one that the same call began before. Raises NotFound.

        The name of the run comes from the call, so that this holds however long people take.
        """
        run_id = TaskId(f"task_{request.key}")
        if await self._has_begun(run_id, request.profile):
            return run_id
        self._look(request.command)
        run = NewRun(
            command=request.command,
            task=request.task,
            inputs=request.inputs,
            depth=request.depth,
            waiter=request.waiter,
            autonomous=True if request.is_autonomous else None,
        )
        with suppress(NameTaken):
            await self._inbox.start_flow(run, request.profile, task_id=run_id)
        return run_id

    async def end(self, run_id: TaskId, waiter: TaskId) -> Envelope | None:
        """Wait while a run is at work; returns its outcome, None while only people bring it on.

        The task that waits has lent its slot meanwhile, if it is a run itself.
        """
        async with self._slots.lent(waiter):
            reply = await self._inbox.wait(run_id)
        if reply is None:
            raise NotFound(f"the run {run_id!r} is gone")
        return _outcome(reply) if reply.status.is_final else None

    async def abort(self, task_id: TaskId, profile: Profile) -> None:
        """End a run, unless it has ended."""
        with suppress(TaskOver, NotFound):
            await self._inbox.cancel(task_id, profile)

    async def _has_begun(self, run_id: TaskId, profile: Profile) -> bool:
        """Whether there is the run; it goes on then, if who began it left it in the middle."""
        with suppress(NotFound):
            await self._inbox.go_on(run_id, profile)
            return True
        return False


class RunNotifier:
    """Tells a task that waits for a run of the end of that, and runs that nobody waits any more."""

    def __init__(self, log: Log, wake: Callable[[LogId], None]) -> None:
        self._log = log
        self._wake = wake

    async def tell(self, held: HeldLog, task: TaskState) -> None:
        """Tell whom it concerns that a task has ended; more than once does no harm."""
        brief = task.brief
        if isinstance(brief, FlowRequested) and brief.waiter_log and brief.waiter:
            await self._send(brief.waiter_log, RunEnded(run_id=task.task_id), brief.waiter)
        for run_id in sorted(task.awaited):
            await self._send(LogId(run_id), CancelRequested(), run_id)

    async def _send(self, log_id: LogId, event: Event, task_id: TaskId) -> None:
        """Say something in a log; nothing if the task in it has ended, or was erased."""
        with suppress(TaskOver, NotFound):
            await self._log.send(log_id, [Entry(event, task_id)], on_way=self._wake)


def _outcome(reply: Reply) -> Envelope:
    if reply.envelope is not None:
        return reply.envelope
    wrong = ErrorDetail(code=PenstockError.code, message=f"the run ended as {reply.status.value}")
    return Envelope(Status.FAILED, None, reply.error or wrong)
