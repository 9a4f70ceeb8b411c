"""A conversation at a terminal: sends messages, shows frames, asks questions, handles Ctrl-C.

The main thread takes items from one feed: frames of the message's task, and questions of nested
runs, which are not in the conversation's log. It shows each frame and asks each question once,
also while other calls work. A message has ended when it is complete, failed, or waits for an answer
that the person postpones. The first Ctrl-C cancels the task; a second one, or a task that does not
end within `limits.shutdown_seconds`, exits the process. Nothing is lost then: the task is on disk.

Proof: tests/cli/interaction/test_conversation.py, tests/journeys/test_terminal.py.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from penstock.agents.attachments.content import Attachment
from penstock.agents.attachments.keeper import PlacedFile
from penstock.app.runtime import Runtime
from penstock.chat.log_follower import LogSource, follow
from penstock.chat.requests import NewMessage, SentMessage
from penstock.chat.wire_forms import question_record
from penstock.cli.interaction.asking import Ask, Asker, asked_below, asked_in, with_questions
from penstock.cli.interaction.loop_thread import Background, Feed, TaskStopper, Tell, on_interrupt
from penstock.cli.terminal.exit_codes import FAILED, FINE, INTERRUPTED, WAITING
from penstock.cli.terminal.output import note
from penstock.core.errors import NotFound, PenstockError
from penstock.core.ids import ASSISTANT, LogId, QuestionId, SessionId
from penstock.core.messages import StoredFile
from penstock.core.task import QuestionRecord
from penstock.server.streams.frame import Position
from penstock.server.streams.wire import ChatFrames, StreamView

Frame = Mapping[str, Any]
Show = Callable[[Frame], None]


class Conversation:
    """One session at the terminal; sends one message at a time."""

    def __init__(
        self,
        runtime: Runtime,
        background: Background,
        *,
        show: Show,
        ask: Ask | None,
        tell: Tell = note,
    ) -> None:
        self._runtime = runtime
        self._background = background
        self.show = show
        self._ask = ask
        """None if there is no person to ask: stdin is not a terminal, or the output is JSON."""
        self.tell = tell
        self.agent = ASSISTANT
        self.session_id: SessionId | None = None
        """None until the first message, and for a new conversation."""
        self.model: str | None = None
        self.skills: tuple[str, ...] = ()
        """Selected for each message."""
        self.files: tuple[Attachment, ...] = ()
        """Sent with the next message."""

    def say(self, content: str) -> int:
        """Send a message, show its frames until it is answered, and return the exit code."""
        runtime, background = self._runtime, self._background
        message = NewMessage(
            content=content,
            attachments=self._stored(),
            agent=self.agent,
            session_id=self.session_id,
            model=self.model,
            selected_skills=self.skills,
        )
        sent = background.do(runtime.requests.send(message))
        self.files = ()
        self.session_id = sent.session_id
        items: AsyncIterator[Frame | QuestionRecord] = frames(runtime, sent, self.agent)
        asker = None
        if self._ask is not None:
            asker = Asker(runtime, background, ask=self._ask, tell=self._refused)
            items = with_questions(items, asked_below(runtime, sent.task_id))
        return _WatchedMessage(self, runtime, background, asker).through(sent, items)

    def _stored(self) -> tuple[StoredFile, ...]:
        if not self.files:
            return ()
        placed = [PlacedFile(file, number) for number, file in enumerate(self.files)]
        keeper = self._runtime.parts.chat.attachments
        keep = keeper.keep_files(placed, self._runtime.local, field="--attach")
        return self._background.do(keep)

    def _refused(self, error: PenstockError) -> None:
        self.show({"type": "error", "code": error.code, "message": str(error)})


class _WatchedMessage:
    """The task of one message, its display, and the person who answers its questions."""

    def __init__(
        self,
        conversation: Conversation,
        runtime: Runtime,
        background: Background,
        asker: Asker | None,
    ) -> None:
        self._show = conversation.show
        self._tell = conversation.tell
        self._runtime = runtime
        self._background = background
        self._asker = asker
        self._stopper: TaskStopper | None = None
        self._shown: dict[str, Frame] = {}
        """Questions, by id."""
        self._rests = False
        """Whether the task waits only for nested runs, according to its last frame."""

    def through(self, sent: SentMessage, items: AsyncIterator[Frame | QuestionRecord]) -> int:
        """Show all items; return the exit code of the message."""
        feed = self._background.feed(items)
        try:
            with on_interrupt(feed.interrupt):
                return self._watch(sent, feed)
        finally:
            feed.close()

    def _watch(self, sent: SentMessage, feed: Feed[Frame | QuestionRecord]) -> int:
        while True:
            try:
                item = feed.take(self._stopper.seconds if self._stopper else None)
                code = self._take(item)
            except (KeyboardInterrupt, TimeoutError):
                if self._stopper is not None:
                    self._stopper.leave()
                self._stopper = TaskStopper(
                    self._runtime, self._background, sent.task_id, tell=self._tell
                )
            else:
                if code is not None:
                    return INTERRUPTED if self._stopper and code == FAILED else code

    def _take(self, item: Frame | QuestionRecord | None) -> int | None:
        """Show one item; return the exit code if the message has ended."""
        if isinstance(item, QuestionRecord):
            return None if self._meet(item) or not self._rests else WAITING
        if item is None:
            message = "the stream was cut, but the task continues; `--continue` shows the rest"
            item = {"type": "error", "code": "STREAM_CUT", "message": message}
        self._rests = False
        return self._take_frame(item)

    def _take_frame(self, frame: Frame) -> int | None:
        self._show(frame)
        match frame["type"]:
            case "question":
                self._shown[frame["id"]] = frame
                if self._asker is not None:
                    self._put(frame)
            case "suspended" if "blockedOn" in frame:
                return WAITING
            case "suspended":
                return None if self._resumes(frame) else WAITING
            case "message_complete":
                return FINE
            case "error":
                return FAILED
            case _:
                pass
        return None

    def _resumes(self, frame: Frame) -> bool:
        """Ask the questions of a suspended task; return whether it resumes by itself."""
        if self._stopper is not None:
            return True  # the task is about to end: its last frame follows
        questions = [self._find(str(each)) for each in frame["questions"]]
        if questions:
            # The answer to any of them lets the task continue.
            return any(self._put(each) for each in questions if not self._is_postponed(each["id"]))
        self._rests = self._answer_in(frame["runs"])
        return self._rests

    def _answer_in(self, runs: Sequence[str]) -> bool:
        """Ask the questions of runs until one run has ended; False if the person postpones one."""
        while (record := self._next_in(runs)) is not None:
            if not self._meet(record):
                return False
        return True

    def _meet(self, record: QuestionRecord) -> bool:
        """Show a question and ask it, once."""
        question = {"type": "question"} | question_record(record)
        if self._shown.setdefault(question["id"], question) is question:
            self._show(question)
        return self._put(question)

    def _put(self, question: Frame) -> bool:
        """Ask a shown question, also while other calls work; False if it stays open."""
        if self._stopper is not None:
            return False
        if self._asker is not None and self._asker.put(question):
            return True
        self._tell(f"Waiting for an answer. Run: penstock answer {question['id']}")
        return False

    def _find(self, question_id: str) -> Frame:
        """Return a question. Shows it if it was asked before this display started."""
        if question_id in self._shown:
            return self._shown[question_id]
        finding = self._runtime.parts.storage.projections.find_question(QuestionId(question_id))
        record = self._background.do(finding)
        if record is None:
            raise NotFound(f"there is no question {question_id}: its conversation was deleted")
        self._shown[question_id] = question = {"type": "question"} | question_record(record)
        self._show(question)
        return question

    def _next_in(self, runs: Sequence[str]) -> QuestionRecord | None:
        """Return the next question of runs that was not asked yet; else one that was postponed."""
        feed = self._background.feed(asked_in(self._runtime, runs))
        postponed: QuestionRecord | None = None
        try:
            with on_interrupt(feed.interrupt):
                while (record := feed.take()) is not None:
                    if not self._is_postponed(record.question.question_id):
                        return record
                    postponed = record
        finally:
            feed.close()
        return postponed

    def _is_postponed(self, question_id: str) -> bool:
        asker = self._asker
        return asker is not None and asker.has_met(question_id) and not asker.is_closed(question_id)


async def frames(runtime: Runtime, sent: SentMessage, agent: str) -> AsyncIterator[Frame]:
    """Yield the frames of a message's task until it has ended."""
    parts = runtime.parts
    view = StreamView(
        session_id=sent.session_id,
        link_to=lambda stored: f"blob:{stored.blob_id}",
        max_iterations=parts.chat.agents.get(agent).settings.max_iterations,
        only=sent.task_id,
        iterations_of=parts.chat.agents.iterations_of,
    )
    task = await parts.storage.projections.find_task(sent.task_id)
    after = (sent.seq if task is None else task.first_seq) - 1
    fold = ChatFrames(view, Position(sent.seq))
    source = LogSource(log=parts.storage.log, bus=parts.engine.bus, limits=parts.world.limits)
    async for item in follow(source, LogId(sent.session_id), after=after, task_id=sent.task_id):
        for _, frame in fold.feed([item]):
            yield frame
            if frame["type"] in {"message_complete", "error"}:
                return
