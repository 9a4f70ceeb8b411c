"""Since when a delivery is tried, if it was sent again by hand."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Add the column; None means since the event."""
    op.add_column("deliveries", sa.Column("tried_since", sa.BigInteger))
