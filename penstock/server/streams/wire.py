"""Events of a conversation as frames of the chat stream.

One fold serves a reader that follows live and a reader that reconnects: `ChatFrames` is fed from
the start of a task and returns the frames after the reader's last id. So a reader that reconnects
receives exactly the frames that it missed. This relies on every frame following from stored events:
a frame that followed from a live item alone would be lost. The exception is `output_delta`, whose
value `message_complete` has, too.

The order of events is not always the order in which frames may be sent. See `_end`: a message that
is cancelled in the queue ends while the model still replies to an earlier one.

Tests: tests/server/streams/test_wire.py.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from penstock.chat.wire_forms import (
    Attachments,
    LinkTo,
    blocked_part,
    note_part,
    output_part,
    question_part,
    result_part,
)
from penstock.core.events.child_events import TreeAsked
from penstock.core.events.events import (
    CallRequested,
    CallSettled,
    CancelRequested,
    Event,
    MessageReceived,
    NoteEmitted,
    QuestionAnswered,
    QuestionAsked,
    Record,
    ReplyReceived,
    ReplyRestarted,
    TaskBlocked,
    TaskEnded,
    TaskResumed,
    TaskStarted,
    TaskSuspended,
)
from penstock.core.events.flow_events import HandedBack, HandedOff, RunEnded
from penstock.core.events.roles import SubagentFilter
from penstock.core.ids import CallId, MessageId, QuestionId, SessionId, TaskId
from penstock.core.task import Question, QuestionStatus, TaskStatus
from penstock.engine.bus import Delta, Live, OutputSoFar
from penstock.server.streams.frame import Frame, Position, ReplyFrames, UnseenFrames


class StreamView(NamedTuple):
    """Which part of a conversation a stream shows, and values of frames that no event has."""

    session_id: SessionId
    link_to: LinkTo
    max_iterations: int
    only: TaskId | None = None
    """The only task to show; None shows every task, one after another."""
    follows: bool = False
    """Whether the stream stays open after the last task has ended."""
    iterations_of: Callable[[str], int] | None = None
    """Returns `max_iterations` of an agent that takes over."""


class FrameSource(Protocol):
    """Converts events to frames.

    Contract: ids of frames rise strictly; `is_over` and `is_at_work` describe the events fed.
    """

    @property
    def task_id(self) -> TaskId | None:
        """The running task."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether no event will follow without a person."""
        ...

    @property
    def is_at_work(self) -> bool:
        """Whether a task is running or queued."""
        ...

    def feed(self, items: Iterable[Live]) -> list[Frame]:
        """Fold events and live text; return the frames that result."""
        ...


class ChatFrames:
    """Folds the events of a conversation into frames, from the start of a task.

    Returns only the frames after `last`, the id with which the reader reconnected.
    """

    __slots__ = (
        "_attachments",
        "_awaited",
        "_below",
        "_calls",
        "_is_command",
        "_is_over",
        "_open",
        "_queue",
        "_replied",
        "_replies",
        "_results",
        "_said",
        "_silent",
        "_subagents",
        "_task",
        "_unseen",
        "_view",
    )

    def __init__(self, view: StreamView, last: Position) -> None:
        self._view = view
        self._unseen = UnseenFrames(last)
        self._replies = ReplyFrames(
            self._unseen,
            max_iterations=view.max_iterations,
        )
        self._queue: dict[TaskId, MessageId | None] = {}
        """The messages whose tasks have not started."""
        self._silent: dict[TaskId, None] = {}
        """Direct calls: tasks of this log that have no frames."""
        self._awaited: tuple[TaskId, ...] = ()
        self._below: dict[QuestionId, bool] = {}
        """Questions of tasks below this one, and whether they are open."""
        self._open: tuple[QuestionId, ...] = ()
        """All open questions of the tree, in its newest `suspended` frame."""
        self._task: TaskId | None = None
        self._calls: list[dict[str, Any]] = []
        self._results: dict[CallId, CallSettled] = {}
        self._attachments = Attachments()
        self._subagents = SubagentFilter()
        self._replied = False
        self._said = ""
        """The text of the newest reply: beside an output, it is the answer."""
        self._is_over = False
        self._is_command = False

    def expect(self, task_id: TaskId, message_id: MessageId) -> None:
        """Queue the message of a task whose event is not fed."""
        self._queue[task_id] = message_id

    def feed(self, items: Iterable[Live]) -> list[Frame]:
        """Fold events and live text; return the frames that result, possibly none."""
        only = self._view.only
        for item in items:
            if isinstance(item, Record):
                if item.task_id is None:
                    if only is None and isinstance(event := item.event, HandedBack):
                        self._hand_back(item.seq, event)
                elif only in {None, item.task_id}:
                    self._record(item, item.task_id)
            elif item.reply.path is not None or only not in {None, item.reply.task_id}:
                continue  # the reply of a subagent, or of another task
            elif type(item) is Delta:
                self._replies.say(item)
            elif type(item) is OutputSoFar:
                self._replies.show_output(item)
            else:
                self._replies.begin(item.reply)
        return self._unseen.take()

    @property
    def is_over(self) -> bool:
        """Whether the last task has ended or waits for a person, and the stream does not follow."""
        return self._is_over and not self._view.follows

    @property
    def is_at_work(self) -> bool:
        """Whether a task is running or queued, after the events fed."""
        return bool(self._queue) or (self._task is not None and not self._is_over)

    @property
    def task_id(self) -> TaskId | None:
        """The running task, after the events fed."""
        return self._task

    def _skip(self, task_id: TaskId, event: Event) -> None:
        if type(event) is TaskEnded:
            del self._silent[task_id]

    def _record(self, record: Record, task_id: TaskId) -> None:
        event = record.event
        match event:
            case MessageReceived(message_id=message_id):
                self._queue[task_id] = message_id
                self._is_over = False
            case CallRequested():
                self._silent[task_id] = None
            case _ if task_id in self._silent:
                self._skip(task_id, event)
            case _ if self._subagents.has(event, record.path):
                pass
            case TaskStarted():
                self._start(record.seq, task_id, event)
            case ReplyReceived():
                self._reply(record.seq, event)
            case CallSettled(call_id=call_id):
                self._attachments.add(event)
                if call_id is not None:
                    self._results[call_id] = event
                    self._unseen.add(Position(record.seq), result_part(event, self._view.link_to))
            case NoteEmitted():
                self._unseen.add(Position(record.seq), note_part(event, record.path))
            case _:
                self._rare(record.seq, task_id, event)

    def _rare(self, seq: int, task_id: TaskId, event: object) -> None:
        match event:
            case ReplyRestarted(iteration=iteration, closing=closing):
                of = {"closing": True} if closing else {"iteration": iteration}
                self._unseen.add(Position(seq), {"type": "content_reset"} | of)
            case QuestionAsked(question=question):
                self._ask(seq, question)
            case QuestionAnswered():
                self._answered(seq, event)
            case HandedOff():
                self._hand_off(seq, task_id, event)
            case TaskSuspended() | TreeAsked():
                self._suspend(seq, task_id, event)
            case TaskBlocked():
                self._is_over = True
                frame = {"type": "suspended", "taskId": task_id, "questions": []}
                self._unseen.add(Position(seq), frame | blocked_part(event.blocked_on))
            case RunEnded(run_id=run_id) if run_id in self._awaited:
                self._is_over = False
            case TaskEnded():
                self._end(seq, task_id, event)
            case TaskResumed() | CancelRequested() if task_id == self._task:
                self._is_over = False
            case _:
                pass

    def _start(self, seq: int, task_id: TaskId, event: TaskStarted) -> None:
        self._task = task_id
        self._calls, self._results, self._attachments = [], {}, Attachments()
        self._subagents, self._below = SubagentFilter(), {}
        self._replied = self._is_over = False
        self._said = ""
        self._is_command = bool(event.command)
        self._replies.begin_task(self._iterations_of(event.agent))
        frame = {
            "type": "message_start",
            "conversationId": self._view.session_id,
            "taskId": task_id,
            "userMessageId": self._queue.pop(task_id, None),
            "model": event.model,
            **({"agentId": event.agent} if event.agent else {}),
        }
        self._unseen.add(Position(seq), frame)

    def _hand_off(self, seq: int, task_id: TaskId, event: HandedOff) -> None:
        self._replies.hand_off(self._iterations_of(event.agent))
        frame = {
            "type": "handed_off",
            "taskId": task_id,
            "agentId": event.agent,
            "previousAgentId": event.previous,
            "model": event.model,
        }
        self._unseen.add(Position(seq), frame)

    def _hand_back(self, seq: int, event: HandedBack) -> None:
        frame = {"conversationId": self._view.session_id, "agentId": event.agent}
        self._unseen.add(Position(seq), {"type": "handed_back"} | frame)

    def _iterations_of(self, agent: str) -> int:
        view = self._view
        known = agent and view.iterations_of
        return known(agent) if known else view.max_iterations

    def _reply(self, seq: int, reply: ReplyReceived) -> None:
        if self._is_command:
            self._calls += self._replies.ask(seq, reply)
            return
        self._said = reply.text.strip()
        self._replied = bool(self._said) and not reply.calls
        self._calls += self._replies.finish(seq, reply)

    def _ask(self, seq: int, question: Question) -> None:
        part = question_part(question)
        if self._subagents.covers(question.path):
            part.pop("toolCallId", None)
        self._unseen.add(Position(seq), {"type": "question"} | part)

    def _answered(self, seq: int, event: QuestionAnswered) -> None:
        self._is_over = False
        frame: dict[str, Any] = {
            "type": "question_answered",
            "id": event.question_id,
            "status": event.status.value,
        }
        if event.status is QuestionStatus.ANSWERED:
            frame["answer"] = dict(event.answer)
        self._unseen.add(Position(seq), frame)

    def _suspend(self, seq: int, task_id: TaskId, event: TaskSuspended | TreeAsked) -> None:
        if isinstance(event, TreeAsked):
            if task_id == self._task:
                self._show_tree(seq, task_id, event)
            return
        if event.joins and not event.runs:
            # Other tasks work for it. Once all wait for people, TreeAsked says so.
            return
        self._is_over, self._awaited = True, event.runs
        frame = {"type": "suspended", "taskId": task_id, "questions": list(event.questions)}
        runs = {"runs": list(event.runs)} if event.runs else {}
        self._unseen.add(Position(seq), frame | runs)

    def _show_tree(self, seq: int, task_id: TaskId, event: TreeAsked) -> None:
        """Show a question of a task below, its answer, or that the whole tree waits, once each."""
        frame: dict[str, Any] = {}
        if (question := event.question) is not None:
            if question.question_id not in self._below:
                self._below[question.question_id] = True
                part = question_part(question)
                part.pop("toolCallId", None)
                path = [f"child/{event.asker}", *part.get("path", ())]
                frame = {"type": "question"} | part | {"taskId": event.asker, "path": path}
        elif (answered := event.answered) is not None:
            if self._below.get(answered):
                self._below[answered], status = False, QuestionStatus.CANCELLED
                given = {} if event.answer is None else {"answer": dict(event.answer)}
                status = QuestionStatus.ANSWERED if given else status
                frame = {"type": "question_answered", "id": answered, "status": status.value}
                frame |= {**given, "taskId": event.asker}
        elif not self._is_over or event.open != self._open:
            self._open = event.open
            frame = {"type": "suspended", "taskId": task_id, "questions": list(event.open)}
        if frame:
            self._is_over = frame["type"] == "suspended"
            self._unseen.add(Position(seq), frame)

    def _end(self, seq: int, task_id: TaskId, event: TaskEnded) -> None:
        was_queued = self._queue.pop(task_id, None) is not None
        if was_queued and self._task is not None and task_id != self._task:
            # While the model replies, the positions of its text are before this event: sent now,
            # this id would make the reader skip that text. So the frame waits for a later one.
            model_replies = len(self._results) == len(self._calls)
            add = self._unseen.hold if model_replies else self._unseen.add
            add(Position(seq), _error(task_id, event))
            return
        if not was_queued and task_id != self._task:
            return
        self._task = None
        if event.status is TaskStatus.SUCCEEDED:
            self._closing_text(seq, event)
            self._unseen.add(Position(seq), self._complete(task_id, event))
        else:
            self._unseen.add(Position(seq), _error(task_id, event))
        self._is_over = self._view.only is not None or not self._queue

    def _closing_text(self, seq: int, event: TaskEnded) -> None:
        """Add an answer that no model wrote as closing text; a command's answer needs none."""
        is_said = self._replied or event.content in {"", self._said}
        if not (is_said or self._is_command):
            frame = {"type": "content_delta", "closing": True, "delta": event.content}
            self._unseen.add(Position(seq - 1, len(event.content)), frame)

    def _complete(self, task_id: TaskId, event: TaskEnded) -> dict[str, Any]:
        link_to, results = self._view.link_to, self._results
        settled = [results[call["id"]] for call in self._calls if call["id"] in results]
        attached = self._attachments.parts(link_to)
        return {
            "type": "message_complete",
            "assistantMessageId": event.message_id,
            "conversationId": self._view.session_id,
            "taskId": task_id,
            "content": event.content,
            "toolCalls": self._calls,
            "toolResults": [result_part(result, link_to) for result in settled],
            "finishReason": event.finish_reason,
            "iterations": event.iterations,
            "usage": event.usage.to_wire(),
            **output_part(event),
            **({"attachments": attached} if attached else {}),
        }


def _error(task_id: TaskId, event: TaskEnded) -> dict[str, Any]:
    error = event.error
    return {
        "type": "error",
        "message": error.message if error else f"the task ended as {event.status.value}",
        "code": error.code if error else "INTERNAL_ERROR",
        "retryable": error.retryable if error else False,
        "taskId": task_id,
    }
