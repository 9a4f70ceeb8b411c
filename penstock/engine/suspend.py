"""Ask a person: the answer if the log has it, else the end of the activation."""

from penstock.core.call import is_below
from penstock.core.errors import PenstockError
from penstock.core.events import QuestionAnswered, TaskSuspended
from penstock.core.ids import QuestionId
from penstock.core.question import Question, QuestionStatus
from penstock.core.signals import Suspend
from penstock.engine.held import HeldLog
from penstock.engine.ledger import Ledger
from penstock.engine.state import TaskState


async def ask(ledger: Ledger, question: Question) -> QuestionAnswered:
    """Return the answer to the question of this path; each is asked once.

    Raises Suspend while nobody has answered: the call is entered again when somebody has.
    """
    if answered := ledger.answer_to(question.path):
        return answered
    if not ledger.is_asked(question.path):
        await ledger.ask(question)
    raise Suspend(_open_at(ledger.task, question))


def _open_at(task: TaskState, question: Question) -> QuestionId:
    """Return the id of the question that is open at a path: it may have been asked before."""
    ids = (each.question_id for each in task.waiting.values() if each.path == question.path)
    return next(ids, question.question_id)


def withdraw(held: HeldLog, task: TaskState, *, below: str = "") -> None:
    """Close the open questions of the task, or those inside a call that is over."""
    for question_id, question in list(task.waiting.items()):
        if not below or is_below(question.path, below):
            event = QuestionAnswered(question_id=question_id, status=QuestionStatus.CANCELLED)
            held.add(event, task.task_id)


def park(held: HeldLog, task: TaskState, *, answered: int) -> None:
    """Note that the task waits; not if more than `answered` questions have their answers by now.

    An answer may come while other calls are still at work: then there is something to do.
    """
    if len(task.answers) > answered:
        return
    if not task.waiting:
        raise PenstockError("a tool suspended its call without a question: nobody could wake it")
    parked = tuple(task.parked.values())
    held.add(TaskSuspended(questions=tuple(task.waiting), parked=parked), task.task_id)
