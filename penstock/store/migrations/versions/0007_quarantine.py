"""Columns that record the deaths of processes, and which logs are blamed for them."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
ZERO = sa.text("0")


def upgrade() -> None:
    """Change the tables; logs that were cut before count the deaths that they have."""
    for name, kind in {
        "cohort": sa.Integer,
        "alone": sa.Integer,
        "tried_at": sa.BigInteger,
        "watch_ms": sa.BigInteger,
    }.items():
        op.add_column("logs", sa.Column(name, kind, nullable=False, server_default=ZERO))
    op.create_index(
        "logs_that_were_cut",
        "logs",
        ["recoveries"],
        sqlite_where=sa.text("recoveries > 0"),
        postgresql_where=sa.text("recoveries > 0"),
    )
