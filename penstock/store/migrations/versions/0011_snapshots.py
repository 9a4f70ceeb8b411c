"""Snapshots of long logs."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Create the table; each log gets its row when it is folded next."""
    op.create_table(
        "snapshots",
        sa.Column("log_id", sa.Text, primary_key=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("checksum", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
