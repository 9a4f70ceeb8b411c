"""The statements that run for every event, as text.

They bypass SQLAlchemy: compiling and executing one through it takes five times as long as through
the driver. The text is that of SQLite; for Postgres the constructor replaces the placeholders.
Below each statement are its parameters in order, and after `->` the columns that it returns.

Proof: tests/store/test_statements.py runs all of them on both databases.
"""

from collections.abc import Sequence
from typing import Any

Row = Sequence[Any]


_HISTORY = (
    "SELECT log_id, owner, lease_until, head = held_from, recoveries, cohort, alone, tried_at, "
    "watch_ms FROM logs "
)
"""The columns of a LeaseHistory."""
_SQLITE_ONLY = "INDEXED BY tasks_in_hand "
"""Without it, SQLite reads every task that the log ever had."""


class Statements:
    """Statements on logs, events, lists and scopes, for one dialect."""

    def __init__(self, dialect: str) -> None:
        if dialect != "sqlite":
            for name, statement in vars(Statements).items():
                if not name.startswith("_"):
                    adapted = statement.replace(_SQLITE_ONLY, "").replace("?", "%s")
                    setattr(self, name, adapted)

    advance = (
        "UPDATE logs SET head = head + ?, lease_until = ?, held_from = held_from + ? "
        "WHERE log_id = ? AND epoch = ? AND owner IS NOT NULL AND head = ? AND outside = ?"
    )
    """n, lease_until, n if no event is progress else 0, log_id, epoch, head, outside."""
    advance_past = (
        "UPDATE logs SET head = head + ?, lease_until = ?, held_from = held_from + ? "
        "WHERE log_id = ? AND epoch = ? AND owner IS NOT NULL AND head - outside = ? "
        "RETURNING head, outside"
    )
    """As `advance`, if outside events may have been added; the last parameter is the number of
    events that holders wrote. -> head, outside.

    Two statements, because returning the columns costs SQLite as much as all the rest.
    """
    add_outside = (
        "UPDATE logs SET head = head + ?, outside = outside + ?, held_from = held_from + ?, "
        "needs_run = 1, wake_at = 0 WHERE log_id = ? RETURNING head"
    )
    """n, n, n, log_id -> head."""
    begin = (
        "UPDATE logs SET head = head + ?, outside = outside + ?, needs_run = 1, wake_at = 0, "
        "epoch = epoch + 1, owner = ?, lease_until = ?, held_from = head + ? "
        "WHERE log_id = ? AND head = ? AND owner IS NULL AND recoveries = 0 "
        "RETURNING epoch, head, outside, followed_until"
    )
    """n, outside n, owner, lease_until, n, log_id, head -> the columns."""
    open_held_log = (
        "INSERT INTO logs (log_id, profile_id, agent, head, outside, needs_run, epoch, owner, "
        "lease_until, held_from) VALUES (?, ?, ?, ?, ?, 1, 1, ?, ?, ?) ON CONFLICT DO NOTHING"
    )
    """log_id, profile_id, agent, n, outside n, owner, lease_until, n."""
    open_log = (
        "INSERT INTO logs (log_id, profile_id, agent, head, outside, needs_run) VALUES (?, ?, "
        "?, ?, ?, 1)"
    )
    """log_id, profile_id, agent, head, outside."""
    drop_room = "UPDATE logs SET head = head - ?, outside = outside - ? WHERE log_id = ?"
    """n, n, log_id. Takes back the numbers of n entries that are not written."""
    insert = (
        "INSERT INTO events (log_id, seq, at, task_id, path, kind, body, blob_id) VALUES (?, ?, "
        "?, ?, ?, ?, ?, ?)"
    )
    """A row of `events`."""
    acquire = (
        "UPDATE logs SET epoch = epoch + 1, owner = ?, lease_until = ?, held_from = head "
        "WHERE log_id = ? AND owner IS NULL AND recoveries = 0 "
        "RETURNING epoch, head, outside, followed_until"
    )
    """owner, lease_until, log_id -> the columns. Only for a log that its last holder released."""
    acquire_after_death = (
        "UPDATE logs SET epoch = epoch + 1, owner = ?, lease_until = ?, held_from = head, "
        "tried_at = ? WHERE log_id = ? AND owner IS NULL "
        "RETURNING epoch, head, outside, followed_until"
    )
    """owner, lease_until, now, log_id -> the columns. For any log without a holder."""
    history = _HISTORY + "WHERE log_id = ?"
    """log_id -> a LeaseHistory."""
    held_by = _HISTORY + "WHERE needs_run = 1 AND owner = ?"
    """owner -> the LeaseHistory of each log that it holds."""
    on_probation = (
        _HISTORY + "WHERE recoveries > 0 AND recoveries >= ? AND owner IS NOT NULL "
        "AND head = held_from AND tried_at + watch_ms > ?"
    )
    """fewest deaths, now -> the LeaseHistory of each log on probation."""
    suspects = _HISTORY + "WHERE recoveries > 0 AND recoveries >= ? AND head = held_from"
    """fewest deaths -> the LeaseHistory of each log without progress since."""
    bury = (
        "UPDATE logs SET owner = NULL, lease_until = 0, recoveries = ?, cohort = ?, alone = ?, "
        "watch_ms = ? WHERE log_id = ? AND owner = ?"
    )
    """deaths, cohort, alone, watch_ms, log_id, owner."""
    renew = (
        "UPDATE logs SET lease_until = ? WHERE log_id = ? AND epoch = ? AND owner IS NOT NULL "
        "RETURNING head, followed_until"
    )
    """lease_until, log_id, epoch -> head, followed_until."""
    release = (
        "UPDATE logs SET owner = NULL, lease_until = 0, recoveries = 0, "
        "needs_run = ?, wake_at = ? WHERE log_id = ? AND epoch = ? AND owner IS NOT NULL "
        "AND head = ?"
    )
    """needs_run, wake_at, log_id, epoch, head."""
    surrender = (
        "UPDATE logs SET owner = NULL, lease_until = 0, recoveries = CASE WHEN head = held_from "
        "THEN recoveries ELSE 0 END, "
        "needs_run = 1, wake_at = 0 WHERE log_id = ? AND epoch = ? AND owner IS NOT NULL"
    )
    """log_id, epoch."""
    held_head = "SELECT head FROM logs WHERE log_id = ? AND epoch = ? AND owner IS NOT NULL"
    """log_id, epoch -> head."""
    between = (
        "SELECT seq, at, task_id, path, kind, body, blob_id FROM events WHERE log_id = ? AND "
        "seq > ? AND seq <= ? ORDER BY seq"
    )
    """log_id, after, up to -> events."""
    events_after = (
        "SELECT seq, at, task_id, path, kind, body, blob_id FROM events WHERE log_id = ? AND "
        "seq > ? ORDER BY seq LIMIT ?"
    )
    """log_id, after, limit -> events."""
    count_events = "SELECT count(*) FROM events WHERE log_id = ? AND seq > ? AND seq <= ?"
    """log_id, after, up to -> the number of events."""
    event_numbers = "SELECT seq FROM events WHERE log_id = ? AND seq > ? AND seq <= ? ORDER BY seq"
    """log_id, after, up to -> the numbers of events."""
    head = "SELECT head FROM logs WHERE log_id = ?"
    """log_id -> head."""
    followed_until = "SELECT followed_until FROM logs WHERE log_id = ? AND owner IS NOT NULL"
    """log_id -> followed_until, if the log is held."""
    follow = "UPDATE logs SET followed_until = ? WHERE log_id = ? AND followed_until < ?"
    """followed_until, log_id, followed_until."""
    add_text = (
        "INSERT INTO deltas (log_id, base, unit, task_id, iteration, closing, kind, text) "
        "SELECT log_id, ?, ?, ?, ?, ?, ?, ? FROM logs WHERE log_id = ? AND epoch = ? AND "
        "owner IS NOT NULL ON CONFLICT (log_id, base, unit) DO UPDATE SET text = excluded.text "
        "WHERE excluded.kind = 'output'"
    )
    """A row of `deltas` without its log, log_id, epoch. Text stays, a typed output is replaced."""
    text_after = (
        "SELECT base, unit, task_id, iteration, closing, kind, text FROM deltas WHERE log_id = ? "
        "AND (base, unit) > (?, ?) ORDER BY base, unit"
    )
    """log_id, base, unit -> the pieces after that position."""
    drop_text = "DELETE FROM deltas WHERE log_id = ?"
    """log_id."""
    snapshot = "SELECT seq, version, checksum, body FROM snapshots WHERE log_id = ?"
    """log_id -> the columns."""
    move_body = "UPDATE events SET body = ?, blob_id = ? WHERE log_id = ? AND seq = ?"
    """body, blob_id, log_id, seq."""
    lock_log = "UPDATE logs SET head = head WHERE log_id = ?"
    """log_id. Appends and erasures of the log wait until this transaction ends."""
    add_snapshot = (
        "INSERT INTO snapshots (log_id, seq, version, checksum, body) SELECT ?, ?, ?, ?, ? "
        "FROM logs WHERE log_id = ? AND NOT EXISTS (SELECT 1 FROM events WHERE log_id = ? AND "
        "seq > ? AND kind = 'messages_erased') ON CONFLICT (log_id) DO UPDATE SET "
        "seq = excluded.seq, version = excluded.version, checksum = excluded.checksum, "
        "body = excluded.body WHERE snapshots.version <> excluded.version OR "
        "snapshots.seq <= excluded.seq"
    )
    """A row of `snapshots`, log_id, log_id, seq. Refused after an erasure or a newer one."""
    owners = "SELECT DISTINCT owner FROM logs WHERE needs_run = 1 AND lease_until > ?"
    """now -> owners of running logs."""
    queued = (
        "SELECT (SELECT task_id FROM tasks WHERE task_id = ?), count(*) FROM tasks "
        "INDEXED BY tasks_in_hand WHERE log_id = ? AND ended_seq IS NULL AND started_seq IS NULL"
    )
    """task_id, log_id -> the task if it exists, the number of queued tasks."""
    superseding = (
        "SELECT (SELECT messages FROM tasks WHERE task_id = ? AND log_id = ?), count(*) FROM tasks "
        "INDEXED BY tasks_in_hand WHERE log_id = ? AND ended_seq IS NULL"
    )
    """task_id, log_id, log_id -> messages of the task, the number of tasks that have not ended."""
    task_end = "SELECT ended_seq FROM tasks WHERE task_id = ? AND log_id = ?"
    """task_id, log_id -> ended_seq."""
    claim = (
        "INSERT INTO idempotency (profile_id, key, request_hash, log_id, task_id, at) "
        "SELECT profile_id, ?, ?, log_id, ?, ? FROM logs WHERE log_id = ? "
        "ON CONFLICT (profile_id, key) DO UPDATE SET request_hash = excluded.request_hash, "
        "log_id = excluded.log_id, task_id = excluded.task_id, at = excluded.at "
        "WHERE idempotency.at < ? RETURNING task_id"
    )
    """key, request_hash, task_id, at, log_id, the oldest valid time -> a row if it was claimed."""
    claimed = (
        "SELECT request_hash, log_id, task_id FROM idempotency WHERE key = ? AND profile_id = "
        "(SELECT profile_id FROM logs WHERE log_id = ?)"
    )
    """key, log_id -> request_hash, log_id, task_id."""
    forget_claims = "DELETE FROM idempotency WHERE at < ?"
    """the oldest valid time."""
    question_end = "SELECT status, answered_seq FROM questions WHERE question_id = ? AND log_id = ?"
    """question_id, log_id -> status, answered_seq."""
    add_session = (
        "INSERT INTO sessions (session_id, profile_id, agent, title, created_at, updated_at, "
        "message_count) VALUES (?, ?, ?, ?, ?, ?, 0)"
    )
    """A row of `sessions` without its count."""
    touch = (
        "UPDATE sessions SET updated_at = ?, message_count = message_count + ? WHERE session_id = ?"
    )
    """updated_at, more messages, session_id."""
    recount = (
        "UPDATE sessions SET message_count = (SELECT coalesce(sum(messages), 0) FROM tasks "
        "WHERE log_id = session_id) WHERE session_id = ?"
    )
    """session_id."""
    add_message_task = (
        "INSERT INTO tasks (task_id, log_id, kind, status, profile_id, agent, created_at, "
        "first_seq, messages) SELECT ?, log_id, 'message', 'queued', profile_id, agent, ?, ?, 1 "
        "FROM logs WHERE log_id = ?"
    )
    """task_id, created_at, seq, log_id."""
    add_call_task = (
        "INSERT INTO tasks (task_id, log_id, kind, status, profile_id, agent, created_at, "
        "first_seq, messages) SELECT ?, log_id, ?, 'queued', ?, agent, ?, ?, 0 FROM logs "
        "WHERE log_id = ?"
    )
    """task_id, kind, profile_id, created_at, seq, log_id."""
    add_child_task = (
        "INSERT INTO tasks (task_id, log_id, kind, status, profile_id, agent, created_at, "
        "first_seq, messages, blocked_on, parent_id, root_id, title, task_key, worker_kind, "
        "batch_id) VALUES (?, ?, 'child', ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?)"
    )
    """task_id, log_id, status, profile_id, agent, created_at, seq, blocked_on, and the rest."""
    size_of_tree = "SELECT count(*) FROM tasks WHERE root_id = ?"
    """root_id -> the number of tasks below it, with those that have ended."""
    add_erased_task = (
        "INSERT INTO tasks (task_id, log_id, kind, status, profile_id, agent, created_at, "
        "first_seq, messages) SELECT ?, log_id, 'message', 'queued', profile_id, agent, ?, ?, 0 "
        "FROM logs WHERE log_id = ? ON CONFLICT (task_id) DO NOTHING"
    )
    """task_id, created_at, seq, log_id."""
    drop_messages = (
        "UPDATE tasks SET messages = 0 WHERE log_id = ? AND first_seq >= (SELECT gone.first_seq "
        "FROM tasks AS gone WHERE gone.task_id = ? AND gone.log_id = ?)"
    )
    """log_id, task_id, log_id."""
    start_task = (
        "UPDATE tasks SET status = 'running', started_at = ?, started_seq = ? WHERE task_id = ?"
    )
    """at, seq, task_id."""
    block_task = "UPDATE tasks SET status = 'blocked', blocked_on = ? WHERE task_id = ?"
    """blocked_on, task_id."""
    set_status = "UPDATE tasks SET status = ? WHERE task_id = ?"
    """status, task_id."""
    end_task = (
        "UPDATE tasks SET status = ?, ended_at = ?, ended_seq = ?, messages = messages + ? "
        "WHERE task_id = ?"
    )
    """status, at, seq, messages, task_id."""
    cancel_task = "UPDATE tasks SET cancel_seq = ? WHERE task_id = ? AND cancel_seq IS NULL"
    """seq, task_id."""
    claim_due = (
        "UPDATE schedules SET next_run = ?, planned_at = ?, last_run = ?, last_task_id = ?, "
        "missed = missed + ?, status = CASE WHEN CAST(? AS BIGINT) IS NULL THEN 'completed' "
        "ELSE status END WHERE schedule_id = ? AND status = 'active' AND next_run = ? "
        "RETURNING concurrency"
    )
    """next_run, at, at, task_id, more missed, next_run, schedule_id, due -> a row if it is due."""
    claim_now = (
        "UPDATE schedules SET last_run = ?, last_task_id = ? WHERE schedule_id = ? "
        "RETURNING concurrency"
    )
    """at, task_id, schedule_id -> a row if the schedule exists."""
    running_of_schedule = (
        "SELECT task_id FROM tasks WHERE schedule_id = ? AND ended_seq IS NULL LIMIT 1"
    )
    """schedule_id -> a task of it that has not ended."""
    started_for = (
        "SELECT task_id FROM tasks WHERE schedule_id = ? AND created_at >= ? AND due_at = ? LIMIT 1"
    )
    """schedule_id, due or earlier, due -> the task that was started for it. No task starts before
    it is due, so the index of the tasks of a schedule by time has the few that it may be."""
    note_schedule = "UPDATE tasks SET schedule_id = ?, due_at = ? WHERE task_id = ?"
    """schedule_id, due, task_id."""
    add_question = (
        "INSERT INTO questions (question_id, log_id, task_id, profile_id, agent, status, "
        "asked_at, asked_seq) SELECT ?, log_id, ?, profile_id, agent, CASE WHEN EXISTS (SELECT 1 "
        "FROM tasks WHERE task_id = ? AND cancel_seq IS NOT NULL) THEN 'cancelled' ELSE 'open' "
        "END, ?, ? FROM logs WHERE log_id = ?"
    )
    """question_id, task_id, task_id, at, seq, log_id."""
    answer = (
        "UPDATE questions SET status = ?, answered_at = ?, answered_by = ?, answered_seq = ? "
        "WHERE question_id = ? AND log_id = ? AND answered_seq IS NULL"
    )
    """status, at, by, seq, question_id, log_id."""
    close_questions = (
        "UPDATE questions SET status = 'cancelled', answered_at = ? WHERE log_id = ? AND "
        "task_id = ? AND status = 'open'"
    )
    """at, log_id, task_id."""
    sort_of_task = "SELECT kind, agent FROM tasks WHERE task_id = ?"
    """task_id -> kind, agent."""
    add_delivery = (
        "INSERT INTO deliveries (delivery_id, webhook_id, log_id, task_id, seq, event, at, "
        "status, next_at) VALUES (?, ?, ?, ?, ?, ?, ?, 'pending', ?) ON CONFLICT DO NOTHING"
    )
    """The columns; the last one is when it is due."""
    task_scope = (
        "SELECT scope_id FROM scopes WHERE kind = 'task' AND (scope_id = ? OR "
        "substr(scope_id, 1, ?) = ?) LIMIT 1"
    )
    """task_id, length of the prefix of its parts, the prefix -> a row if the task has a scope."""
    take_scope = (
        "INSERT INTO scopes (kind, scope_id) VALUES (?, ?) ON CONFLICT (kind, scope_id) DO UPDATE "
        "SET entries = scopes.entries RETURNING entries, file_bytes"
    )
    """kind, scope_id -> entries, file_bytes. Locks the row: other changes of the scope wait."""
    count_scope = (
        "UPDATE scopes SET entries = entries + ?, file_bytes = file_bytes + ? WHERE kind = ? AND "
        "scope_id = ?"
    )
    """more entries, more bytes, kind, scope_id."""
    value = (
        "SELECT value, revision, expires_at FROM state WHERE kind = ? AND scope_id = ? AND key = ?"
    )
    """kind, scope_id, key -> the columns."""
    add_value = (
        "INSERT INTO state (value, revision, expires_at, kind, scope_id, key) VALUES (?, ?, ?, ?, "
        "?, ?)"
    )
    """value, revision, expires_at, kind, scope_id, key."""
    set_value = (
        "UPDATE state SET value = ?, revision = ?, expires_at = ? WHERE kind = ? AND scope_id = ? "
        "AND key = ?"
    )
    """value, revision, expires_at, kind, scope_id, key."""
    keys_between = (
        "SELECT key FROM state WHERE kind = ? AND scope_id = ? AND key >= ? AND key < ? "
        "ORDER BY key LIMIT ?"
    )
    """kind, scope_id, low, high, limit -> the keys."""
    drop_value = "DELETE FROM state WHERE kind = ? AND scope_id = ? AND key = ?"
    """kind, scope_id, key."""
    drop_expired = "DELETE FROM state WHERE kind = ? AND scope_id = ? AND expires_at <= ?"
    """kind, scope_id, now."""
