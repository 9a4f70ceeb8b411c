"""The outbox of webhooks."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Create the tables; nothing was sent before."""
    op.create_table(
        "deliveries",
        sa.Column("delivery_id", sa.Text, primary_key=True),
        sa.Column("webhook_id", sa.Text, nullable=False),
        sa.Column("log_id", sa.Text, nullable=False),
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("next_at", sa.BigInteger, nullable=False),
        sa.Column("claimed_until", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("problem", sa.Text),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "deliveries_that_wait",
        "deliveries",
        ["next_at"],
        sqlite_where=sa.text("status = 'pending'"),
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.create_index("deliveries_of_a_task", "deliveries", ["webhook_id", "task_id", "at", "seq"])
    op.create_index("deliveries_of_a_log", "deliveries", ["log_id"])
    op.create_index("deliveries_by_age", "deliveries", ["at"])
    op.create_table(
        "paused_webhooks",
        sa.Column("webhook_id", sa.Text, primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
