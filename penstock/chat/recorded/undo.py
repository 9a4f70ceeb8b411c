"""Undo: what can be taken back of a task, and what was.

Guarantees: each call is taken back once, over crashes and over any number of requests; a revert
that may or may not have happened is not made again unless a person names its call; a revert that
fails stops the undo, and the next undo continues with what is left.

How: a plan is computed from logs alone. The log of the task says what happened, and what each call
needs to be taken back; the logs of its undos say what was taken back since. An undo is a task of
its own (`undo_work.py`). Its id follows from the id of the task at the top of the family of the
undone one, and its number, so two requests at once start one undo: the store refuses the second
name. The path of each of its calls begins with the key of the call which it takes back: the number
of the event that settled it, and its task. A crash
or a question ends the activation, and the next one makes the same plan again, because the undone
task has ended; reverts that are settled are replayed by the ledger.

Shown by tests/chat/recorded/test_undo.py and tests/journeys/test_undo.py.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.chat.recorded.stored_before import PUT_BACK, shown, why_left
from penstock.chat.recorded.task_family import (
    covered_by,
    own_records,
    started_by,
)
from penstock.core.call import is_below
from penstock.core.call_errors import Interrupted, ToolTimeout
from penstock.core.clock import Moment
from penstock.core.envelope import ErrorDetail, Json
from penstock.core.events.events import CallSettled, CallStarted, Record
from penstock.core.events.flow_events import AgentStarted
from penstock.core.events.history_events import Erased
from penstock.core.ids import TaskId
from penstock.core.json_values.json_text import compact, parse_json
from penstock.core.reply import Question
from penstock.core.task import TaskRecord
from penstock.core.text import cut
from penstock.tools.spec import ToolSpec

UndoStatus = Literal["ready", "undone", "unclear", "impossible"]
FindTool = Callable[[str, str], ToolSpec | None]
"""Finds a tool of an agent by the agent's name and the tool's id."""


class UndoCall(Struct, frozen=True, kw_only=True):
    """A call that had an effect, and whether it can be taken back.

    Example:
        >>> from penstock import UndoCall
        >>> call = UndoCall(id="7", tool="send_mail", status="impossible", reason="has no revert")
        >>> call.status
        'impossible'
    """

    id: str
    """The number of the event that settled it, and `@task_…` if that is an event of another task,
    which worked for the undone one. `--call` and `callId` take it."""
    tool: str
    """The id of its tool."""
    status: UndoStatus
    """`ready`: an undo takes it back. `undone`: it was taken back. `unclear`: its revert was cut,
    and may or may not have happened. `impossible`: see `reason`."""
    reason: str = ""
    """Why it is not ready, or why its last revert failed."""
    revert: str = ""
    """The tool that takes it back."""
    input: Json | None = None
    """The input that it ran with, if the log has it."""
    output: str = ""
    """The beginning of what it returned, as text, if the log does not have its input."""

    def to_wire(self) -> dict[str, Any]:
        """Return its form in JSON."""
        wire: dict[str, Any] = {"id": self.id, "tool": self.tool, "status": self.status}
        names = ("reason", "revert", "input", "output")
        more = {name: getattr(self, name) for name in names}
        return wire | {name: value for name, value in more.items() if value not in ("", None)}


class Undo(Struct, frozen=True, kw_only=True):
    """An undo of a task: what can be taken back and what cannot, or what came of it.

    Example:
        >>> from penstock import Undo
        >>> Undo(task_id="task_1", status="nothing", calls=()).undo_id is None
        True
    """

    task_id: str
    """The task that is undone."""
    status: str
    """`planned` after a dry run, `nothing` if there is nothing to take back; else the status of the
    undo: `running`, `suspended`, `blocked`, `succeeded`, `failed` or `cancelled`."""
    calls: tuple[UndoCall, ...]
    """The calls that had an effect, in the order in which they are taken back."""
    undo_id: str | None = None
    """The task that takes the calls back; None if there is none."""
    questions: tuple[Question, ...] = ()
    """The questions that the undo waits for."""
    error: ErrorDetail | None = None
    """Why the undo stopped before its end."""

    def to_wire(self) -> dict[str, Any]:
        """Return its form in JSON."""
        return {
            "taskId": self.task_id,
            "status": self.status,
            "undoId": self.undo_id,
            "calls": [each.to_wire() for each in self.calls],
            "questions": [each.id for each in self.questions],
            "error": None if self.error is None else self.error.to_wire(),
        }


class PlannedCall(Struct, frozen=True):
    """A call of a plan, with what the log has of it."""

    call: UndoCall
    settled: CallSettled | None = None
    """None of a call that has no outcome."""
    key: str = ""
    """Names it in the undos of its family: its id as seen from the top."""
    at: Moment = Moment(0)


class UndoPlan(Struct, frozen=True, kw_only=True):
    """The calls of a task that had an effect, newest first, and the undos that reached them."""

    calls: Sequence[PlannedCall]
    undos: Sequence[TaskRecord] = field(default_factory=tuple)
    top: TaskId = TaskId("")
    """The task at the top of its family, by which the undos of all its tasks are named."""
    number: int = 1
    """The number of the next undo in the family."""
    working: Sequence[TaskId] = ()
    """The tasks of the plan that have not ended."""

    @property
    def shown(self) -> tuple[UndoCall, ...]:
        """The calls as people see them."""
        return tuple(each.call for each in self.calls)

    def chosen(self, call_id: str | None) -> list[PlannedCall]:
        """Return what an undo takes back: all that is ready, or one call.

        A call that is named may also be unclear: a person has looked at what happened.
        """
        if call_id is None:
            return [each for each in self.calls if each.call.status == "ready"]
        may = ("ready", "unclear")
        return [each for each in self.calls if call_id in _ids(each) and each.call.status in may]

    def find(self, call_id: str) -> PlannedCall | None:
        """Return a call by its id, or by the id that its model gave it."""
        return next((each for each in self.calls if call_id in _ids(each)), None)


def planned_calls(records: Sequence[Record], find_tool: FindTool) -> list[PlannedCall]:
    """Return the calls of a task that had an effect, newest first.

    The calls that a fork copied are those of the other task: it takes them back, not its copy.
    """
    records = own_records(records)
    settled = {each.path: each for each in records if isinstance(each.event, CallSettled)}
    begun = {each.path: each for each in records if isinstance(each.event, CallStarted)}
    frames = {each.path for each in records if isinstance(each.event, AgentStarted)}
    frames |= started_by(records).keys()
    covered = covered_by(records)
    planned: dict[int, PlannedCall] = {}
    for path, record in {**begun, **settled}.items():
        if path is None or any(is_below(path, outer) for outer in covered):
            continue
        event = record.event
        if isinstance(event, CallSettled) and event.revert is not None:
            planned[record.seq] = _settled(record.seq, event, find_tool)
        elif isinstance(event, CallSettled) and event.replaced:
            if not all(each.is_gone for each in event.replaced):
                planned[record.seq] = _stored(record.seq, event)
        elif isinstance(event, CallSettled) and _stores(event, find_tool):
            call = UndoCall(id=str(record.seq), tool=event.tool_id, status="impossible")
            planned[record.seq] = PlannedCall(replace(call, reason=STORED), event)
        elif path not in begun or path in frames or _is_frame(event, find_tool):
            continue
        elif isinstance(event, CallSettled):
            planned[record.seq] = _settled(record.seq, event, find_tool)
        elif isinstance(event, CallStarted):
            planned[record.seq] = _open(record.seq, event)
    erased = [each for each in records if isinstance(each.event, Erased)]
    return [*(planned[seq] for seq in sorted(planned, reverse=True)), *map(_erased, erased)]


def _stores(event: CallSettled, find_tool: FindTool) -> bool:
    """Whether a call changed a value or a file that penstock keeps."""
    tool = find_tool("", event.tool_id)
    is_change = tool.is_transactional if tool else _CHANGE.fullmatch(event.tool_id) is not None
    made = event.envelope.output
    return (
        is_change and event.envelope.ok and not (isinstance(made, dict) and made.get("ok") is False)
    )


def _stored(seq: int, event: CallSettled) -> PlannedCall:
    where = shown(event.replaced)
    return PlannedCall(
        UndoCall(id=str(seq), tool=event.tool_id, status="ready", input=where), event
    )


def _is_frame(event: Any, find_tool: FindTool) -> bool:
    """Whether a call acts only through the calls inside it."""
    tool = find_tool("", event.tool_id)
    return tool is not None and tool.is_frame


def _settled(seq: int, event: CallSettled, find_tool: FindTool) -> PlannedCall:
    revert, error = event.revert, event.envelope.error
    call = UndoCall(id=str(seq), tool=event.tool_id, status="impossible")
    if error is not None:
        what = "it" if error.code in _CUT else "a part of it"
        reason = f"it ended as {error.code}: {what} may have happened"
        return PlannedCall(replace(call, reason=reason), event)
    if revert is None:
        reason, output = _why_no_revert(event.tool_id, find_tool), event.envelope.output
        text = output if isinstance(output, str) else compact(output)
        return PlannedCall(replace(call, reason=reason, output=cut(text, _OUTPUT)), event)
    call = replace(call, revert=revert.tool_id)
    if revert.input is None:
        return PlannedCall(replace(call, reason="its input contained a secret"), event)
    call = replace(call, input=parse_json(revert.input))
    if find_tool(revert.agent, revert.tool_id) is None:
        reason = f"its revert {revert.tool_id!r} is not loaded here"
        return PlannedCall(replace(call, reason=reason), event)
    return PlannedCall(replace(call, status="ready"), event)


def _why_no_revert(tool_id: str, find_tool: FindTool) -> str:
    tool = find_tool("", tool_id)
    if tool is not None and tool.revert:
        return "its tool declared no revert when it ran"
    return "its tool declares no revert"


def _ids(planned: PlannedCall) -> tuple[str, ...]:
    call_id = planned.settled.call_id if planned.settled else None
    return (planned.call.id,) if call_id is None else (planned.call.id, call_id)


def _open(seq: int, event: CallStarted) -> PlannedCall:
    reason = "it has no outcome yet: undo cancels the task first"
    return PlannedCall(
        UndoCall(id=str(seq), tool=event.tool_id, status="impossible", reason=reason)
    )


def _erased(record: Record) -> PlannedCall:
    reason = "this event was erased, and with it what it did"
    return PlannedCall(UndoCall(id=str(record.seq), tool="", status="impossible", reason=reason))


def outcomes_of(undo: TaskId, records: Sequence[Record]) -> dict[str, CallSettled | None]:
    """Return what came of the reverts in an undo, by the id of the call; None of one that runs."""
    outcomes: dict[str, CallSettled | None] = {}
    for record in records:
        place = (record.path or "").removeprefix(f"{undo}/").split("/")
        if len(place) != _PARTS:
            continue  # a call inside of a revert, or no call at all
        if isinstance(record.event, CallStarted):
            outcomes.setdefault(place[0])
        elif isinstance(record.event, CallSettled):
            outcomes[place[0]] = record.event
    return outcomes


GONE = "this task is gone, and with it what it did"
STORED = "it changed something that penstock keeps, and the log does not have what was there before"
_CHANGE = re.compile(r"state\.(\w+\.)?(put|patch|append|delete)|workspace\.write")
"""The names of changes that the code of a tool makes."""
_CUT = frozenset({Interrupted.code, ToolTimeout.code})
"""The codes of calls that may or may not have happened."""
_OUTPUT = 200
"""Characters of an output in a plan."""
_PARTS = 2
"""Of a path in an undo, behind its task: the id of the call, and its revert."""


def with_outcome(planned: PlannedCall, outcome: CallSettled | None) -> PlannedCall:
    """Return a call with what came of its revert in an undo."""
    if outcome is None:
        return planned
    error, call = outcome.envelope.error, planned.call
    if outcome.tool_id == PUT_BACK and (left := why_left(outcome)):
        return _changed(planned, replace(call, status="impossible", reason=left))
    if error is None:
        return _changed(planned, replace(call, status="undone", reason=""))
    if error.code in _CUT:
        reason = "its revert was cut and may or may not have happened: look, then name the call"
        return _changed(planned, replace(call, status="unclear", reason=reason))
    reason = f"its revert failed: {error.message}"
    return _changed(planned, replace(call, reason=reason))


def _changed(planned: PlannedCall, call: UndoCall) -> PlannedCall:
    return replace(planned, call=call)
