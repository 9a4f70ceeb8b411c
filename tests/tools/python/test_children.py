"""Children as Python tools say them."""

from penstock import ChildResult, ChildTask


def test_a_result_is_good_if_the_child_succeeded() -> None:
    statuses = ("succeeded", "failed", "cancelled")
    results = [ChildResult(task_id="task_1", status=status) for status in statuses]
    assert [each.ok for each in results] == [True, False, False]


def test_a_child_has_no_type_by_default() -> None:
    assert ChildTask(task_id="task_1", key="a").output is None
