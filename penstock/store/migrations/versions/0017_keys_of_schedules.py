"""The API key that made a schedule: revoking it pauses the schedule."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Add the column; the keys of older schedules are not known."""
    op.add_column("schedules", sa.Column("key_name", sa.Text))
