"""Open questions of a tree of tasks, and whether anything in it continues without an answer.

Shown by tests/chat/recorded/test_open_questions.py.
"""

from penstock.core.ids import TaskId
from penstock.core.task import QuestionRecord, TaskStatus
from penstock.store.projections import Page, Projections, TasksOf

_WAITING = (TaskStatus.SUSPENDED, TaskStatus.BLOCKED)
_WORKING = (TaskStatus.QUEUED, TaskStatus.RUNNING)
_MOST = 1000
"""Most tasks of a tree that are searched for open questions."""


async def asked_in_tree(lists: Projections, root: TaskId) -> list[QuestionRecord]:
    """Return the open questions of a tree, oldest first; none while something in it continues.

    A suspended task without an open question continues, too: it was answered a moment ago.
    """
    # Looked up before the questions: a task that asks now has not finished its question yet.
    below = TasksOf(root_id=root, statuses=_WORKING)
    if (await lists.tasks(of=below, page=Page(limit=1)))[1]:
        return []
    below = TasksOf(root_id=root, statuses=_WAITING)
    waiting, _ = await lists.tasks(of=below, page=Page(limit=_MOST))
    top = await lists.find_task(root)
    if top is not None and top.status in _WORKING:
        return []
    asked: list[QuestionRecord] = []
    for task in waiting if top is None or top.status.is_final else (top, *waiting):
        own = await lists.open_questions(task.log_id, task.task_id)
        if not own and task.status is TaskStatus.SUSPENDED:
            return []
        asked += own
    return sorted(asked, key=lambda each: (each.asked_at, each.question.question_id))
