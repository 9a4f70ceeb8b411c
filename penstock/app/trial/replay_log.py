"""The log of a replay: it compares each event that the runtime adds with the recorded one.

Guarantees: nothing is written, and while nothing differs the state is that of the recorded task.
An event that came out the same is applied as it was recorded, with its ids, times and usage, so
that what follows from it is the same, too. The first that differs ends the replay.

How: `RecordedEvents` holds the events of the task by kind and path; `ReplayLog` is a HeldLog whose
`add` takes the recorded event of the same kind and path. Events that only say how the process
worked (a start, a retry, a resume) are applied and compared with nothing.

Relies on: paths of calls follow from what was called, not from when (docs/decisions/001).
Shown by tests/app/trial/test_replay_log.py and tests/app/trial/test_replay.py.
"""

import math
from collections.abc import Callable
from typing import Any

from penstock.app.trial.recorded_events import OF_PROCESSES, RecordedEvents, ReplayClock
from penstock.chat.recorded.replay_report import (
    Difference,
    DifferenceKind,
    StopReason,
    difference,
    short,
    shown_path,
)
from penstock.core.call import CallPath
from penstock.core.call_errors import BudgetExceeded, LoopDetected, NotPermitted, Rejected
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope, Status
from penstock.core.errors import Cancel
from penstock.core.events.child_events import ChildrenSpawned, ChildRequested
from penstock.core.events.events import (
    CallSettled,
    Event,
    PromptResolved,
    QuestionAsked,
    Record,
    ReplyReceived,
    TaskEnded,
    TaskStarted,
)
from penstock.core.events.flow_events import (
    AgentReminded,
    AgentStarted,
    HandedOff,
    StepSettled,
)
from penstock.core.events.hook_events import HookDecided
from penstock.core.ids import TaskId
from penstock.core.limits import World
from penstock.core.stored.changes import Change
from penstock.engine.held_log import HeldLog
from penstock.engine.session_state import SessionState
from penstock.store.logs.log import Lease, Log
from penstock.tools.scripts.recording import CLOCK

LATER = 20
"""Most differences after the first one that a replay with `live` lists."""
_LIMITS = {BudgetExceeded.code, LoopDetected.code}
_PERMISSIONS = {NotPermitted.code, Rejected.code}


class ReplayLog(HeldLog):
    """Compares what is added with a record. Nothing reaches the store."""

    def __init__(
        self,
        record: RecordedEvents,
        log: Log,
        state: SessionState,
        world: World,
        *,
        clock: ReplayClock,
        until: int | None,
    ) -> None:
        # A lease of no epoch: an append would be refused, although nothing is ever submitted.
        lease = Lease(log_id=state.log_id, epoch=0, head=state.seq)
        super().__init__(log, lease, state, world, since=math.inf)
        self.record = record
        self.found: Difference | None = None
        self.found_at: Moment | None = None
        """When what differs first was recorded."""
        self.later: list[Difference] = []
        self.stopped: StopReason = "end"
        self.is_live = False
        self._started_now: TaskStarted | HandedOff | None = None
        """How the agent starts now, if that differs from its recorded start."""
        self.started_then: Record | None = None
        self._replay_clock = clock
        self._until = until

    @property
    def is_over(self) -> bool:
        """Whether nothing more is replayed."""
        return self.found is not None and not self.is_live

    def add(self, event: Event, task_id: TaskId, path: CallPath | None = None) -> None:
        """Apply the recorded event if this one is the same. Raises Cancel."""
        if self.is_live or isinstance(event, OF_PROCESSES):
            if isinstance(event, ReplyReceived):
                self._compare_live(event, path)
            self.state.apply(event, task_id, path, self._replay_clock.now())
            return
        recorded = self.record.peek(event, path)
        if recorded is None and isinstance(event, CallSettled) and event.tool_id == CLOCK:
            # A script that was changed notes its version, which decides nothing by itself.
            self.state.apply(event, task_id, path, self._replay_clock.now())
            return
        if recorded is None:
            raise self._unrecorded(event, path)
        self.check_until(recorded)
        self._compare(recorded, event)
        if self.started_then is recorded:
            # The request that follows is the one of now; it ends the replay, or goes on live.
            self.record.take(recorded, is_same=False)
            self.state.apply(event, task_id, path, self._replay_clock.now())
            return
        self.apply(recorded)

    def add_change(
        self, settled: CallSettled, change: Change, task_id: TaskId, path: CallPath
    ) -> None:
        """Stop: a call that would change something now was not recorded like this."""
        raise self.stop("write")

    async def refresh(self) -> None:
        """Do nothing: no lease is held, and what arrived is in the record."""

    def apply(self, record: Record) -> None:
        """Apply a recorded event."""
        self._replay_clock.move(record.at)
        self.record.take(record)
        self.state.apply(record.event, record.task_id, record.path, record.at)

    def apply_inner(self, path: CallPath, knows: Callable[[str], bool]) -> None:
        """Apply what happened inside a call, which is not run again.

        But for calls of tools that are gone: a script that makes one gets today's error.
        """
        for record in self.record.inner(path):
            event, around = record.event, str(record.path or "").rpartition("/")[0]
            # What did not run is an operation of the host, such as a request of a script.
            is_own_call = isinstance(event, CallSettled) and event.ran and around == path
            if not is_own_call or knows(getattr(event, "tool_id", "")):
                self.apply(record)

    def go_live(self) -> None:
        """Compare no more: from now on real models and tools answer."""
        self.is_live, self.stopped = True, "end"
        self._replay_clock.go_live()

    def start_of_now(self) -> tuple[TaskStarted | HandedOff, Record] | None:
        """Return, once, how the agent starts now and did, if that differs."""
        now, then = self._started_now, self.started_then
        self._started_now = None
        return None if now is None or then is None else (now, then)

    def agent_of(self, event: TaskStarted | HandedOff) -> str:
        """Return the agent that starts with an event."""
        task = self.state.current
        child = task.brief if task is not None else None
        own = child.agent if isinstance(child, ChildRequested) else self.state.agents.newest
        return event.agent or own

    def check_until(self, record: Record) -> None:
        """Raise Cancel if the replay was asked to end before this event."""
        if self._until is not None and record.seq > self._until:
            raise self.stop("until")

    def stop(self, reason: StopReason) -> Cancel:
        """Return the signal that ends the replay."""
        self.stopped = reason
        return Cancel(reason)

    def note(self, found: Difference) -> None:
        """Add a difference: the first one, or one of those that follow it with `live`."""
        if self.found is None:
            self.found = found
        elif self.is_live and len(self.later) < LATER:
            self.later.append(found)

    def differ(
        self,
        kind: DifferenceKind,
        summary: str,
        at: Record | None,
        *,
        path: str,
        recorded: Any = None,
        now: Any = None,
    ) -> Cancel:
        """Note the first difference, and return the signal that ends the replay."""
        seq = at.seq if at is not None else self.record.up_to
        where = shown_path(self.record.task_id, path, self.record.shown)
        self.found_at = self.found_at or (self._replay_clock.now() if at is None else at.at)
        self.note(difference(kind, summary, seq=seq, path=where, recorded=recorded, now=now))
        return Cancel() if self.is_live else self.stop("difference")

    def _compare_live(self, event: ReplyReceived, path: CallPath | None) -> None:
        """Note a real reply that is not like the recorded one."""
        recorded = self.record.reply(path, event.iteration, closing=event.closing)
        if recorded is None or not isinstance(recorded.event, ReplyReceived):
            return
        self.record.take(recorded, is_same=False)
        was, now = _reply(recorded.event), _reply(event)
        if was != now:
            where = str(path or self.record.task_id) + f"/{event.iteration}"
            self._differs("reply", "the reply", recorded, (was, now), where=where)

    def _turn(self) -> str:
        """Return the path of the turn of the task's own agent."""
        task = self.state.current
        return f"{self.record.task_id}/{task.main.iteration if task else 1}"

    def _unrecorded(self, event: Event, path: CallPath | None) -> Cancel:
        """Return the signal for an event that the record does not have."""
        if self.record.was_cut:
            return self.stop("end")
        where = str(path or self._turn())
        match event:
            case QuestionAsked(question=question):
                return self.differ(
                    "permission",
                    f"{question.tool_id or 'the call'} asks a person now; it ran without",
                    self.record.settled(question.path),
                    path=question.path,
                    recorded={"verdict": "allow"},
                    now={"verdict": "ask", "question": question.text},
                )
            case CallSettled():
                return self._called_more(event, where)
            case ChildrenSpawned():
                summary = f"the task {', '.join(event.children)} would be requested now"
                return self.differ("code", summary, None, path=where, now={"key": event.key})
            case TaskEnded():
                return self.differ(
                    "code", "the task ends now where it went on", None, path=where, now=_end(event)
                )
            case _:
                name = type(event).__name__
                return self.differ(
                    "code", f"{name} happens now and was not recorded", None, path=where
                )

    def _called_more(self, event: CallSettled, where: str) -> Cancel:
        tool = event.tool_id
        name = where.rpartition("/")[0] + f"/{tool}#"
        same = [each for each in self.record.own if str(each.path or "").startswith(name)]
        at = next((each for each in same if isinstance(each.event, CallSettled)), None)
        if at is not None:
            summary = f"{tool} was called with another input"
            return self.differ("tool_input", summary, at, path=where, now=_outcome(event))
        return self.differ("code", f"{tool} is called now and was not", None, path=where)

    def _compare(self, recorded: Record, now: Event) -> None:
        """Raise Cancel if what an event decides differs from the recorded one."""
        before = recorded.event
        if isinstance(now, CallSettled) and isinstance(before, CallSettled):
            self._compare_outcomes(recorded, before, now)
        elif isinstance(now, TaskEnded) and isinstance(before, TaskEnded):
            self._compare_ends(recorded, before, now)
        elif isinstance(now, TaskStarted | HandedOff) and isinstance(
            before, TaskStarted | HandedOff
        ):
            # Reported with the request that follows, which has the text of the prompt.
            is_other = (before.offered, before.agent_digest) != (now.offered, now.agent_digest)
            if is_other or self.record.noted.changed_tools(before, self.agent_of(before)):
                self._started_now, self.started_then = now, recorded
        else:
            for kind, what, decided in _DECISIONS.get(type(now), ()):
                if (was := decided(before)) != (is_ := decided(now)):
                    raise self._differs(kind, what, recorded, (was, is_))

    def _compare_outcomes(self, recorded: Record, before: CallSettled, now: CallSettled) -> None:
        path, tool = recorded.path or CallPath(""), now.tool_id
        asked = self.record.question(path)
        was, is_ = _outcome(before), _outcome(now)
        if before.artifact_blob is not None and now.envelope.ok:
            is_ = was  # the recorded output is in the blob store, and it was given again
        if was == is_ and asked is None:
            return
        error = now.envelope.error or before.envelope.error
        code = "" if error is None else error.code
        if asked is not None and was == is_:
            was, is_ = {"verdict": "ask"}, {"verdict": "allow"}
            raise self._differs(
                "permission", f"{tool} needs no approval now;", recorded, (was, is_)
            )
        kind: DifferenceKind = "code"
        if code in _PERMISSIONS:
            kind = "permission"
        elif code in _LIMITS:
            kind = "limit"
        elif code == "TOOL_NOT_FOUND":
            kind = "tool_missing"
        elif code == "INVALID_OUTPUT":
            kind = "output_schema"
        elif now.envelope.status is Status.VALIDATION_ERROR or (
            before.envelope.status is Status.VALIDATION_ERROR
        ):
            kind = "tool_input"
        raise self._differs(kind, f"the outcome of {tool}", recorded, (was, is_))

    def _compare_ends(self, recorded: Record, before: TaskEnded, now: TaskEnded) -> None:
        if (left := self.record.left_step) is not None:
            what = "the run ends now where another step began"
            where = str(left.path or self._turn())
            raise self.differ("code", what, left, path=where, now=_end(now))
        was, is_ = _end(before), _end(now)
        if was == is_:
            return
        kind: DifferenceKind = "code"
        codes = {each.error.code for each in (before, now) if each.error is not None}
        if codes & _LIMITS or before.finish_reason != now.finish_reason:
            kind = "limit"
        raise self._differs(kind, "the end of the task", recorded, (was, is_))

    def _differs(
        self,
        kind: DifferenceKind,
        what: str,
        recorded: Record,
        values: tuple[Any, Any],
        *,
        where: str = "",
    ) -> Cancel:
        """Return the signal for an event whose recorded value is another one than that of now."""
        was, now = values
        summary = f"{what} differs: {short(now)}, was {short(was)}"
        where = where or str(recorded.path or self._turn())
        return self.differ(kind, summary, recorded, path=where, recorded=was, now=now)


def _outcome(event: CallSettled) -> Any:
    envelope: Envelope = event.envelope
    if envelope.error is None:
        return {"status": envelope.status.value, "output": envelope.output}
    error = envelope.error
    return {
        "status": envelope.status.value,
        "error": {"code": error.code, "message": error.message},
    }


def _reply(event: ReplyReceived) -> Any:
    calls = [{"tool": each.name, "input": each.arguments} for each in event.calls]
    return {"text": event.text, "calls": calls}


def _question(event: QuestionAsked) -> Any:
    question = event.question
    return {"kind": question.kind.value, "tool": question.tool_id, "input": question.input}


def _decision(event: HookDecided) -> Any:
    return {"verdict": event.verdict.value, "value": event.value}


def _step(event: StepSettled) -> Any:
    return {"outcome": event.outcome.value, "result": event.result.to_wire()}


def _end(event: TaskEnded) -> Any:
    error = (
        None if event.error is None else {"code": event.error.code, "message": event.error.message}
    )
    return {
        "status": event.status.value,
        "content": event.content,
        "output": None if event.output is None else event.output.value,
        "error": error,
    }


_DECISIONS: dict[type[Any], tuple[tuple[DifferenceKind, str, Callable[[Any], Any]], ...]] = {
    ReplyReceived: (("reply", "the reply", _reply),),
    QuestionAsked: (("permission", "the question", _question),),
    PromptResolved: (("prompt", "a part of the prompt", lambda event: event.text),),
    AgentReminded: (("prompt", "the reminder", lambda event: event.message),),
    AgentStarted: (
        ("code", "the agent", lambda event: event.agent),
        ("prompt", "the prompt", lambda event: {"system": event.system, "message": event.message}),
        ("tools", "the offered tools", lambda event: list(event.offered)),
    ),
    HookDecided: (("code", "the decision of a hook", _decision),),
    StepSettled: (("code", "the outcome of the step", _step),),
}
"""The decisions of other events, by their type: the kind of a difference, its name, the value."""
