"""`penstock archive` moves old bodies of long logs, and every reader gets them as before."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., tuple[int, str, str]]
LONG = 600


@pytest.fixture
def long_log(project: Path, run: Run) -> str:
    """A conversation of last year with many long notes. Returns the id of its task."""
    run("chat", "hello Ann")
    note = '{"event_type":"t","message":"' + "lemon " * 60 + '"}'
    with closing(sqlite3.connect(project / ".penstock" / "penstock.db")) as database:
        log_id, head = database.execute("SELECT log_id, head FROM logs").fetchone()
        (task_id,) = database.execute("SELECT task_id FROM tasks").fetchone()
        rows = [(log_id, head + n, task_id, note) for n in range(1, LONG + 1)]
        database.executemany(
            "INSERT INTO events (log_id, seq, at, task_id, kind, body) "
            "VALUES (?, ?, 1, ?, 'note_emitted', ?)",
            rows,
        )
        database.execute("UPDATE logs SET head = head + ?", (LONG,))
        database.execute("UPDATE events SET at = at - 31536000000 WHERE at > 1")
        database.commit()
    return str(task_id)


def test_old_bodies_are_archived_once(long_log: str, run: Run) -> None:
    code, would, err = run("archive", "--days", "90", "--dry-run")
    assert (code, err) == (0, "")
    assert would.startswith("would archive 602 events of 1 log: 0.2 MiB as 0.0 MiB")
    events = run("tasks", "events", long_log)
    assert run("archive", "--days", "90")[1] == would.replace("would archive", "archived")
    assert run("tasks", "events", long_log) == events
    assert run("archive", "--days", "90")[1].startswith("archived 0 events of 0 logs")


def test_the_setting_names_the_age(
    project: Path, long_log: str, run: Run, run_json: Callable[..., Any]
) -> None:
    code, _, message = run("archive")
    assert code != 0
    assert "--days 90" in message
    with (project / "penstock.toml").open("a") as settings:
        settings.write("\n[limits]\narchive_days = 90\n")
    found = run_json("archive")
    assert (found["dryRun"], sum(each["events"] for each in found["parts"])) == (False, 602)
