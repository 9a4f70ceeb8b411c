"""Wait for people: what they said if the log has it, else the end of the activation."""

from penstock.core.call import is_below
from penstock.core.errors import PenstockError
from penstock.core.events.events import QuestionAnswered, TaskSuspended
from penstock.core.ids import QuestionId, TaskId
from penstock.core.question import Question, QuestionStatus
from penstock.core.signals import Suspend
from penstock.engine.held_log import HeldLog
from penstock.engine.ledger import Ledger
from penstock.engine.task_state import TaskState


async def ask(ledger: Ledger, question: Question) -> QuestionAnswered:
    """Return the answer to the question of this path; each is asked once.

    Raises Suspend while nobody has answered: the call is entered again when somebody has.
    """
    if answered := ledger.answer_to(question.path):
        return answered
    if not ledger.is_asked(question.path):
        await ledger.ask(question)
    raise Suspend(_open_at(ledger.task, question))


def await_run(ledger: Ledger, run_id: TaskId) -> None:
    """Return if the end of a run was told to the task that waits for it.

    Raises Suspend while it was not: the call is entered again when it is.
    """
    task = ledger.task
    if run_id not in task.runs_over:
        task.awaited[run_id] = None
        raise Suspend(run_id)


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


def park(held: HeldLog, task: TaskState, *, heard: int) -> None:
    """Note that the task waits; not if more answers and ends of runs than `heard` came by now.

    They may come while other calls are still at work: then there is something to do.
    """
    if task.heard > heard:
        return
    if not (task.waiting or task.awaited):
        raise PenstockError("a tool suspended its call without a question: nobody could wake it")
    suspended = TaskSuspended(
        questions=tuple(task.waiting),
        runs=tuple(sorted(task.awaited)),
        parked=tuple(task.parked.values()),
    )
    held.add(suspended, task.task_id)
