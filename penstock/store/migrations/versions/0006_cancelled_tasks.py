"""The request that cancelled a task, so that no answer comes after it."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the column; a task that was cancelled before ends at its next run."""
    op.add_column("tasks", sa.Column("cancel_seq", sa.BigInteger))
