"""Links that are kept as hashes, keys of one conversation, and browsers that are signed in."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Change the tables; links that were given out before open nothing any more."""
    op.drop_table("used_links")
    op.add_column("keys", sa.Column("session_id", sa.Text))
    op.create_table(
        "web_links",
        sa.Column("sha256", sa.Text, primary_key=True),
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("profile_id", sa.Text, nullable=False),
        sa.Column("permissions", sa.JSON, nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "sign_ins",
        sa.Column("sha256", sa.Text, primary_key=True),
        sa.Column("key_sha256", sa.Text, nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
    )
