"""Messages about a flow run, for stream readers and plugins: its steps, agents and questions.

`RunFeed` folds the events of one run, in order, into the messages whose types are in `TYPES`. The
same events always give the same messages, so a reader that reconnects receives what it missed.
A visit (one execution of a step) is found by the path of an event: the nearest enclosing frame.
A visit is announced before any other message about it. The announcement waits for `AgentStarted`,
where that event names the agent and its model (`is_announced`).

Tests: tests/app/test_run_feed.py, tests/server/streams/test_flow_wire.py.
"""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from penstock.chat.requests import TaskReply
from penstock.chat.wire_forms import blocked_part, question_part
from penstock.core.clock import to_iso
from penstock.core.events.events import (
    CallSettled,
    QuestionAnswered,
    QuestionAsked,
    Record,
    ReplyReceived,
    TaskBlocked,
    TaskEnded,
)
from penstock.core.events.flow_events import (
    ABORTED,
    AgentStarted,
    FlowNotified,
    FlowStarted,
    Outcome,
    StepResult,
    StepSettled,
    StepStarted,
)
from penstock.core.ids import CallId, QuestionId, TaskId
from penstock.core.messages import Usage
from penstock.core.task import TaskStatus
from penstock.engine.bus import Delta, DeltaKind
from penstock.flows.definition import Step
from penstock.flows.parsing import started_flow
from penstock.flows.runs.plan import RunStatus
from penstock.flows.runs.run import result_without_steps
from penstock.flows.runs.visits import STEP_WAITS

TYPES = (
    *("flow_started", "flow_agent_started", "flow_assistant_text", "flow_thinking_text"),
    *("flow_text_delta", "flow_tool_call", "flow_tool_result", "flow_question"),
    *("flow_question_answered", "flow_auto_decision", "flow_loop_iteration", "flow_agent_error"),
    *("flow_agent_complete", "flow_jump", "flow_step_skipped", "flow_warning", "flow_blocked"),
    "flow_complete",
)
"""The types of the messages about a run."""
STEP_ABORTED = "flow_step_aborted"
"""The notice about a visit that the end of the run cuts; readers see a visit that was aborted."""
OF_LOOPS = "flow_loop_iteration"
"""This notice comes before the loop's agent starts, so before its model is known."""
OF_A_FLOW = frozenset({"flow_jump", "flow_step_skipped"})
"""Notices about a whole flow. A nested flow shares the frame of the step that refers to it, so
without this set such a notice would look like one about that step."""
BY_PERSON = "fork"
"""The agent name of a fork that a person answers."""
STATUS = {TaskStatus.SUCCEEDED: RunStatus.SUCCESS, TaskStatus.CANCELLED: RunStatus.ABORTED}
"""The status of a run that has ended; any other task status is an error."""

Body = dict[str, Any]


class VisitProgress(Struct):
    """The progress of one visit, which is one execution of a step."""

    step_id: str
    number: int
    kind: str
    agent: str
    path: str
    """The path of its frame, relative to the run."""
    began: int
    target: str | None = None
    """The path of the flow or the handler that the step runs, if it runs no agent."""
    is_announced: bool = True
    parked: int = 0
    """Milliseconds that it waited for answers of people."""
    input_tokens: int = 0
    output_tokens: int = 0
    calls: dict[CallId, Body] = field(default_factory=dict)

    def frame(self, kind: str, **body: Any) -> Body:
        """Return a message about this visit."""
        place = {"stepId": self.step_id, "visit": self.number, "path": self.path}
        return {"type": kind, **place, **body}

    def start(self) -> Iterator[Body]:
        """Yield the message that announces the visit, the first time only."""
        if not self.is_announced:
            self.is_announced = True
            yield _started(self)

    def add(self, usage: Usage) -> None:
        """Count the tokens of one reply."""
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens

    def settle(self, usage: Usage) -> None:
        """Take the tokens of the whole visit, which include replies in other frames."""
        self.input_tokens = max(self.input_tokens, usage.input_tokens)
        self.output_tokens = max(self.output_tokens, usage.output_tokens)


class RunFeed:
    """Folds the events of a run into messages."""

    def __init__(self, task_id: TaskId, command: str) -> None:
        self.task_id = task_id
        self._command = command
        self._visits: dict[str, VisitProgress] = {}
        """By the path of the frame."""
        self._newest: dict[str, VisitProgress] = {}
        """The newest visit of each step, by the frame without its number."""
        self._steps: dict[str, dict[str, Step]] = {}
        """The steps of each flow, by the frame that it runs in."""
        self._asked: dict[QuestionId, tuple[VisitProgress | None, int]] = {}
        self._is_autonomous = False
        self.is_over = False
        """Whether the run has ended."""

    def messages_of(self, record: Record) -> list[Body]:
        """Fold an event; return its messages, possibly none."""
        always = {"runId": self.task_id, "seq": record.seq, "at": to_iso(record.at)}
        return [{"type": body["type"], **always, **body} for body in self._frames(record)]

    def text_message(self, delta: Delta, seq: int) -> Body | None:
        """Return the message for live text of an agent; `seq` is the last event before it."""
        visit = self._visit(delta.reply.path)
        if visit is None or delta.kind is not DeltaKind.TEXT:
            return None
        body = visit.frame("flow_text_delta", agentName=visit.agent, delta=delta.text)
        return {"type": body["type"], "runId": self.task_id, "seq": seq} | body

    def _frames(self, record: Record) -> Iterator[Body]:
        event, path = record.event, record.path or ""
        match event:
            case FlowStarted():
                self._begin_flow(path, event)
            case StepStarted():
                yield from self._begin(record, event)
            case AgentStarted():
                yield from self._agent(path, event, record.at)
            case TaskEnded():
                self.is_over = True
                result = run_result(self.task_id, self._command, event)
                yield {"type": "flow_complete"} | result
            case QuestionAsked():
                yield from self._ask(event, record.at)
            case QuestionAnswered():
                yield self._answered(event, record.at)
            case FlowNotified():
                yield from self._notice(path, event, record.at)
            case TaskBlocked(blocked_on=missing):
                yield {"type": "flow_blocked"} | blocked_part(missing)
            case _ if visit := self._visit(path):
                yield from _in_visit(visit, event, record.at)
            case _:
                pass

    def _begin_flow(self, path: str, started: FlowStarted) -> None:
        flow = started_flow(started)
        self._steps[path] = {} if flow is None else dict(flow.by_id)
        self._is_autonomous = started.autonomous

    def _begin(self, record: Record, started: StepStarted) -> Iterator[Body]:
        path = record.path or ""
        above, step_id, _ = path.rsplit("/", 2)
        step = self._steps.get(above, {}).get(step_id)
        kind = step.kind if step is not None else ""
        waits = step is not None and step.has_agent_at_work(is_autonomous=self._is_autonomous)
        name = started.agent or step_id
        visit = VisitProgress(
            step_id=step_id,
            number=started.visit,
            kind=kind,
            agent=BY_PERSON if step is not None and step.asks_person else name,
            path=path.removeprefix(f"{self.task_id}/"),
            began=record.at,
            target=step.path_written if step is not None else None,
            is_announced=not waits,
        )
        self._visits[path] = self._newest[f"{above}/{step_id}"] = visit
        if not waits:
            yield _started(visit)

    def _agent(self, path: str, began: AgentStarted, at: int) -> Iterator[Body]:
        """Yield the announcement of a visit whose agent starts; record a nested agent."""
        visit = self._visits.get(path)
        if visit is None:
            if (outer := self._visit(path)) is not None:
                self._visits[path] = VisitProgress(
                    step_id=outer.step_id,
                    number=outer.number,
                    kind=outer.kind,
                    agent=began.agent,
                    path=outer.path,
                    began=at,
                )
            return
        visit.agent = began.agent
        if not visit.is_announced:
            visit.is_announced = True
            yield _started(visit, **({"resolvedModel": began.model} if began.model else {}))

    def _ask(self, event: QuestionAsked, at: int) -> Iterator[Body]:
        question, visit = event.question, self._visit(event.question.path)
        if visit is not None:
            yield from visit.start()
        part = question_part(question)
        renamed = {
            "questionId": part.pop("id"),
            "kind": part.pop("kind"),
            "question": part.pop("text"),
        }
        body = renamed | _without(part, "path")
        self._asked[question.question_id] = (visit, at)
        if visit is None:
            yield {"type": "flow_question", **body}
        else:
            yield {**visit.frame("flow_question"), **body}

    def _answered(self, answered: QuestionAnswered, at: int) -> Body:
        visit, since = self._asked.get(answered.question_id, (None, at))
        body = {
            "questionId": answered.question_id,
            "status": answered.status.value,
            "answer": dict(answered.answer),
            "by": answered.by,
        }
        if visit is None:
            return {"type": "flow_question_answered", **body}
        visit.parked += at - since
        return visit.frame("flow_question_answered", **body)

    def _notice(self, path: str, notice: FlowNotified, at: int) -> Iterator[Body]:
        if notice.kind == STEP_WAITS:
            return
        body = dict(notice.body)
        if notice.kind == STEP_ABORTED:
            visit = self._newest.get(f"{path}/{body['stepId']}")
            if visit is not None:
                yield from visit.start()
                yield _complete(visit, ABORTED, at)
            return
        if notice.kind in OF_A_FLOW:
            yield {"type": notice.kind, **body, **self._flow_path(path)}
            return
        visit = self._visits.get(path)
        if visit is None:
            yield {"type": notice.kind, **body}
            return
        if notice.kind != OF_LOOPS:
            yield from visit.start()
        yield visit.frame(notice.kind, **_without(body, "stepId"))

    def _flow_path(self, path: str) -> Body:
        """Return the `path` of a nested flow; nothing for the flow of the run itself."""
        inside = path.removeprefix(self.task_id).removeprefix("/")
        return {"path": inside} if inside else {}

    def _visit(self, path: str | None) -> VisitProgress | None:
        """Return the visit of the nearest enclosing frame of a path."""
        frame = path or ""
        while frame and frame not in self._visits:
            frame = frame.rpartition("/")[0]
        return self._visits.get(frame)


def run_result(run_id: TaskId, command: str, ended: TaskEnded | TaskReply) -> dict[str, Any]:
    """Return the FlowResult of a run, without steps if the run ended before its flow started."""
    envelope = ended.envelope
    if envelope is not None and isinstance(envelope.output, dict):
        return envelope.output
    status = STATUS.get(ended.status, RunStatus.ERROR)
    reason = ended.error.message if ended.error else f"the run was {ended.status}"
    return dict(result_without_steps(run_id, command, status, reason))


def _in_visit(visit: VisitProgress, event: object, at: int) -> Iterator[Body]:
    match event:
        case ReplyReceived():
            yield from _reply(visit, event)
        case CallSettled(call_id=call_id) if call_id in visit.calls:
            error = event.envelope.error
            output = error.message if event.context is None and error else event.context
            yield visit.frame(
                "flow_tool_result",
                **visit.calls[call_id],
                output=output or "",
                isError=not event.envelope.ok,
            )
        case StepSettled():
            yield from visit.start()
            yield from _settled(visit, event, at)
        case _:
            pass


def _started(visit: VisitProgress, **more: Any) -> Body:
    place = {} if visit.target is None else {"target": visit.target}
    body = {"agentName": visit.agent, "nodeKind": visit.kind, **place, **more}
    return visit.frame("flow_agent_started", **body)


def _reply(visit: VisitProgress, reply: ReplyReceived) -> Iterator[Body]:
    visit.add(reply.usage)
    if reply.reasoning.strip():
        yield visit.frame("flow_thinking_text", agentName=visit.agent, text=reply.reasoning)
    if reply.text.strip():
        yield visit.frame("flow_assistant_text", agentName=visit.agent, text=reply.text)
    for call in reply.calls:
        named = {"agentName": visit.agent, "id": call.call_id, "toolName": call.name}
        visit.calls[call.call_id] = named | {"input": call.arguments}
        yield visit.frame("flow_tool_call", **visit.calls[call.call_id])


def _settled(visit: VisitProgress, event: StepSettled, at: int) -> Iterator[Body]:
    if event.outcome in {Outcome.SOFT, Outcome.HARD}:
        yield visit.frame(
            "flow_agent_error",
            agentName=visit.agent,
            text=event.text or event.result.summary,
            severity=event.outcome.value,
            source=event.source,
            willRetry=event.will_retry,
        )
    if not event.will_retry:
        visit.settle(event.usage)
        yield _complete(visit, event.result, at, event.duration_ms)


def _complete(visit: VisitProgress, result: StepResult, at: int, duration: int = 0) -> Body:
    usage = {"inputTokens": visit.input_tokens, "outputTokens": visit.output_tokens}
    return visit.frame(
        "flow_agent_complete",
        agentName=visit.agent,
        nodeKind=visit.kind,
        result=result.to_wire(),
        duration=duration or max(at - visit.began - visit.parked, 0),
        usage=usage,
    )


def _without(body: Body, name: str) -> Body:
    return {key: value for key, value in body.items() if key != name}
