"""Whose a value is."""

from penstock.core.state.scope import Scope, ScopeKind


def test_a_part_of_a_task_is_a_scope_of_its_own() -> None:
    task = Scope(ScopeKind.TASK, "task_1")
    assert task.part("letter") == Scope(ScopeKind.TASK, "task_1/letter")
    assert str(task) == "task:task_1"
