"""A conversation at a terminal: messages in, frames out, questions asked, Ctrl-C understood."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from penstock.app.runtime import Runtime
from penstock.chat.follow import LogSource, follow
from penstock.chat.message import NewMessage, SentMessage
from penstock.chat.parts import question_record
from penstock.cli.exit_codes import FAILED, FINE, INTERRUPTED, WAITING
from penstock.cli.interaction.asking import asked_in
from penstock.cli.interaction.background import Background, Feed, on_interrupt
from penstock.cli.interaction.stopping import TaskStopper, Tell
from penstock.cli.terminal.output import note
from penstock.core.errors import AlreadyAnswered, InvalidAnswer, NotFound, QuestionClosed
from penstock.core.ids import ASSISTANT, LogId, QuestionId, SessionId
from penstock.server.streams.frame import Position
from penstock.server.streams.wire import ChatFrames, StreamView

Frame = Mapping[str, Any]
Show = Callable[[Frame], None]
Ask = Callable[[Frame], dict[str, Any] | None]
"""Returns the body of the answer; None answers later."""


class Conversation:
    """Messages of one session, one after the other."""

    def __init__(
        self, runtime: Runtime, background: Background, *, show: Show, ask: Ask, tell: Tell = note
    ) -> None:
        self._runtime = runtime
        self._background = background
        self._show = show
        self._ask = ask
        self._tell = tell
        self.agent = ASSISTANT
        self.session_id: SessionId | None = None
        """None until the first message, and for a new conversation."""
        self.model: str | None = None
        self.skills: tuple[str, ...] = ()
        """Selected for each message."""

    def say(self, content: str) -> int:
        """Send a message and show what becomes of it; return how it ended.

        Ctrl-C cancels the task; a second one ends the process, and so does a task that stays.
        """
        message = NewMessage(
            content=content,
            agent=self.agent,
            session_id=self.session_id,
            model=self.model,
            selected_skills=self.skills,
        )
        sent = self._background.do(self._runtime.send(message))
        self.session_id = sent.session_id
        feed = self._background.feed(frames(self._runtime, sent, self.agent))
        return self._watch(sent, feed)

    def _watch(self, sent: SentMessage, feed: Feed[Frame]) -> int:
        questions: dict[str, Frame] = {}
        stopper: TaskStopper | None = None
        with on_interrupt(feed.interrupt):
            while True:
                try:
                    frame = feed.take(stopper.seconds if stopper else None)
                    code = self._take(frame, questions)
                except (KeyboardInterrupt, TimeoutError):
                    if stopper is not None:
                        stopper.leave()
                    stopper = self._stop(sent)
                else:
                    if code is not None:
                        return INTERRUPTED if stopper and code == FAILED else code

    def _stop(self, sent: SentMessage) -> TaskStopper:
        return TaskStopper(self._runtime, self._background, sent.task_id, tell=self._tell)

    def _take(self, frame: Frame | None, questions: dict[str, Frame]) -> int | None:
        """Show a frame; return how the message ended, if it did."""
        if frame is None:
            said = "it was cut; the task goes on: go on with --continue"
            self._show({"type": "error", "code": "STREAM_CUT", "message": said})
            return FAILED
        self._show(frame)
        match frame["type"]:
            case "question":
                questions[frame["id"]] = frame
            case "suspended" if "blockedOn" in frame:
                return WAITING
            case "suspended":
                if frame["questions"]:
                    first = frame["questions"][0]
                    is_answered = self._answer(questions.get(first) or self._find(first))
                else:
                    is_answered = self._answer_in(frame["runs"])
                return None if is_answered else WAITING
            case "message_complete":
                return FINE
            case "error":
                return FAILED
            case _:
                pass
        return None

    def _answer(self, question: Frame) -> bool:
        """Ask until the answer counts; False when the person answers later."""
        while (body := self._asked(question)) is not None:
            try:
                question_id = QuestionId(question["id"])
                self._background.do(self._runtime.answer(question_id, body))
            except InvalidAnswer as error:
                self._show({"type": "error", "code": error.code, "message": str(error)})
            except (AlreadyAnswered, QuestionClosed):
                return True
            else:
                return True
        return False

    def _answer_in(self, runs: Sequence[str]) -> bool:
        """Ask what is asked in runs, until one of them is over; False when that is for later."""
        while (question := self._next_in(runs)) is not None:
            self._show(question)
            if not self._answer(question):
                return False
        return True

    def _find(self, question_id: str) -> Frame:
        """Return a question that was asked before this message was watched, and show it."""
        found = self._runtime.parts.projections.find_question(QuestionId(question_id))
        record = self._background.do(found)
        if record is None:
            raise NotFound(f"the question {question_id} is gone: its conversation was deleted")
        question = {"type": "question"} | question_record(record)
        self._show(question)
        return question

    def _next_in(self, runs: Sequence[str]) -> Frame | None:
        feed = self._background.feed(asked_in(self._runtime, runs))
        with on_interrupt(feed.interrupt):
            asked = feed.take()
        return None if asked is None else {"type": "question"} | question_record(asked)

    def _asked(self, question: Frame) -> dict[str, Any] | None:
        with on_interrupt(None):
            return self._ask(question)


async def frames(runtime: Runtime, sent: SentMessage, agent: str) -> AsyncIterator[Frame]:
    """Yield the frames of a message's task, until it has ended."""
    parts = runtime.parts
    view = StreamView(
        session_id=sent.session_id,
        link_to=lambda stored: f"blob:{stored.blob_id}",
        max_iterations=parts.agents.get(agent).settings.max_iterations,
        argument_chars=parts.limits.argument_chars,
        only=sent.task_id,
    )
    task = await parts.projections.find_task(sent.task_id)
    after = (sent.seq if task is None else task.first_seq) - 1
    fold = ChatFrames(view, Position(sent.seq))
    source = LogSource(log=parts.log, bus=parts.bus, limits=parts.limits)
    async for item in follow(source, LogId(sent.session_id), after=after, task_id=sent.task_id):
        for _, frame in fold.feed([item]):
            yield frame
            if frame["type"] in {"message_complete", "error"}:
                return
