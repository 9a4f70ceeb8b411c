"""The commands that copy a project's data and put a copy back."""

import io
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from penstock.cli.authoring.init import init
from penstock.cli.main import main
from penstock.cli.operations.backup import shown_progress

Run = Callable[..., tuple[int, str, str]]


def contents(place: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in place.rglob("*") if each.is_file()}


def test_a_backup_is_made_verified_and_restored(
    project: Path, run: Run, run_json: Callable[..., Any], tmp_path: Path
) -> None:
    run("chat", "hello Ann")
    folder = tmp_path / "backups" / "monday"
    code, out, err = run("backup", str(folder))
    assert (code, err) == (0, "")
    assert out.startswith(f"backed up {folder}: 1 log, 7 events, 0 blobs, 0.")
    assert "MiB, verified (20" in out
    before = run_json("tasks", "list")
    run("chat", "hello Bob")
    code, _, err = run("restore", str(folder))
    assert (code, "--force replaces it" in err) == (1, True)
    code, out, err = run("restore", str(folder), "--force")
    assert (code, out.startswith(f"restored {folder}: 1 log"), err) == (0, True, "")
    assert run_json("tasks", "list") == before
    assert run("doctor")[0] == 0


def test_the_result_is_also_json(run: Run, run_json: Callable[..., Any], tmp_path: Path) -> None:
    run("chat", "hello Ann")
    made = run_json("backup", str(tmp_path / "one"))
    assert made["path"] == str(tmp_path / "one")
    assert (made["logs"], made["missing"], made["problems"]) == (1, [], [])
    assert run_json("restore", str(tmp_path / "one"), "--force") == made


def test_a_backup_goes_into_another_project_which_needs_the_key_of_the_vault(
    project: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("abcdefgh"))
    run("vault", "set", "profile", "token")
    code, _, err = run("backup", str(tmp_path / "one"))
    assert code == 0
    assert "1 secret of the vault stay encrypted: keep their key (PENSTOCK_SECRET_KEY" in err
    assert not any(b"abcdefgh" in each for each in contents(tmp_path / "one").values())
    assert "secret.key" not in contents(tmp_path / "one")
    other = tmp_path / "other"
    init(other)
    assert main(["restore", str(tmp_path / "one"), "--project", str(other)]) == 0
    assert (other / ".penstock" / "penstock.db").exists()


def test_what_was_already_lost_is_named_and_the_backup_is_kept(
    project: Path, run: Run, tmp_path: Path
) -> None:
    run("chat", "hello Ann")
    with closing(sqlite3.connect(project / ".penstock" / "penstock.db")) as database:
        database.execute("UPDATE tasks SET messages = 7")
        database.commit()
    code, out, err = run("backup", str(tmp_path / "one"))
    assert (code, out.startswith("backed up")) == (1, True)
    assert "Warning: task task_" in err
    assert "messages is 7, the log gives 2" in err
    assert "`penstock doctor` checks the project" in err
    assert json.loads((tmp_path / "one" / "backup.json").read_text())["backup"]["problems"]


def test_a_project_without_a_database_has_nothing_to_copy(
    project: Path, run: Run, tmp_path: Path
) -> None:
    code, out, err = run("backup", str(tmp_path / "one"))
    assert (code, out) == (1, "")
    assert "there is no database at" in err
    assert not (project / ".penstock" / "penstock.db").exists()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_is_shown_in_a_terminal_only(*, is_terminal: bool) -> None:
    out = io.StringIO()
    with shown_progress(Console(file=out, force_terminal=is_terminal)) as report:
        report("database", 1, 2)
        report("database", 2, 2)
    assert ("database" in out.getvalue()) is is_terminal


def test_a_project_on_postgres_is_backed_up_by_its_address(
    postgres_url: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_DATABASE_URL", postgres_url)
    run("chat", "hello Ann")
    code, out, err = run("backup", str(tmp_path / "one"))
    assert (code, out.startswith("backed up")) == (0, True), err
    monkeypatch.delenv("PENSTOCK_DATABASE_URL")
    assert run("restore", str(tmp_path / "one"))[0] == 0
    assert "hello Ann" in run("tasks", "list")[1]
    assert run("doctor")[0] == 0
