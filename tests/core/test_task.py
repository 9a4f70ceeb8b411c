"""Where a task stands."""

from penstock.core.task import TaskStatus


def test_three_statuses_are_final() -> None:
    """Chat API 2.3: "Task statuses: queued, blocked, running, suspended, succeeded, failed, …"."""
    assert {status.value: status.is_final for status in TaskStatus} == {
        "queued": False,
        "blocked": False,
        "running": False,
        "suspended": False,
        "succeeded": True,
        "failed": True,
        "cancelled": True,
    }
