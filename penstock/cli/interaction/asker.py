"""Puts the questions of a task to the person at the terminal until an answer counts."""

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
from penstock.core.question import QuestionRecord, QuestionStatus

Part = Mapping[str, Any]
"""A question as frames and lists show it."""
Ask = Callable[[Part, IsOver], dict[str, Any] | None]
"""Returns the body of an answer; None answers later. Raises QuestionClosed once it is over."""


def note_error(error: PenstockError) -> None:
    """Say on stderr why an answer does not count."""
    note(hanging(str(error)))


class Asker:
    """Asks each question once, however often it is met."""

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
        """Whether the person was asked and the question needs no answer any more."""
        return self._is_closed.get(question_id, False)

    def meet(self, record: QuestionRecord) -> bool:
        """Show a question on stderr and ask it, unless that was done; False when it stays open.

        Raises KeyboardInterrupt at Ctrl-C.
        """
        question = question_record(record)
        if not self.has_met(question["id"]):
            show_question(question)
        return self.put(question)

    def put(self, question: Part) -> bool:
        """Ask until an answer counts or the question is closed elsewhere; False when it stays open.

        The question has been shown. Raises KeyboardInterrupt at Ctrl-C.
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
