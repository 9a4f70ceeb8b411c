"""Tables for data of running tools: state, files, secrets."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

ZERO = sa.text("0")


def upgrade() -> None:
    """Make the tables."""
    _make_state()
    _make_files()
    op.create_table(
        "secrets",
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("scope_id", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("key_id", sa.Text, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("kind", "scope_id", "key"),
    )


def _make_state() -> None:
    op.create_table(
        "scopes",
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("scope_id", sa.Text, nullable=False),
        sa.Column("entries", sa.BigInteger, nullable=False, server_default=ZERO),
        sa.Column("file_bytes", sa.BigInteger, nullable=False, server_default=ZERO),
        sa.PrimaryKeyConstraint("kind", "scope_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "state",
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("scope_id", sa.Text, nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("revision", sa.Text, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("kind", "scope_id", "key"),
        sqlite_with_rowid=False,
    )


def _make_files() -> None:
    op.create_table(
        "files",
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("scope_id", sa.Text, nullable=False),
        sa.Column("path", sa.LargeBinary, nullable=False),
        sa.Column("blob_id", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("modified_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("kind", "scope_id", "path"),
        sqlite_with_rowid=False,
    )
    op.create_index("files_of_a_blob", "files", ["blob_id"])
    op.create_table(
        "loose_blobs",
        sa.Column("blob_id", sa.Text, primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
