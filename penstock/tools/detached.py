"""Calls that code does not wait for: they belong to the task, and who asks again goes on."""

from collections.abc import Callable

from penstock.core.call import Call, CallPath, is_below
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.events.events import CallSettled, CallStarted, StateWritten
from penstock.core.ids import QuestionId
from penstock.core.signals import Suspend
from penstock.tools.invocation import Invocation
from penstock.tools.state import ALWAYS, TaskValues

DETACHED = "detached"
"""Below a task, in the paths of its calls that nobody waited for; below a call, where it waits."""
PARTITION = "callTool.detached"
SUSPENDED = "SUSPENDED"

Record = Callable[[Call, Envelope], object]
"""Puts into the ledger what a call got whose work stands elsewhere in the task."""


class DetachedCalls:
    """What one entry of a tool calls, with `wait` or without.

    A call without has a place in the task and none in its caller. While it is open, every equal
    call takes it up; the task's values say how many there were, and who had the newest in hand
    last.
    """

    __slots__ = ("_invocation", "_ledger", "_record", "_values")

    def __init__(self, invocation: Invocation, record: Record) -> None:
        self._invocation = invocation
        self._ledger = invocation.ledger
        self._record = record
        self._values = TaskValues(invocation.ledger, invocation.inside.world.clock)

    async def make(self, call: Call, *, wait: bool) -> Envelope:
        """Make a call, or take an equal one of the task up.

        Without `wait` it answers `suspended` when a person is waited for, else it raises Suspend.
        """
        while (found := self._find(call, wait=wait)) is not None:
            async with self._ledger.turns[found.path]:
                if self._find(call, wait=wait) != found:
                    continue
                self._take(call, found)
                try:
                    envelope = await self._invocation.pass_on(found)
                except Suspend:
                    if wait:
                        raise
                    envelope = self._suspended(found)
                self._record(call, envelope)
                if self._invocation.spec.is_cut_short:
                    await self._show_that_it_goes_on(call)
                return envelope
        return await self._invocation.pass_on(call)

    def _find(self, call: Call, *, wait: bool) -> Call | None:
        """Return the call of the task that this one is to make; None: it makes its own."""
        if self._ledger.find(call.path) is not None:
            return None
        name = _name(call.path)
        if wait and (PARTITION, name) not in self._ledger.task.values:
            return None
        written = self._values.find(PARTITION, name)
        if written is None:
            return None if wait else self._of_task(call, name, 1)
        number, by = written.value["number"], written.value["by"]
        if wait and by != call.path and self._goes_on_itself(call.path):
            return None
        found = self._of_task(call, name, number)
        is_open = self._ledger.find(found.path) is None and not is_below(call.path, found.path)
        if is_open or by == call.path:
            return found
        return None if wait else self._of_task(call, name, number + 1)

    def _goes_on_itself(self, path: CallPath) -> bool:
        """Whether the call was made before there was an equal one, and waits for something."""
        task = self._ledger.task
        return any(_is_in(each, path) for each in (*task.asked, *task.begun))

    def _take(self, call: Call, found: Call) -> None:
        """Note who makes the call: its outcome goes there, and to nobody after."""
        name = _name(call.path)
        number = int(found.path.rpartition(".")[2])
        value = {"number": number, "by": call.path}
        written = self._values.write(PARTITION, name, value, ttl=None, if_revision=ALWAYS)
        before = self._values.find(PARTITION, name)
        if isinstance(written, StateWritten) and (before is None or before.value != value):
            self._ledger.put(call.path, written)
        if self._invocation.spec.is_cut_short:
            self._show_that_it_waits(call)

    def _show_that_it_waits(self, call: Call) -> None:
        """Let the log tell a function that waits here from one that was cut at its own work.

        What it waits for stands nowhere below it, but for this mark.
        """
        mark = self._mark(call)
        key = self._ledger.idempotency_key(mark)
        self._ledger.add(CallStarted(tool_id=call.tool_id, idempotency_key=key), mark)

    async def _show_that_it_goes_on(self, call: Call) -> None:
        """Return once that is on disk: until then, what it does now looks like what waits."""
        done = CallSettled(tool_id=call.tool_id, envelope=Envelope.success(None), ran=False)
        self._ledger.settle(self._mark(call), done, is_awaited=True)
        await self._ledger.held.commit()
        await self._ledger.held.make_sure()

    def _mark(self, call: Call) -> CallPath:
        own = call.path.rpartition("/")[2]
        return CallPath(f"{self._invocation.call.path}/{DETACHED}/{own}")

    def _suspended(self, found: Call) -> Envelope:
        """Return what a call that does not wait answers: the questions that are open in it."""
        waiting = self._ledger.task.waiting.values()
        return suspended([each.question_id for each in waiting if _is_in(each.path, found.path)])

    def _of_task(self, call: Call, name: str, number: int) -> Call:
        path = CallPath(f"{self._ledger.task.task_id}/{DETACHED}/{name}.{number}")
        return Call(path, call.tool_id, call.input, call.depth)


def suspended(questions: list[QuestionId]) -> Envelope:
    """Return the envelope of a call that waits for people."""
    said = f"waits for a person to answer {', '.join(questions)}"
    error = ErrorDetail(
        code=SUSPENDED, message=said, retryable=True, details={"question_ids": questions}
    )
    return Envelope(Status.SUSPENDED, error=error)


def _name(path: CallPath) -> str:
    """Return what equal calls have in common: the tool, and the hash of the input."""
    tool_id, _, rest = path.rpartition("/")[2].rpartition("#")
    return f"{tool_id}#{rest.partition('.')[0].partition('~')[0]}"


def _is_in(path: CallPath, call: CallPath) -> bool:
    return path == call or is_below(path, call)
