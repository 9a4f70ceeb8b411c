"""Waiting for people, runs and other tasks: return the answer from the log, or suspend the task.

A call that waits raises Suspend, which ends the activation, so no call waits in memory: only a
cached fold of the log may remain, and it can be dropped at any time. The answer, or the end of the
run, arrives as an outside event and makes the task pending again. Then the call is entered from its
top and finds the answer in the log. Each question is asked once: its path identifies it. `park`
compares counters taken before the work with the current ones: an answer that arrives while other
calls still run must not be slept through. Shown by tests/engine/test_suspend.py.
"""

from penstock.core.call import is_below
from penstock.core.clock import Clock, Moment
from penstock.core.errors import PenstockError, Suspend
from penstock.core.events.child_events import Join
from penstock.core.events.events import QuestionAnswered, TaskSuspended
from penstock.core.events.schedule_events import WaitExpired
from penstock.core.ids import TaskId
from penstock.core.task import EXPIRED, Question, QuestionStatus
from penstock.engine.held_log import HeldLog
from penstock.engine.ledger import Ledger
from penstock.engine.session_state import SessionState
from penstock.engine.task_state import TaskState


async def ask(ledger: Ledger, question: Question) -> QuestionAnswered:
    """Return the answer to the question at this path; ask it if it was not asked before.

    Raises Suspend while there is no answer. The call is entered again when there is one.
    """
    if answered := ledger.answer_to(question.path):
        return answered
    if not ledger.is_asked(question.path):
        await ledger.ask(question)
    # An earlier entry of the call may have asked under another id.
    asked = (each for each in ledger.task.waits.waiting.values() if each.path == question.path)
    raise Suspend(next((each.question_id for each in asked), question.question_id))


def await_run(ledger: Ledger, run_id: TaskId) -> None:
    """Return if the log has the end of the run.

    Raises Suspend otherwise. The call is entered again when the run has ended.
    """
    if run_id not in ledger.task.waits.ended_runs:
        ledger.task.own_waits().awaited[run_id] = None
        raise Suspend(run_id)


def await_tasks(ledger: Ledger, join: Join) -> None:
    """Return if enough of these tasks have ended.

    Raises Suspend otherwise. The call is entered again when they have.
    """
    waits = ledger.task.waits
    if not join.is_met(waits.ended_runs):
        ledger.task.own_waits().joins[join.path] = join
        raise Suspend(*[run for run in join.runs if run not in waits.ended_runs])
    if join.path in waits.joins:
        del waits.joins[join.path]


def withdraw(held: HeldLog, task: TaskState, *, below: str = "") -> None:
    """Close the open questions of the task, or only those below a path."""
    for question_id, question in list(task.waits.waiting.items()):
        if not below or is_below(question.path, below):
            event = QuestionAnswered(question_id=question_id, status=QuestionStatus.CANCELLED)
            held.add(event, task.task_id)


def park(held: HeldLog, task: TaskState, *, arrivals_before: int) -> None:
    """Add TaskSuspended, unless an answer or an end of a run arrived during the work.

    `arrivals_before` is `task.waits.arrivals` from before the work. If it has grown, the task
    has work to do and must not suspend.
    """
    waits = task.waits
    if waits.arrivals > arrivals_before or any(
        join.is_met(waits.ended_runs) for join in waits.joins.values()
    ):
        return
    if not (waits.waiting or waits.awaited or waits.joins):
        raise PenstockError(
            "a tool suspended its call without a question, so no answer could resume it"
        )
    suspended = TaskSuspended(
        questions=tuple(waits.waiting),
        runs=tuple(sorted(waits.awaited)),
        parked=tuple(waits.parked.values()),
        joins=tuple(waits.joins.values()),
    )
    held.add(suspended, task.task_id)


async def expire(held: HeldLog, clock: Clock) -> None:
    """Close open questions whose time is up; an answer that is already in the log wins.

    A task of a schedule that bounds its waits is resumed with a message then.
    """
    task = held.state.current
    if task is None or task.is_ended:
        return
    now = clock.now()
    for question in list(task.waits.waiting.values()):
        if question.expires_at is not None and question.expires_at <= now:
            event = QuestionAnswered(
                question_id=question.question_id,
                status=QuestionStatus.CANCELLED,
                answer={**EXPIRED, **question.handed_back},
            )
            held.add(event, task.task_id)
    await held.commit()
    # After the commit, which brings the answer of a person that came first. After a crash in
    # between, the expired question is found again.
    if task.fired is not None and task.waits.has_expired(task.expired_waits):
        held.add(WaitExpired(resume_prompt=task.fired.resume_prompt), task.task_id)
        await held.commit()


def next_expiry(state: SessionState) -> Moment | None:
    """Return when the first open question of the log expires; None if none does."""
    if state.current is None or state.current.is_ended:
        return None
    times = [question.expires_at for question in state.current.waits.waiting.values()]
    return min((time for time in times if time is not None), default=None)
