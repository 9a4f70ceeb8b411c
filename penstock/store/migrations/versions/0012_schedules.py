"""Schedules, and the tasks that they started."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
PARTIAL = {"schedules_that_are_due": "next_run", "schedules_by_plan": "planned_at"}
ACTIVE = sa.text("status = 'active'")


def upgrade() -> None:
    """Add the table, and the columns of tasks; no schedule had started a task before."""
    op.add_column("tasks", sa.Column("schedule_id", sa.Text))
    op.add_column("tasks", sa.Column("due_at", sa.BigInteger))
    scheduled = sa.text("schedule_id NOTNULL")
    op.create_index(
        "scheduled_tasks",
        "tasks",
        ["schedule_id", "created_at"],
        sqlite_where=scheduled,
        postgresql_where=scheduled,
    )
    op.create_table(
        "schedules",
        sa.Column("schedule_id", sa.Text, primary_key=True),
        *_texts("agent", "name", "type"),
        sa.Column("cron", sa.Text),
        *_texts("timezone"),
        sa.Column("delay_seconds", sa.BigInteger),
        *_texts("callback_type", "callback_id"),
        sa.Column("input", sa.JSON, nullable=False),
        *_texts("concurrency"),
        sa.Column("options", sa.JSON, nullable=False),
        *_texts("source", "profile_id"),
        sa.Column("permissions", sa.JSON),
        sa.Column("session_id", sa.Text),
        *_texts("status"),
        sa.Column("reason", sa.Text),
        sa.Column("next_run", sa.BigInteger),
        *_numbers("planned_at", "active_since"),
        sa.Column("last_run", sa.BigInteger),
        sa.Column("last_task_id", sa.Text),
        *_numbers("missed", "created_at", "updated_at"),
        sqlite_with_rowid=False,
    )
    for name, column in PARTIAL.items():
        op.create_index(name, "schedules", [column], sqlite_where=ACTIVE, postgresql_where=ACTIVE)


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _numbers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger, nullable=False) for name in names]
