"""The tables of the database, in one MetaData.

`logs` and `events` are the truth of the conversations; `tasks`, `sessions` and `questions` are
projections of them, and `penstock doctor --rebuild` computes them again. The other tables hold what
no log contains: keys, values and files of tools, secrets, media.

`schema.py` creates these tables in a new database, without migrations. A change here also needs a
migration in `migrations/versions`, which brings old databases to the same tables, and a new
REVISION. Times are milliseconds since 1970. The tables that each turn uses have no rowid in SQLite,
which saves one search per access. Proof: tests/store/test_upgrade.py, which compares both ways.
"""

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)

metadata = MetaData()

REVISION = "0018"
"""The newest migration. A new database is created with these tables at once, without migrations."""


logs = Table(
    "logs",
    metadata,
    Column("log_id", Text, primary_key=True),
    Column("profile_id", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("owner", Text),
    Column("epoch", BigInteger, nullable=False, server_default=text("0")),
    Column("lease_until", BigInteger, nullable=False, server_default=text("0")),
    Column("head", BigInteger, nullable=False, server_default=text("0")),
    Column("outside", BigInteger, nullable=False, server_default=text("0")),
    Column("needs_run", Integer, nullable=False, server_default=text("0")),
    Column("wake_at", BigInteger, nullable=False, server_default=text("0")),
    Column("held_from", BigInteger, nullable=False, server_default=text("0")),
    Column("recoveries", Integer, nullable=False, server_default=text("0")),
    Column("followed_until", BigInteger, nullable=False, server_default=text("0")),
    Column("cohort", Integer, nullable=False, server_default=text("0")),
    Column("alone", Integer, nullable=False, server_default=text("0")),
    Column("tried_at", BigInteger, nullable=False, server_default=text("0")),
    Column("watch_ms", BigInteger, nullable=False, server_default=text("0")),
    Column("archived", BigInteger, nullable=False, server_default=text("0")),
    Index("logs_that_need_a_run", "wake_at", sqlite_where=text("needs_run = 1")),
    Index("logs_that_were_cut", "recoveries", sqlite_where=text("recoveries > 0")),
    Index("logs_of_a_profile", "profile_id"),
    sqlite_with_rowid=False,
)
"""One row per log: its profile, its lease and its length.

`outside` counts the events that were appended without the lease. `held_from` is the head when the
lease was acquired last, moved past events that are not progress of a task. `followed_until` is the
time until which another process reads live text. `recoveries` counts the processes in a row that
died at the same position; `cohort`, `alone`, `tried_at` and `watch_ms` belong to it, see
`store/logs/quarantine.py`. `archived` is the event up to which `store/logs/archive.py` has looked.
"""

events = Table(
    "events",
    metadata,
    Column("log_id", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("task_id", Text),
    Column("path", Text),
    Column("kind", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("blob_id", Text),
    PrimaryKeyConstraint("log_id", "seq"),
    sqlite_with_rowid=False,
)
"""Append-only. A body over `limits.body_bytes` is in the blob `blob_id`, unless the transaction of
a change completed it; that of an archived event is there with others, and `body` is its place."""

_WHERE = ("sqlite_where", "postgresql_where")
_CHILDREN: dict[str, Any] = dict.fromkeys(_WHERE, text("parent_id NOTNULL"))
_RUNNING: dict[str, Any] = dict.fromkeys(_WHERE, text("schedule_id NOTNULL AND ended_seq IS NULL"))
tasks = Table(
    "tasks",
    metadata,
    Column("task_id", Text, primary_key=True),
    Column("log_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("profile_id", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("first_seq", BigInteger, nullable=False),
    *(Column(each, BigInteger) for each in ("started_at", "started_seq", "ended_at", "ended_seq")),
    Column("cancel_seq", BigInteger),
    Column("messages", Integer, nullable=False),
    *(Column(each, Text) for each in ("blocked_on", "schedule_id")),
    Column("due_at", BigInteger),
    *(Column(each, Text) for each in ("parent_id", "root_id", "title")),
    *(Column(each, Text) for each in ("task_key", "worker_kind", "batch_id")),
    Index("tasks_of_a_log", "log_id", "first_seq"),
    Index("tasks_in_hand", "log_id", sqlite_where=text("ended_seq IS NULL")),
    Index("tasks_of_a_profile", "profile_id", "created_at"),
    Index("scheduled_tasks", "schedule_id", "created_at", sqlite_where=text("schedule_id NOTNULL")),
    Index("tasks_of_a_tree", "root_id", sqlite_where=text("root_id NOTNULL")),
    Index("children_of_a_task", "parent_id", "created_at", **_CHILDREN),
    Index("running_of_schedules", "schedule_id", "ended_seq", **_RUNNING),
    sqlite_with_rowid=False,
)
"""The state of each task. Derived from the logs, so it can be rebuilt.

`messages` is the number of its messages in the conversation: the message and the answer.
`blocked_on` is what was missing when the task was last blocked, as JSON.
`schedule_id` and `due_at` say which schedule started it, and for which due time.
Tasks that other tasks requested have the columns from `parent_id` on.
`cancel_seq` is the first request to cancel it: from then on its questions accept no answer.
"""

sessions = Table(
    "sessions",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("profile_id", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("message_count", Integer, nullable=False),
    Index("sessions_of_a_profile", "profile_id", "updated_at"),
    sqlite_with_rowid=False,
)
"""Conversations as lists show them. Derived from the logs, so it can be rebuilt."""

questions = Table(
    "questions",
    metadata,
    Column("question_id", Text, primary_key=True),
    Column("log_id", Text, nullable=False),
    Column("task_id", Text, nullable=False),
    Column("profile_id", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("asked_at", BigInteger, nullable=False),
    Column("asked_seq", BigInteger, nullable=False),
    Column("answered_at", BigInteger),
    Column("answered_by", Text),
    Column("answered_seq", BigInteger),
    Index("questions_of_a_log", "log_id", "asked_seq"),
    Index(
        "questions_that_wait",
        "log_id",
        sqlite_where=text("status = 'open'"),
    ),
    Index("questions_of_a_profile", "profile_id", "status", "asked_at"),
    sqlite_with_rowid=False,
)
"""Open and closed questions. Derived from the logs, so it can be rebuilt."""

deltas = Table(
    "deltas",
    metadata,
    Column("log_id", Text, nullable=False),
    Column("base", BigInteger, nullable=False),
    Column("unit", BigInteger, nullable=False),
    Column("task_id", Text, nullable=False),
    Column("iteration", Integer, nullable=False),
    Column("closing", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("text", Text, nullable=False),
    PrimaryKeyConstraint("log_id", "base", "unit"),
    sqlite_with_rowid=False,
)
"""Pieces of incomplete replies, for readers in other processes; deleted when a reply completes."""

snapshots = Table(
    "snapshots",
    metadata,
    Column("log_id", Text, primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("version", Text, nullable=False),
    Column("checksum", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
)
"""The state of a long log after an event. Derived from the logs, so it can be deleted at any time.
"""

schedules = Table(
    "schedules",
    metadata,
    Column("schedule_id", Text, primary_key=True),
    *[Column(name, Text, nullable=False) for name in ("agent", "name", "type", "timezone")],
    *[Column(name, Text, nullable=False) for name in ("callback_type", "callback_id")],
    *[Column(name, Text, nullable=False) for name in ("concurrency", "source", "profile_id")],
    *[Column(name, Text) for name in ("cron", "session_id", "reason", "key_name", "last_task_id")],
    Column("status", Text, nullable=False),
    Column("input", JSON, nullable=False),
    Column("options", JSON, nullable=False),
    Column("permissions", JSON),
    *[Column(name, BigInteger) for name in ("delay_seconds", "next_run", "last_run")],
    *[Column(name, BigInteger, nullable=False) for name in ("planned_at", "active_since")],
    *[Column(name, BigInteger, nullable=False) for name in ("missed", "created_at", "updated_at")],
    Index("schedules_that_are_due", "next_run", sqlite_where=text("status = 'active'")),
    Index("schedules_by_plan", "planned_at", sqlite_where=text("status = 'active'")),
    sqlite_with_rowid=False,
)
"""When tasks start by themselves, and for which profile.

`next_run` is the due time that the next tick starts a task for; None if there is none. `planned_at`
is when it was computed: a time in the future means that the clock went back. Failures in a row are
counted from `active_since`. `key_name`, `options`: as in `Schedule` (chat/schedules/definition.py).
"""

keys = Table(
    "keys",
    metadata,
    Column("sha256", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("profile_id", Text, nullable=False),
    Column("permissions", JSON, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    Column("last_used_at", BigInteger),
    Column("session_id", Text),
)
"""API keys by their hash; the key itself is shown once and not stored.

A key with a `session_id` gives access to that conversation only, and is deleted with it.
"""

sign_ins = Table(
    "sign_ins",
    metadata,
    Column("sha256", Text, primary_key=True),
    Column("key_sha256", Text, nullable=False),
    Column("until", BigInteger, nullable=False),
)
"""Browsers that signed in with a key, by the hash of their cookie."""

idempotency = Table(
    "idempotency",
    metadata,
    Column("profile_id", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("request_hash", Text, nullable=False),
    Column("log_id", Text, nullable=False),
    Column("task_id", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    PrimaryKeyConstraint("profile_id", "key"),
    Index("idempotency_by_age", "at"),
)
"""The task that a request with an Idempotency-Key started."""

installation = Table(
    "installation",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
"""Values that were chosen when the database was created, such as its secret."""

scopes = Table(
    "scopes",
    metadata,
    Column("kind", Text, nullable=False),
    Column("scope_id", Text, nullable=False),
    Column("entries", BigInteger, nullable=False, server_default=text("0")),
    Column("file_bytes", BigInteger, nullable=False, server_default=text("0")),
    PrimaryKeyConstraint("kind", "scope_id"),
    sqlite_with_rowid=False,
)
"""The size of each scope. A change writes this row first, so changes of a scope run one by one."""

state = Table(
    "state",
    metadata,
    Column("kind", Text, nullable=False),
    Column("scope_id", Text, nullable=False),
    Column("key", LargeBinary, nullable=False),
    Column("value", Text, nullable=False),
    Column("revision", Text, nullable=False),
    Column("expires_at", BigInteger),
    PrimaryKeyConstraint("kind", "scope_id", "key"),
    sqlite_with_rowid=False,
)
"""Values of tools. Keys are bytes, so that both databases sort them in the same order."""

files = Table(
    "files",
    metadata,
    Column("kind", Text, nullable=False),
    Column("scope_id", Text, nullable=False),
    Column("path", LargeBinary, nullable=False),
    Column("blob_id", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("modified_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("kind", "scope_id", "path"),
    Index("files_of_a_blob", "blob_id"),
    sqlite_with_rowid=False,
)
"""Files of workspaces: the blob under each path."""

loose_blobs = Table(
    "loose_blobs",
    metadata,
    Column("blob_id", Text, primary_key=True),
    Column("at", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
"""Bytes that lost a reference, until a sweep has checked that nothing else refers to them."""

secrets = Table(
    "secrets",
    metadata,
    Column("kind", Text, nullable=False),
    Column("scope_id", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("key_id", Text, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("kind", "scope_id", "key"),
)
"""The vault: nonce and ciphertext, and the id of the key that encrypted them."""

media = Table(
    "media",
    metadata,
    Column("media_id", Text, primary_key=True),
    Column("profile_id", Text, nullable=False),
    Column("blob_id", Text, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("filename", Text),
    Column("expires_at", BigInteger, nullable=False),
    Index("media_of_a_blob", "blob_id"),
    Index("media_by_age", "expires_at"),
    sqlite_with_rowid=False,
)
"""Bytes that a profile may use by an id until they expire."""

deliveries = Table(
    "deliveries",
    metadata,
    Column("delivery_id", Text, primary_key=True),
    Column("webhook_id", Text, nullable=False),
    Column("log_id", Text, nullable=False),
    Column("task_id", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("event", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("status", Text, nullable=False),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("next_at", BigInteger, nullable=False),
    Column("claimed_until", BigInteger, nullable=False, server_default=text("0")),
    Column("ended_at", BigInteger),
    Column("problem", Text),
    Column("tried_since", BigInteger),
    Index("deliveries_that_wait", "webhook_id", "status", "next_at"),
    Index("deliveries_of_a_task", "webhook_id", "task_id", "at", "seq"),
    Index("deliveries_of_a_log", "log_id"),
    Index("deliveries_by_age", "at"),
    sqlite_with_rowid=False,
)
"""The outbox of webhooks: which event goes to which webhook, and how far that is.

A row names its event and holds nothing of its content, so erasing a message needs no change here.
`tried_since`: see `Delivery`.
"""

paused_webhooks = Table(
    "paused_webhooks",
    metadata,
    Column("webhook_id", Text, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    sqlite_with_rowid=False,
)
"""Webhooks whose receiver answered 410: nothing is sent to them until somebody resumes them."""

web_links = Table(
    "web_links",
    metadata,
    Column("sha256", Text, primary_key=True),
    Column("session_id", Text, nullable=False),
    Column("profile_id", Text, nullable=False),
    Column("permissions", JSON, nullable=False),
    Column("until", BigInteger, nullable=False),
)
"""Unused links of `/web`, by the hash of their token."""
