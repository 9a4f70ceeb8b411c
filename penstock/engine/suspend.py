"""Ask a person: the answer if the log has it, else the end of the activation."""

from penstock.core.errors import Suspend
from penstock.core.events import QuestionAnswered
from penstock.core.question import Question
from penstock.engine.ledger import Ledger


async def ask(ledger: Ledger, question: Question) -> QuestionAnswered:
    """Return the answer to the question of this path; each is asked once.

    Raises Suspend while nobody has answered: the call is entered again when somebody has.
    """
    if answered := ledger.answer_to(question.path):
        return answered
    if not ledger.is_asked(question.path):
        await ledger.ask(question)
    raise Suspend(question.question_id)
