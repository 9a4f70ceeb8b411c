"""The commands that delete what is old, and give its space back."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., tuple[int, str, str]]
RULES = """
[[retention.rules]]
of = "conversations"
days = 90
"""


@pytest.fixture
def old(project: Path, run: Run) -> str:
    """A conversation of last year, and one of today. Returns the id of the first."""
    run("chat", "hello Ann")
    file = project / ".penstock" / "penstock.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("UPDATE events SET at = at - 31536000000")
        (log_id,) = database.execute("SELECT log_id FROM logs").fetchone()
        database.commit()
    run("chat", "hello Bob")
    return str(log_id)


def add_rules(project: Path, rules: str = RULES) -> None:
    with (project / "penstock.toml").open("a") as settings:
        settings.write(rules)


def test_a_dry_run_lists_what_would_be_deleted(
    project: Path, old: str, run: Run, run_json: Callable[..., Any]
) -> None:
    add_rules(project)
    code, out, _ = run("retain", "--dry-run")
    assert code == 0
    assert old in out
    assert out.endswith("would delete 1 conversation\n")
    found = run_json("retain", "--dry-run")
    assert found["dryRun"] is True
    (log,) = found["logs"]
    assert (log["log"], log["kind"], log["statuses"]) == (old, "conversations", ["succeeded"])
    assert len(run_json("tasks", "list")["tasks"]) == 2


def test_what_the_rules_match_is_deleted(
    project: Path, old: str, run: Run, run_json: Callable[..., Any]
) -> None:
    add_rules(project)
    assert run("retain") == (0, "deleted 1 conversation\n", "")
    (left,) = run_json("tasks", "list")["tasks"]
    assert left["conversationId"] != old
    assert run("retain") == (0, "deleted nothing\n", "")


def test_without_rules_the_command_shows_how_to_write_one(project: Path, run: Run) -> None:
    code, out, err = run("retain")
    assert (code, out) == (1, "")
    assert "[[retention.rules]]" in err


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ('of = "tasks"\ndays = 1', "conversations"),
        ('of = "calls"\ndays = 0', "greater than 0"),
        ('of = "calls"\ndays = 1\nstatus = ["running"]', "succeeded"),
        ('of = "calls"', "days"),
    ],
)
def test_a_wrong_rule_is_refused(project: Path, run: Run, rule: str, said: str) -> None:
    add_rules(project, f"\n[[retention.rules]]\n{rule}\n")
    code, _, err = run("retain", "--dry-run")
    assert (code, said in err) == (1, True), err


def test_space_is_given_back(project: Path, old: str, run: Run) -> None:
    code, out, _ = run("compact")
    assert code == 0
    assert "MiB before, " in out


def test_a_database_of_an_older_version_is_rewritten_on_request(
    project: Path, old: str, run: Run, run_json: Callable[..., Any]
) -> None:
    file = project / ".penstock" / "penstock.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute("PRAGMA auto_vacuum = NONE")
        database.execute("VACUUM")
    code, _, err = run("compact")
    assert (code, "penstock compact --rewrite" in err) == (1, True)
    assert run_json("compact", "--rewrite")["incremental"] is True
    assert run("compact")[0] == 0
