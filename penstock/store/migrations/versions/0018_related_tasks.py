"""The indexes of the tasks of a schedule that have not ended, and of the children of a task."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Add the indexes."""
    running = sa.text("schedule_id NOTNULL AND ended_seq IS NULL")
    op.create_index(
        "running_of_schedules",
        "tasks",
        ["schedule_id", "ended_seq"],
        sqlite_where=running,
        postgresql_where=running,
    )
    has_parent = sa.text("parent_id NOTNULL")
    op.create_index(
        "children_of_a_task",
        "tasks",
        ["parent_id", "created_at"],
        sqlite_where=has_parent,
        postgresql_where=has_parent,
    )
