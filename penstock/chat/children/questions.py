"""Questions of children at the root of their tree: reported there, with their answers.

A person follows the root. TreeQuestions writes each question of a child and its answer into the log
of the root (`TreeAsked`), and all open questions of the tree once nothing in it can continue
without a person. So a stream of the root shows them, also to a reader that reconnects.

It is called after the events of a task are committed and before its lease is released, so after a
crash it is called again. What was reported is remembered in memory only: a process that did not
report it may report it again, and readers ignore the second report.

The last move of a tree is a child that waits, or the root itself: the end of a child wakes its
parent, which looks again. A tree in which no task has asked (`Waits.below` of the root) costs no
query. Shown by tests/chat/children/test_questions.py and tests/journeys/test_tree_questions.py.
"""

from collections import OrderedDict
from contextlib import suppress

from msgspec import Struct, field

from penstock.chat.recorded.open_questions import asked_in_tree
from penstock.core.envelope import Json
from penstock.core.errors import NotFound, TaskOver
from penstock.core.events.child_events import ChildRequested, TreeAsked
from penstock.core.events.events import Entry, QuestionAnswered
from penstock.core.ids import LogId, QuestionId, TaskId
from penstock.core.task import QuestionRecord, QuestionStatus
from penstock.engine.held_log import HeldLog
from penstock.engine.task_state import TaskState
from penstock.store.logs.log import Log
from penstock.store.projections import Projections

_KEPT = 1000
"""Trees whose reports a process remembers."""


class _Tree(Struct):
    """Reports of this process to one root."""

    root: TaskId
    log_id: LogId
    waits_for: tuple[QuestionId, ...] = ()
    """The open questions of the last report that nothing continues."""
    arrivals: int = 0
    """How often the root had resumed then."""
    told: dict[QuestionId, bool] = field(default_factory=dict)
    """Questions that were reported, and whether their answers were."""


class TreeQuestions:
    """Reports questions of children to the roots of their trees."""

    def __init__(self, log: Log, projections: Projections) -> None:
        self._log = log
        self._projections = projections
        self._trees: OrderedDict[TaskId, _Tree] = OrderedDict()

    async def report(self, held: HeldLog, task: TaskState) -> None:
        """Report what is new about the questions of a task. Repeating this is harmless."""
        brief = task.brief
        if isinstance(brief, ChildRequested):
            tree = self._tree(brief.root, brief.root_log)
            await self._report_questions(tree, task)
            may_wait = task.is_suspended
        elif task.waits.joins:
            tree = self._tree(task.task_id, held.state.log_id)
            if tree.arrivals != task.waits.arrivals:
                # It went on since the last report: its stream shows the wait again.
                tree.arrivals, tree.waits_for = task.waits.arrivals, ()
            may_wait = task.is_suspended and bool(task.waits.below)
        else:
            return
        if may_wait:
            await self._report_wait(tree)

    async def _report_questions(self, tree: _Tree, task: TaskState) -> None:
        waits = task.waits
        for question_id, path in list(waits.questions.items()):
            question = waits.waiting.get(question_id)
            if question is not None and question_id not in tree.told:
                tree.told[question_id] = False
                await self._send(tree, TreeAsked(asker=task.task_id, question=question))
            elif question is None and not tree.told.get(question_id):
                tree.told[question_id] = True
                answer = _answer(question_id, waits.answers.get(path))
                closed = TreeAsked(asker=task.task_id, answered=question_id, answer=answer)
                await self._send(tree, closed)
            else:
                continue
            # What changed makes the next wait of the tree a new one.
            tree.waits_for = ()

    async def _report_wait(self, tree: _Tree) -> None:
        """Report all open questions of the tree if nothing in it can continue without a person."""
        asked = await asked_in_tree(self._projections, tree.root)
        waits_for = tuple(each.question.question_id for each in asked)
        if waits_for and waits_for != tree.waits_for:
            tree.waits_for = waits_for
            await self._send(tree, TreeAsked(open=waits_for))

    async def _send(self, tree: _Tree, event: TreeAsked) -> None:
        """Append an event to the log of the root, unless it has ended or was erased."""
        with suppress(TaskOver, NotFound):
            await self._log.send(tree.log_id, [Entry(event, tree.root)])

    def _tree(self, root: TaskId, log_id: LogId) -> _Tree:
        tree = self._trees.pop(root, None) or _Tree(root, log_id)
        self._trees[root] = tree
        if len(self._trees) > _KEPT:
            self._trees.popitem(last=False)
        return tree


async def report_answer(log: Log, lists: Projections, answered: QuestionRecord) -> None:
    """Report the answer to a question of a child to the root; nothing for other questions."""
    task = await lists.find_task(answered.task_id)
    root = None if task is None or task.root_id is None else await lists.find_task(task.root_id)
    if root is not None:
        question_id, answer = answered.question.question_id, answered.answer
        event = TreeAsked(asker=answered.task_id, answered=question_id, answer=answer)
        with suppress(TaskOver, NotFound):
            await log.send(root.log_id, [Entry(event, root.task_id)])


def _answer(question_id: QuestionId, event: QuestionAnswered | None) -> Json | None:
    """Return the answer to a question; None if it was closed without one."""
    if event is None or event.question_id != question_id:
        return None
    return event.answer if event.status is QuestionStatus.ANSWERED else None
