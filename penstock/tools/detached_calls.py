"""Calls with `wait=False`: they belong to the task, and an equal later call resumes them.

A call with `wait=False` that meets an approval or a question returns `suspended`; its caller
continues. Guarantees: the work of such a call happens once, an equal call of the task resumes it
while it is open, and its outcome goes to the one caller that the log records for it.

How: the call gets a path directly below the task (`<task>/detached/<tool>#<hash>.<number>`), not
below its caller. A task value in the partition `callTool.detached` holds the newest number and the
caller that took it last. Callers in one process take turns by `Ledger.turns`; `_find` is repeated
after each wait, because another caller may have settled the call meanwhile.

A function that runs again after a crash must not look as if it crashed at its own work while it
waited here (decision 003). As the call is not below it, a started mark below the function
represents the wait, and is settled on disk before the function continues.

Proof: `tests/tools/test_detached_calls.py`.
"""

from collections.abc import Awaitable, Callable

from penstock.core.call import Call, CallPath, is_below
from penstock.core.envelope import Envelope, suspended
from penstock.core.errors import Suspend
from penstock.core.events.events import CallSettled, CallStarted, StateWritten
from penstock.tools.invocation import Invocation
from penstock.tools.tasks.task_values import ALWAYS, TaskValues

DETACHED = "detached"
"""The path segment of detached calls below a task, and of the mark of a wait below a call."""
PARTITION = "callTool.detached"

PassOn = Callable[[Call], Awaitable[Envelope]]
"""Makes a call, and settles it at its path; by default through the invoker."""
Record = Callable[[Call, Envelope], object]
"""Records the outcome under the caller's own path; the work has a path below the task."""


class DetachedCalls:
    """Makes the nested calls of one entry of a tool, with or without `wait`."""

    __slots__ = ("_invocation", "_ledger", "_pass_on", "_record", "_values")

    def __init__(
        self, invocation: Invocation, record: Record, pass_on: PassOn | None = None
    ) -> None:
        self._invocation = invocation
        self._pass_on = pass_on or invocation.pass_on
        self._ledger = invocation.ledger
        self._record = record
        self._values = TaskValues(invocation.ledger, invocation.edition.world.clock)

    async def make(self, call: Call, *, wait: bool) -> Envelope:
        """Make a call, or resume an equal detached call of the task.

        If the call waits for a person: with `wait`, raises Suspend, otherwise returns `suspended`.
        """
        while (detached := self._find(call, wait=wait)) is not None:
            async with self._ledger.turns[detached.path]:
                if self._find(call, wait=wait) != detached:
                    continue  # it was settled or replaced while this caller waited for its turn
                self._take(call, detached)
                try:
                    envelope = await self._pass_on(detached)
                except Suspend:
                    if wait:
                        raise
                    envelope = self._suspended(detached)
                self._record(call, envelope)
                if self._invocation.spec.is_ambiguous_when_cut:
                    await self._mark_continued(call)
                return envelope
        return await self._pass_on(call)

    def _find(self, call: Call, *, wait: bool) -> Call | None:
        """Return the detached call to make or resume; None if the call runs below its caller."""
        if self._ledger.find(call.path) is not None:
            return None
        name = _name(call.path)
        if wait and (PARTITION, name) not in self._ledger.task.records.values:
            return None
        written = self._values.find(PARTITION, name)
        if written is None:
            return None if wait else self._of_task(call, name, 1)
        number, by = written.value["number"], written.value["by"]
        if wait and by != call.path and self._has_started_itself(call.path):
            return None
        newest = self._of_task(call, name, number)
        # A call inside the detached call cannot resume it: it would wait for itself.
        is_open = self._ledger.find(newest.path) is None and not is_below(call.path, newest.path)
        if is_open or by == call.path:
            return newest
        return None if wait else self._of_task(call, name, number + 1)

    def _has_started_itself(self, path: CallPath) -> bool:
        """Whether the call started under its own path before an equal one was detached."""
        task = self._ledger.task
        return any(_is_in(open_path, path) for open_path in (*task.waits.asked, *task.entered))

    def _take(self, call: Call, detached: Call) -> None:
        """Record the caller. Only this caller receives the outcome."""
        name = _name(call.path)
        number = int(detached.path.rpartition(".")[2])
        value = {"number": number, "by": call.path}
        written = self._values.write(PARTITION, name, value, ttl=None, if_revision=ALWAYS)
        before = self._values.find(PARTITION, name)
        if isinstance(written, StateWritten) and (before is None or before.value != value):
            self._ledger.put(call.path, written)
        if self._invocation.spec.is_ambiguous_when_cut:
            self._mark_waiting(call)

    def _mark_waiting(self, call: Call) -> None:
        """Record that the function waits here, and does not work itself."""
        mark = self._mark(call)
        key = self._ledger.idempotency_key(mark)
        self._ledger.add(CallStarted(tool_id=call.tool_id, idempotency_key=key), mark)

    async def _mark_continued(self, call: Call) -> None:
        """Settle the mark on disk. Without it, a crash of the function would look like a wait."""
        done = CallSettled(tool_id=call.tool_id, envelope=Envelope.success(None), ran=False)
        self._ledger.settle(self._mark(call), done, is_awaited=True)
        await self._ledger.held.commit()
        await self._ledger.held.make_sure()

    def _mark(self, call: Call) -> CallPath:
        own = call.path.rpartition("/")[2]
        return CallPath(f"{self._invocation.call.path}/{DETACHED}/{own}")

    def _suspended(self, detached: Call) -> Envelope:
        waiting = self._ledger.task.waits.waiting.values()
        inside = [question for question in waiting if _is_in(question.path, detached.path)]
        return suspended([question.question_id for question in inside])

    def _of_task(self, call: Call, name: str, number: int) -> Call:
        path = CallPath(f"{self._ledger.task.task_id}/{DETACHED}/{name}.{number}")
        return Call(path, call.tool_id, call.input, call.depth)


def _name(path: CallPath) -> str:
    """Return the part of the path that equal calls share: the tool and the hash of the input."""
    tool_id, _, rest = path.rpartition("/")[2].rpartition("#")
    return f"{tool_id}#{rest.partition('.')[0].partition('~')[0]}"


def _is_in(path: CallPath, call: CallPath) -> bool:
    return path == call or is_below(path, call)
