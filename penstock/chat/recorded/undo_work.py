"""The body of a task that is an undo: the reverts of the calls in its plan, newest first.

It makes the plan again at each entry, from logs alone, and it is the same plan each time, because
the undone task has ended. Reverts that are settled are replayed by the ledger. A value or a file is
put back by a change in the transaction that records it, so that happens once, too.

Shown by tests/journeys/test_undo.py and tests/chat/recorded/test_undo_work.py.
"""

from collections.abc import Awaitable
from typing import Protocol

from msgspec.structs import replace

from penstock.chat.recorded.stored_before import PUT_BACK, why_left
from penstock.chat.recorded.undo import PlannedCall
from penstock.chat.recorded.undo_reader import UndoReader
from penstock.core.call import ToolCall
from penstock.core.envelope import Envelope, ErrorDetail, Json, Status
from penstock.core.errors import NotFound, StoreError
from penstock.core.events.events import CallRequested, CallSettled
from penstock.core.ids import CallId, TaskId
from penstock.core.json_values.json_text import parse_json
from penstock.core.profile import Profile
from penstock.engine.held_log import HeldLog
from penstock.engine.ledger import Ledger
from penstock.engine.session_state import SessionState
from penstock.engine.task_state import TaskState
from penstock.tools.invoker import Invoker
from penstock.tools.policy import Caller

LEFT = "The calls before it are left as they are: mend the cause and undo the task again."


class Calls(Protocol):
    """Makes calls without a model; `chat/calls/direct_calls` implements it."""

    def caller(self, state: SessionState, profile: Profile) -> Caller:
        """Return the caller of a task of the profile."""
        ...

    def ledger(self, held: HeldLog, task: TaskState) -> Ledger:
        """Return the ledger of the task."""
        ...

    def make(
        self,
        held: HeldLog,
        task: TaskState,
        call: ToolCall,
        caller: Caller,
        *,
        place: str,
        invoker: Invoker,
    ) -> Awaitable[Envelope]:
        """Run the call until it is settled. Raises Suspend while it waits for a person."""
        ...


class UndoWork:
    """Takes the calls of a task back."""

    def __init__(self, calls: Calls, reader: UndoReader) -> None:
        self._calls = calls
        self._reader = reader

    async def take_back(self, held: HeldLog, task: TaskState, brief: CallRequested) -> Envelope:
        """Make the reverts until all are settled, or one fails. Raises Suspend while one waits."""
        undone = await self._reader.find_task(TaskId(brief.undoes or ""))
        if undone is None:
            return _failed(NotFound.code, f"the task {brief.undoes!r} was erased")
        plan = await self._reader.plan(undone, before=task.task_id)
        profile = Profile.from_noted(brief.profile_id, brief.permissions)
        caller = self._calls.caller(held.state, profile)
        done, left = list[Json](), list[Json]()
        for planned in plan.chosen(brief.input.get("call")):
            call, settled = planned.call, planned.settled
            assert settled is not None  # noqa: S101  only calls with an outcome are chosen
            named = {"call": call.id, "tool": call.tool}
            if settled.replaced:
                made = await self._put_back(held, task, planned)
                envelope = made.envelope
                if reason := why_left(made):
                    left.append({**named, "reason": reason})
                    continue
            else:
                envelope = await self._revert(held, task, planned, caller)
            if (error := envelope.error) is not None:
                return _stopped(planned, error, done)
            done.append(named)
        output = {"task": brief.undoes, "undone": done}
        return Envelope.success(output | ({"left": left} if left else {}))

    async def _revert(
        self, held: HeldLog, task: TaskState, planned: PlannedCall, caller: Caller
    ) -> Envelope:
        """Make the revert of one call."""
        settled = planned.settled
        assert settled is not None  # noqa: S101
        revert = settled.revert
        assert revert is not None  # noqa: S101
        try:
            output = (await self._reader.artifacts.whole(settled)).output
        except (NotFound, StoreError) as error:
            return _failed(error.code, f"the output of the call cannot be read: {error}")
        given = {"input": parse_json(revert.input or "{}"), "output": output}
        call = ToolCall(CallId(""), revert.tool_id, given)
        return await self._calls.make(
            held,
            task,
            call,
            replace(caller, revert=revert.tool_id, agent=revert.agent or caller.agent),
            place=planned.key,
            invoker=self._reader.invoker_of(revert.agent, revert.tool_id),
        )

    async def _put_back(self, held: HeldLog, task: TaskState, planned: PlannedCall) -> CallSettled:
        """Put back what one call replaced, in one transaction with the record of it."""
        ledger = self._calls.ledger(held, task)
        place = f"{task.task_id}/{planned.key}"
        path = ledger.occurrences(place).path(PUT_BACK, {})
        if (settled := ledger.find(path)) is not None:
            return settled
        assert planned.settled is not None  # noqa: S101
        change = await self._reader.stored.change(planned.settled.replaced)
        done = CallSettled(tool_id=PUT_BACK, envelope=Envelope.success(None), ran=False)
        if not isinstance(change, str):
            return await ledger.change(path, done, change)
        settled = replace(done, envelope=Envelope.success({"ok": False, "reason": change}))
        ledger.settle(path, settled)
        return settled


def _stopped(planned: PlannedCall, error: ErrorDetail, done: list[Json]) -> Envelope:
    """Return the outcome of an undo that a failed revert ends."""
    call = planned.call
    what = f"{call.revert!r} could not take back" if call.revert else "penstock could not put back"
    message = f"{what} {call.tool!r} (call {call.id}): {error.message} {LEFT}"
    details = {"call": call.id, "undone": done, **(error.details or {})}
    return Envelope(Status.FAILED, error=replace(error, message=message, details=details))


def _failed(code: str, message: str) -> Envelope:
    return Envelope(Status.FAILED, error=ErrorDetail(code=code, message=message))
