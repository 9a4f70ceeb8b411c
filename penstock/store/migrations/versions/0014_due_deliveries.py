"""The index of deliveries that wait, by webhook: a look reads only those that are due."""

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Replace the index."""
    op.drop_index("deliveries_that_wait", "deliveries")
    columns = ["webhook_id", "status", "next_at"]
    op.create_index("deliveries_that_wait", "deliveries", columns)
