"""The first tables: logs, what follows from them, and what people make over the API."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

ZERO = sa.text("0")


def upgrade() -> None:
    """Make them."""
    _make_logs()
    _make_tasks_and_sessions()
    _make_questions()
    _make_agents_and_keys()


def _make_logs() -> None:
    op.create_table(
        "logs",
        sa.Column("log_id", sa.Text, primary_key=True),
        sa.Column("profile_id", sa.Text, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("epoch", sa.BigInteger, nullable=False, server_default=ZERO),
        sa.Column("lease_until", sa.BigInteger, nullable=False, server_default=ZERO),
        sa.Column("head", sa.BigInteger, nullable=False, server_default=ZERO),
        sa.Column("outside", sa.BigInteger, nullable=False, server_default=ZERO),
        sa.Column("needs_run", sa.Integer, nullable=False, server_default=ZERO),
        sa.Column("wake_at", sa.BigInteger, nullable=False, server_default=ZERO),
        sa.Column("held_from", sa.BigInteger, nullable=False, server_default=ZERO),
        sa.Column("recoveries", sa.Integer, nullable=False, server_default=ZERO),
        sa.Column("followed_until", sa.BigInteger, nullable=False, server_default=ZERO),
        sqlite_with_rowid=False,
    )
    _partial_index("logs_that_need_a_run", "logs", "wake_at", where="needs_run = 1")
    op.create_index("logs_of_a_profile", "logs", ["profile_id"])
    op.create_table(
        "events",
        sa.Column("log_id", sa.Text, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("task_id", sa.Text),
        sa.Column("path", sa.Text),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("blob_id", sa.Text),
        sa.PrimaryKeyConstraint("log_id", "seq"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "deltas",
        sa.Column("log_id", sa.Text, nullable=False),
        sa.Column("base", sa.BigInteger, nullable=False),
        sa.Column("unit", sa.BigInteger, nullable=False),
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("iteration", sa.Integer, nullable=False),
        sa.Column("closing", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("log_id", "base", "unit"),
        sqlite_with_rowid=False,
    )


def _make_tasks_and_sessions() -> None:
    op.create_table(
        "tasks",
        sa.Column("task_id", sa.Text, primary_key=True),
        sa.Column("log_id", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("profile_id", sa.Text, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("first_seq", sa.BigInteger, nullable=False),
        sa.Column("started_at", sa.BigInteger),
        sa.Column("started_seq", sa.BigInteger),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("ended_seq", sa.BigInteger),
        sa.Column("messages", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("tasks_of_a_log", "tasks", ["log_id", "first_seq"])
    _partial_index("tasks_in_hand", "tasks", "log_id", where="ended_seq IS NULL")
    op.create_index("tasks_of_a_profile", "tasks", ["profile_id", "created_at"])
    op.create_table(
        "sessions",
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("profile_id", sa.Text, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("message_count", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("sessions_of_a_profile", "sessions", ["profile_id", "updated_at"])


def _make_questions() -> None:
    op.create_table(
        "questions",
        sa.Column("question_id", sa.Text, primary_key=True),
        sa.Column("log_id", sa.Text, nullable=False),
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("profile_id", sa.Text, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("asked_at", sa.BigInteger, nullable=False),
        sa.Column("asked_seq", sa.BigInteger, nullable=False),
        sa.Column("answered_at", sa.BigInteger),
        sa.Column("answered_by", sa.Text),
        sa.Column("answered_seq", sa.BigInteger),
        sqlite_with_rowid=False,
    )
    op.create_index("questions_of_a_log", "questions", ["log_id", "asked_seq"])
    _partial_index("questions_that_wait", "questions", "log_id", where="status = 'open'")
    op.create_index("questions_of_a_profile", "questions", ["profile_id", "status", "asked_at"])


def _make_agents_and_keys() -> None:
    op.create_table(
        "agents",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("instructions", sa.Text, nullable=False),
        sa.Column("model", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "agent_settings",
        sa.Column("agent", sa.Text, primary_key=True),
        sa.Column("settings", sa.JSON, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "keys",
        sa.Column("sha256", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("profile_id", sa.Text, nullable=False),
        sa.Column("permissions", sa.JSON, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("revoked_at", sa.BigInteger),
        sa.Column("last_used_at", sa.BigInteger),
    )
    op.create_table(
        "idempotency",
        sa.Column("profile_id", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("request_hash", sa.Text, nullable=False),
        sa.Column("log_id", sa.Text, nullable=False),
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("profile_id", "key"),
    )
    op.create_index("idempotency_by_age", "idempotency", ["at"])
    op.create_table(
        "installation",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.LargeBinary, nullable=False),
    )


def _partial_index(name: str, table: str, column: str, *, where: str) -> None:
    condition = sa.text(where)
    op.create_index(name, table, [column], sqlite_where=condition, postgresql_where=condition)
