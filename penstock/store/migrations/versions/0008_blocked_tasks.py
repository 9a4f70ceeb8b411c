"""The missing parts of a blocked task."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Change the table; no task was blocked before."""
    op.add_column("tasks", sa.Column("blocked_on", sa.Text))
