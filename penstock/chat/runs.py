"""Runs of flows that tools want: each is a task of its own, and a call finds its run again."""

from collections.abc import Callable
from contextlib import suppress

from penstock.chat.desk import Desk
from penstock.chat.message import NewRun, Reply
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.errors import NotFound, PenstockError, TaskOver
from penstock.core.ids import TaskId
from penstock.core.profile import Profile
from penstock.core.task import TaskStatus
from penstock.core.world import World
from penstock.tools.errands import RunErrand, Runs

Look = Callable[[str], object]
"""Looks for a flow by its command. Raises NotFound."""


class ToolRuns:
    """Begins runs for calls, and waits for them."""

    def __init__(self, desk: Desk, look: Look, world: World) -> None:
        self._desk = desk
        self._look = look
        self._world = world

    @property
    def errand(self) -> Runs:
        """What tools may have done of this."""
        return Runs(begin=self.begin, end=self.end, abort=self.abort)

    async def begin(self, errand: RunErrand) -> TaskId:
        """Begin a run, or return the one that the same call began before. Raises NotFound."""
        self._look(errand.command)
        run = NewRun(
            command=errand.command,
            task=errand.task,
            inputs=errand.inputs,
            depth=errand.depth,
            idempotency=(errand.key, errand.key),
        )
        return await self._desk.start_flow(run, errand.profile)

    async def end(self, task_id: TaskId) -> Envelope:
        """Wait until a run has ended, also while it waits for people; returns its outcome."""
        while True:
            reply = await self._desk.wait(task_id)
            if reply is None:
                raise NotFound(f"the run {task_id!r} is gone")
            if reply.status is not TaskStatus.SUSPENDED:
                return _outcome(reply)
            await self._world.clock.sleep(self._world.limits.poll_seconds)

    async def abort(self, task_id: TaskId, profile: Profile) -> None:
        """End a run, unless it has ended."""
        with suppress(TaskOver, NotFound):
            await self._desk.cancel(task_id, profile)


def _outcome(reply: Reply) -> Envelope:
    if reply.envelope is not None:
        return reply.envelope
    wrong = ErrorDetail(code=PenstockError.code, message=f"the run ended as {reply.status.value}")
    return Envelope(Status.FAILED, None, reply.error or wrong)
