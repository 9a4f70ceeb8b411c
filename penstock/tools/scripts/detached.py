"""Calls that a script does not wait for: they belong to the task, and who asks again goes on."""

from penstock.core.call import Call, CallPath, is_below
from penstock.core.clock import Clock
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.events import StateWritten
from penstock.core.ids import QuestionId
from penstock.engine.ledger import Ledger
from penstock.tools.state import ALWAYS, TaskValues

DETACHED = "detached"
"""Below a task, in the paths of its calls that nobody waited for."""
PARTITION = "callTool.detached"
SUSPENDED = "SUSPENDED"


class DetachedCalls:
    """The calls of one task that were made with `wait: false`.

    Such a call has a place in the task and none in its caller. While it is open, every equal call
    takes it up; the task's values say how many there were, and who had the newest in hand last.
    """

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._values = TaskValues(ledger, clock)

    def find(self, call: Call, *, wait: bool) -> Call | None:
        """Return the call of the task that this one is to make; None: it makes its own."""
        name = _name(call.path)
        if wait and (PARTITION, name) not in self._ledger.task.values:
            return None
        written = self._values.find(PARTITION, name)
        if written is None:
            return None if wait else self._of_task(call, name, 1)
        number, by = written.value["number"], written.value["by"]
        found = self._of_task(call, name, number)
        is_open = self._ledger.find(found.path) is None and not is_below(call.path, found.path)
        if is_open or by == call.path:
            return found
        return None if wait else self._of_task(call, name, number + 1)

    def take(self, call: Call, found: Call) -> None:
        """Note who makes the call: its outcome goes there, and to nobody after."""
        name = _name(call.path)
        number = int(found.path.rpartition(".")[2])
        value = {"number": number, "by": call.path}
        written = self._values.write(PARTITION, name, value, ttl=None, if_revision=ALWAYS)
        before = self._values.find(PARTITION, name)
        if isinstance(written, StateWritten) and (before is None or before.value != value):
            self._ledger.put(call.path, written)

    def suspended(self, found: Call) -> Envelope:
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
