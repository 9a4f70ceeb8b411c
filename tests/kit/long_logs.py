"""Logs of many tasks that a test chooses, and states as plain data that can be compared."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.structs import fields

from penstock.core.call import CallPath, ToolCall
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope
from penstock.core.events.events import (
    CallRequested,
    CallSettled,
    CancelRequested,
    Event,
    MessageReceived,
    PromptResolved,
    Record,
    ReplyReceived,
    SessionOpened,
    SkillsSelected,
    TaskEnded,
    TaskStarted,
)
from penstock.core.events.flow_events import HandedBack, HandedOff
from penstock.core.events.history_events import Summarised
from penstock.core.ids import BlobId, CallId, MessageId, TaskId
from penstock.core.messages import Carry, StoredFile, Usage
from penstock.core.task import TaskStatus
from penstock.engine.session_state import SessionState, catch_up, fold
from penstock.engine.snapshot import from_snapshot, is_at_rest, to_snapshot
from tests.kit.session_events import ANN, LOG

FILE = StoredFile(blob_id=BlobId("b" * 64), mime_type="image/png", size=9, is_image=True)
CARRY = Carry("anthropic@host", "claude", "p", ({"type": "text", "chars": 2}, {"n": 2**70}))


class LongLog:
    """Plays a conversation, one deed after another; a deed that makes no sense does nothing."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.state = SessionState(LOG)
        self.tasks: list[TaskId] = []
        self._number = 0
        self._happen(SessionOpened(profile_id=ANN, agent="assistant", title="é"))

    def do(self, deed: str) -> "LongLog":
        self._number += 1
        task = self.state.current
        if deed == "say":
            self._ask()
        elif deed == "again" and self.state.is_idle and self.tasks:
            self._ask(supersedes=self.tasks[self._number * 7 % len(self.tasks)])
            self._start()
        elif deed == "oldest" and self.state.is_idle and self.tasks:
            self._ask(supersedes=self.tasks[0])
            self._start()
        elif deed == "back" and self.state.agents.handed and self.state.is_idle:
            self._happen(HandedBack(agent="x"))
        elif deed == "cancel" and self.state.queue:
            self._happen(CancelRequested(by=ANN), next(iter(self.state.queue)))
        elif task is not None and not task.is_ended:
            self._work(deed, task.task_id)
        elif deed in {"start", "fresh", "command"}:
            self._start(is_fresh=deed == "fresh", command="help" * (deed == "command"))
        elif deed == "call":
            call = CallRequested(tool_id="t", input={"n": 2**70}, profile_id=ANN)
            self._happen(call, self._new_task())
        return self

    def _ask(self, supersedes: TaskId | None = None) -> None:
        number = self._number
        message = MessageReceived(
            message_id=MessageId(f"msg_{number}"),
            content=f"/new ask {number}" if number % 5 == 0 else f"ask {number} \U0001f600",
            supersedes=supersedes,
            attachments=(FILE,) * (number % 2),
        )
        self._happen(message, self._new_task())

    def _start(self, **more: Any) -> None:
        if self.state.queue:
            offered = ("add", f"t{self._number % 3}")
            task_id = next(iter(self.state.queue))
            self._happen(TaskStarted(model="m", offered=offered, **more), task_id)

    def _work(self, deed: str, task_id: TaskId) -> None:
        task = self.state.current
        assert task
        turn, usage = task.main.iteration + 1, Usage(input_tokens=900, cached_tokens=self._number)
        path = CallPath(f"{task_id}/{turn}/add#1")
        if deed == "reply":
            calls = (ToolCall(CallId(f"c{self._number}"), "add", {"n": 2**70, "ü": [1.5, None]}),)
            text, carry = f"look {self._number}", CARRY if self._number % 2 else None
            self._happen(_reply(turn, text, usage, calls=calls, carry=carry), task_id)
            settled = CallSettled(
                tool_id="add",
                envelope=Envelope.success({"shown": "x" * 300}),
                call_id=calls[0].call_id,
                context="x" * 300,
                files=(FILE,),
            )
            self._happen(settled, task_id, path)
        elif deed == "shorten" and len(task.main.messages.boundaries) > 1:
            gone = tuple(
                each.task_id for each in task.main.messages.boundaries[:-1] if each.task_id
            )
            text = "what was said" if self._number % 2 else ""
            self._happen(Summarised(text=text, tasks=gone), task_id)
        elif deed == "previews":
            self._happen(Summarised(results=1), task_id)
        elif deed == "skill":
            self._happen(SkillsSelected(skill_ids=(f"s{self._number}",)), task_id)
        elif deed == "prompt":
            self._happen(PromptResolved(text=f"p{self._number}", agent="assistant"), task_id)
        elif deed == "hand off":
            name = f"agent{self._number % 3}"
            self._happen(HandedOff(agent=name, previous="assistant", offered=("b",)), task_id)
        elif deed == "refuse":
            self._happen(_reply(turn, "", usage, refusal="no"), task_id)
        elif deed == "end":
            self._happen(_reply(turn, "done", usage), task_id)
            self._happen(TaskEnded(status=TaskStatus.SUCCEEDED, content="done"), task_id)

    def _new_task(self) -> TaskId:
        self.tasks.append(TaskId(f"task_{self._number}"))
        return self.tasks[-1]

    def _happen(
        self, event: Event, task_id: TaskId | None = None, path: CallPath | None = None
    ) -> None:
        seq = len(self.records) + 1
        self.records.append(Record(LOG, seq, Moment(1000 * seq), task_id, path, event))
        self.state.apply(event, task_id, path, 1000 * seq)
        self.state.seq = seq


def _reply(turn: int, text: str, usage: Usage, **more: Any) -> ReplyReceived:
    message_id = MessageId(f"rep_{turn}")
    return ReplyReceived(
        iteration=turn, base=0, text=text, message_id=message_id, usage=usage, **more
    )


KEPT_OF_A_TASK = ("task_id", "brief", "started", "blocked_on", "cancel_requested", "is_ended")
OWN_OF_A_FOLD = {"omits", "is_short", "is_stale", "saved", "past", "__weakref__"}
"""What two folds of one log may differ in."""


def picture(state: SessionState, ended: TaskId | None = None) -> dict[str, Any]:
    """Return everything that a state has, as plain data; little of a task that is `ended`."""
    found = {
        name: _plain(getattr(state, name))
        for name in SessionState.__slots__
        if name not in {*OWN_OF_A_FOLD, "queue", "current"}
    }
    current = state.current
    is_old = current is not None and current.task_id == ended
    names = KEPT_OF_A_TASK if is_old else current.__struct_fields__ if current else ()
    return found | {
        "queue": [
            [_plain(getattr(each, it)) for it in KEPT_OF_A_TASK] for each in state.queue.values()
        ],
        "current": {name: _plain(getattr(current, name)) for name in names},
        "shares": current is None or current.main.messages is state.messages,
    }


def restored(state: SessionState) -> SessionState:
    """Return the state as another process reads it from a snapshot."""
    body = to_snapshot(state)
    assert body is not None
    return from_snapshot(state.log_id, state.seq, body)


def check_every_cut(records: Sequence[Record]) -> int:
    """Compare both folds after each event that follows a cut; return how often."""
    compared, all_events = 0, SessionState(records[0].log_id)
    for cut, record in enumerate(records, 1):
        catch_up(all_events, [record])
        if not is_at_rest(all_events):
            continue
        whole, short = fold(record.log_id, records[:cut]), restored(all_events)
        ended = whole.current.task_id if whole.current else None
        for later in (None, *records[cut:]):
            events = [] if later is None else [later]
            catch_up(whole, events)
            catch_up(short, events)
            if short.is_short:
                break  # the fold of the whole log takes its place: see test_cold_folds.py
            assert picture(short, ended) == picture(whole, ended), (cut, later)
            assert short.past == whole.past[len(whole.past) - len(short.past) :]
            compared += 1
    return compared


ATOMS = {str, int, float, bool, type(None)}


def _plain(value: Any) -> Any:
    if type(value) in ATOMS:
        return value
    if isinstance(value, Struct):
        compared = _compared(type(value))
        return {"type": type(value).__name__} | {it: _plain(getattr(value, it)) for it in compared}
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [type(value).__name__, *map(_plain, value)]
    return value


@cache
def _compared(struct: type[Struct]) -> list[str]:
    """Return the fields that are compared; msgspec resolves the hints of all for each look."""
    return [each.name for each in fields(struct) if each.name != "gone"]
