"""Puts the questions of a task to the person at the terminal.

Guarantees: the person is asked each question once, although it may arrive twice (as an event of the
task, and from the list of open questions). A prompt ends by itself when the question is answered
elsewhere, for example in a browser. An invalid answer is reported, and the prompt appears again.

Relies on the main thread: `Background` runs the event loop, so a prompt does not stop other calls.
Text that was typed before the prompt is discarded, because it was not meant as the answer.

Proof: tests/cli/interaction/test_asker.py.
"""

from collections.abc import Callable, Mapping
from typing import Any

from penstock.app.runtime import Runtime
from penstock.chat.representations import question_record
from penstock.cli.interaction.asking import ask_here, show_question
from penstock.cli.interaction.background import Background, on_interrupt
from penstock.cli.terminal.keyboard import IsOver, forget_typed
from penstock.cli.terminal.output import note
from penstock.cli.terminal.plain import hanging
from penstock.core.errors import AlreadyAnswered, InvalidAnswer, PenstockError, QuestionClosed
from penstock.core.ids import QuestionId
from penstock.core.task import QuestionRecord, QuestionStatus

Part = Mapping[str, Any]
"""A question as JSON, as in frames and lists."""
Ask = Callable[[Part, IsOver], dict[str, Any] | None]
"""Prompts for an answer and returns its body; None if the person answers later.

Raises QuestionClosed once the question needs no answer any more.
"""


def note_error(error: PenstockError) -> None:
    """Print on stderr why an answer was refused."""
    note(hanging(str(error)))


class Asker:
    """Asks each question once, however often it arrives."""

    def __init__(
        self,
        runtime: Runtime,
        background: Background,
        *,
        ask: Ask = ask_here,
        tell: Callable[[PenstockError], None] = note_error,
    ) -> None:
        self._runtime = runtime
        self._background = background
        self._ask = ask
        self._tell = tell
        self._is_closed: dict[str, bool] = {}
        """By question: whether it was answered, here or elsewhere, or stays open for later."""

    def has_met(self, question_id: str) -> bool:
        """Whether the person was asked already."""
        return question_id in self._is_closed

    def is_closed(self, question_id: str) -> bool:
        """Whether the person was asked and the question is closed."""
        return self._is_closed.get(question_id, False)

    def meet(self, record: QuestionRecord) -> bool:
        """Show a question on stderr and ask it, once; False if it stays open.

        Raises KeyboardInterrupt at Ctrl-C.
        """
        question = question_record(record)
        if not self.has_met(question["id"]):
            show_question(question)
        return self.put(question)

    def put(self, question: Part) -> bool:
        """Ask until an answer is valid or the question is closed elsewhere; False if it stays open.

        The caller has shown the question. Raises KeyboardInterrupt at Ctrl-C.
        """
        question_id = QuestionId(question["id"])
        if question_id in self._is_closed:
            return self._is_closed[question_id]

        def is_over() -> bool:
            find = self._runtime.parts.projections.find_question(question_id)
            record = self._background.do(find)
            return record is None or record.status is not QuestionStatus.OPEN

        if is_over():
            self._is_closed[question_id] = True
            return True
        forget_typed()
        self._is_closed[question_id] = self._is_answered(question, is_over)
        return self._is_closed[question_id]

    def _is_answered(self, question: Part, is_over: IsOver) -> bool:
        while True:
            try:
                with on_interrupt(None):
                    body = self._ask(question, is_over)
                if body is None:
                    return False
                answering = self._runtime.answer(QuestionId(question["id"]), body)
                self._background.do(answering)
            except InvalidAnswer as error:
                self._tell(error)
            except (AlreadyAnswered, QuestionClosed) as error:
                self._tell(error)
                return True
            else:
                return True
