"""`task.runSubagent`: an agent that works in a call of a script, without a task of its own.

Guarantees: its replies and calls are recorded below the task, so a script that runs again repeats
none of them; the time of the call counts. If it needs a person, the function returns `suspended`,
and the same arguments, in this call or a later one of the task, continue it after the answer.

How: it is a detached call (`tools/detached_calls`), whose work is an agent in a frame instead of a
tool. The agent is that of the call, as it would work on a child. Proof:
tests/journeys/test_script_subagents.py.
"""

from typing import Any

from penstock.core.call import Call, CallPath, Effect
from penstock.core.call_errors import CallError, DepthExceeded
from penstock.core.envelope import Envelope, Status
from penstock.core.events.child_events import ChildRequested
from penstock.core.events.events import CallSettled
from penstock.sandbox.bridge import HostCallResult
from penstock.tools.detached_calls import DetachedCalls
from penstock.tools.invocation import Invocation
from penstock.tools.resources import AgentRequest
from penstock.tools.scripts.host import Answer
from penstock.tools.scripts.host_children import worker
from penstock.tools.scripts.recording import Recording
from penstock.tools.tasks.child_forms import NewChild, checked, output_of_text
from penstock.tools.tasks.child_tasks import Spawner

NAME = "task.runSubagent"


class SubagentCalls:
    """The function of `flo.task` that runs an agent in place."""

    def __init__(self, invocation: Invocation, recording: Recording) -> None:
        self._invocation = invocation
        self._recording = recording
        self._tasks = Spawner(invocation)

    def run(self, arguments: Any) -> Answer:
        """Run an agent to its answer, or until it needs a person."""
        new = checked(worker(arguments))
        self._invocation.check_running()
        path = self._recording.place(NAME, arguments, Effect.WRITE)
        if (recorded := self._recording.find(path)) is not None:
            return recorded
        return self._recording.live(path, self._ran(path, new, arguments))

    async def _ran(self, path: CallPath, new: NewChild, arguments: Any) -> HostCallResult:
        invocation = self._invocation
        try:
            child = self._tasks.described(new)
            self._tasks.port.check(child, invocation.caller)
            work = _Work(invocation, self._tasks, child, path)
            # Detached: an approval inside must not park the script, and a later call with equal
            # arguments has another path and still has to find the open work.
            call = Call(path, NAME, arguments, invocation.call.depth + 1)
            detached = DetachedCalls(invocation, _leave, work.make)
            envelope = await detached.make(call, wait=False)
        except CallError as error:
            return self._recording.refuse(path, NAME, error)
        named = {"subagent_task_id": self._id_of(path), "worker_kind": new.worker_kind}
        return self._recording.settle(path, NAME, named | _result(envelope))

    def _id_of(self, path: CallPath) -> str:
        return f"subagent_{self._invocation.ledger.idempotency_key(path)}"


class _Work:
    """One agent in place."""

    def __init__(
        self, invocation: Invocation, tasks: Spawner, child: ChildRequested, called_at: CallPath
    ) -> None:
        self._invocation = invocation
        self._tasks = tasks
        self._child = child
        self._called_at = called_at

    async def make(self, call: Call) -> Envelope:
        """Continue the agent in its frame, the path of the call, and settle it there.

        Raises DepthExceeded; lets Signals pass.
        """
        ledger = self._invocation.ledger
        request = AgentRequest(
            agent=None,
            task="",
            path=call.path,
            caller=self._invocation.caller,
            called_at=self._called_at,
        )
        try:
            text = await self._tasks.port.work_here(self._child, request, ledger)
        except DepthExceeded:
            # A mistake of the script, not of the agent: nothing was started that could be settled.
            raise
        except CallError as error:
            envelope = error.envelope()
        else:
            envelope = Envelope.success(self._invocation.caller.secrets.json(text))
        # Settled at the frame: otherwise equal arguments would continue an agent that has ended.
        ledger.settle(call.path, CallSettled(tool_id=NAME, envelope=envelope, ran=False))
        return envelope


def _leave(call: Call, envelope: Envelope) -> None:
    """Record nothing: the function records its own result."""


def _result(envelope: Envelope) -> dict[str, Any]:
    error = envelope.error
    if error is None:
        text = envelope.output
        return {"status": "completed", "output": output_of_text(text), "output_text": text}
    nothing = {"output": None, "output_text": ""}
    if envelope.status is Status.SUSPENDED:
        waits_for = {"question_ids": (error.details or {}).get("question_ids", [])}
        return {"status": "suspended", **nothing, "suspension": waits_for}
    return {"status": "failed", **nothing, "error": error.message}
