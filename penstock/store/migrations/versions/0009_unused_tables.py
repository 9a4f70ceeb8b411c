"""Remove the tables that nothing has read or written since agents are files."""

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Drop the tables; no version could show their rows."""
    op.drop_table("agent_settings")
    op.drop_table("agents")
