"""Flow runs that tools start: each is a task of its own, and a call finds its run again.

The id of a run is derived from the call, so a call that is entered again after a crash or a wait
finds the run that it started; the store refuses a second run of the same name. While a call waits,
its task lends its slot. `chat/children/ends` sends the end of a run to the waiting task. Shown by
tests/chat/children/test_tool_runs.py.
"""

from collections.abc import Callable
from contextlib import suppress

from penstock.chat.inbox import Inbox
from penstock.chat.requests import NewRun, TaskReply, run_requested
from penstock.chat.task_waiter import TaskWaiter
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.errors import NameTaken, NotFound, PenstockError, TaskOver
from penstock.core.ids import LogId, TaskId
from penstock.core.profile import Profile
from penstock.engine.run_slots import Slots
from penstock.tools.resources import FlowRequest, Runs

FindFlow = Callable[[str], object]
"""Finds a flow by its command. Raises NotFound."""


class ToolRuns:
    """Starts runs for calls, and waits for them."""

    def __init__(
        self, inbox: Inbox, waiter: TaskWaiter, find_flow: FindFlow, *, slots: Slots
    ) -> None:
        self._inbox = inbox
        self._waiter = waiter
        self._find_flow = find_flow
        self._slots = slots

    async def start(self, request: FlowRequest) -> TaskId:
        """Start a run, or return the one that the same call started before. Raises NotFound."""
        run_id = TaskId(f"task_{request.key}")
        # Looked up before the flow: a run that exists must continue even if its flow was removed.
        if await self._resumed(run_id, request.profile):
            return run_id
        self._find_flow(request.command)
        run = NewRun(
            command=request.command,
            task=request.task,
            inputs=request.inputs,
            depth=request.depth,
            waiter=request.waiter,
            autonomous=True if request.is_autonomous else None,
        )
        with suppress(NameTaken):
            requested = run_requested(run, request.profile)
            await self._inbox.request(LogId(run_id), run_id, requested)
        return run_id

    async def wait(self, run_id: TaskId, waiter: TaskId) -> Envelope | None:
        """Wait while a run works; return its outcome, or None if it waits for people.

        A waiting task that is a run itself lends its slot meanwhile.
        """
        async with self._slots.lent(waiter):
            reply = await self._waiter.wait(run_id)
        if reply is None:
            raise NotFound(f"the run {run_id!r} is gone")
        return _outcome(reply) if reply.status.is_final else None

    async def abort(self, task_id: TaskId, profile: Profile) -> None:
        """Cancel a run, unless it has ended."""
        with suppress(TaskOver, NotFound):
            await self._inbox.cancel(task_id, profile)

    async def _resumed(self, run_id: TaskId, profile: Profile) -> bool:
        """Return whether the run exists; if it was left unfinished, wake it."""
        with suppress(NotFound):
            await self._inbox.resume(run_id, profile)
            return True
        return False


def _outcome(reply: TaskReply) -> Envelope:
    if reply.envelope is not None:
        return reply.envelope
    error = ErrorDetail(code=PenstockError.code, message=f"the run ended as {reply.status.value}")
    return Envelope(Status.FAILED, None, reply.error or error)


def late_runs(find: Callable[[], ToolRuns]) -> Runs:
    """Return the runs that calls may start. They are looked up at the first use."""

    async def start(request: FlowRequest) -> TaskId:
        return await find().start(request)

    async def wait(run_id: TaskId, waiter: TaskId) -> Envelope | None:
        return await find().wait(run_id, waiter)

    async def abort(run_id: TaskId, profile: Profile) -> None:
        await find().abort(run_id, profile)

    return Runs(start=start, wait=wait, abort=abort)
