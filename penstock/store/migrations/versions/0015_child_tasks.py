"""The parents of tasks, and what they call their children."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Change the table; no task had a child before."""
    for name in ("parent_id", "root_id", "title", "task_key", "worker_kind", "batch_id"):
        op.add_column("tasks", sa.Column(name, sa.Text))
    has_root = sa.text("root_id NOTNULL")
    op.create_index(
        "tasks_of_a_tree", "tasks", ["root_id"], sqlite_where=has_root, postgresql_where=has_root
    )
