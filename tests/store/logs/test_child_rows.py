"""The admission of a child: its parent has not ended, and its tree has room."""

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.core.errors import NotFound, PenstockError, SessionBusy, TaskOver
from penstock.core.limits import Limits
from penstock.store.logs.child_rows import check_parent, check_room
from tests.kit.child_events import STORED_OF_CHILDREN

CHILD: Any = STORED_OF_CHILDREN[0][0]


@pytest.mark.parametrize(("end", "error"), [(None, NotFound), ((7,), TaskOver)])
def test_a_parent_that_is_gone_or_over_gets_no_child(end: Any, error: type[PenstockError]) -> None:
    with pytest.raises(error, match="task_1"):
        check_parent(CHILD, end)


def test_a_parent_at_work_gets_children_until_its_tree_is_full() -> None:
    check_parent(CHILD, (None,))
    check_room(CHILD, 2, Limits(child_tasks=3))
    with pytest.raises(SessionBusy, match=r"'task_0' has 3 tasks below it.*limits\.child_tasks"):
        check_room(replace(CHILD, title="x"), 3, Limits(child_tasks=3))
