"""The place up to which the old bodies of a log are archived."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Add the column; nothing was archived before."""
    archived = sa.Column("archived", sa.BigInteger, nullable=False, server_default=sa.text("0"))
    op.add_column("logs", archived)
