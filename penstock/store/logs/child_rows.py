"""Admits children to the tree of their root.

Guarantees: a child is created only while its parent has not ended, even if the process of the
parent was frozen meanwhile; a tree has at most `limits.child_tasks` tasks below its root. Both are
checked in the transaction that creates the child. Proof: tests/store/logs/test_child_rows.py.
"""

from sqlalchemy.engine.interfaces import DBAPICursor

from penstock.core.errors import NotFound, SessionBusy, TaskOver
from penstock.core.events.child_events import ChildRequested
from penstock.core.events.events import Record
from penstock.core.limits import Limits
from penstock.store.failures import task_exists
from penstock.store.statements import Statements


def admit_child(
    sql: Statements, cursor: DBAPICursor, record: Record, child: ChildRequested, *, limits: Limits
) -> None:
    """Raise NameTaken, NotFound (the parent), TaskOver (it has ended) or SessionBusy (the tree)."""
    cursor.execute(sql.queued, (record.task_id, record.log_id))
    known, _ = cursor.fetchone() or (None, 0)
    if known is not None:
        raise task_exists(record.task_id)
    cursor.execute(sql.task_end, (child.parent, child.parent_log))
    check_parent(child, cursor.fetchone())
    cursor.execute(sql.size_of_tree, (child.root,))
    (size,) = cursor.fetchone() or (0,)
    check_room(child, size, limits)


def check_parent(child: ChildRequested, end: tuple[int | None] | None) -> None:
    """Raise NotFound without a parent, TaskOver if it has an end. The retry of a child has none."""
    if not child.parent:
        return
    if end is None:
        raise NotFound(f"there is no task {child.parent!r} in {child.parent_log!r}")
    if end[0] is not None:
        raise TaskOver(f"the task {child.parent!r} has ended")


def check_room(child: ChildRequested, size: int, limits: Limits) -> None:
    """Raise SessionBusy if the tree is full."""
    if size >= limits.child_tasks:
        raise SessionBusy(
            f"the task {child.root!r} has {size} tasks below it, which is the limit "
            "(limits.child_tasks)"
        )
