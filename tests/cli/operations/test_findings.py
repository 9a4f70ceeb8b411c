"""`penstock doctor` on a live database: what it finds, and what --fix mends."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]


def change(project: Path, statement: str) -> None:
    with closing(sqlite3.connect(project / ".penstock" / "penstock.db")) as database:
        database.execute(statement)
        database.commit()


@pytest.fixture
def talked(project: Path, run: Run) -> Path:
    run("chat", "hello Ann")
    return project


def test_a_healthy_database_has_nothing_to_mend(talked: Path, run: Run) -> None:
    code, out, _ = run("doctor", "--fix")
    assert code == 0
    assert "✓ leases: no log waits for a process that is gone" in out
    assert "✓ blobs: every blob older than a day is named by a row" in out
    assert "✓ drift: the lists of 1 log are what their events give" in out
    assert "✓ clock: this machine, the database and its events agree" in out


def test_a_lease_in_the_future_is_named_and_ended(
    talked: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_LIMITS__LEASE_SECONDS", "0.05")
    change(talked, "UPDATE logs SET owner = 'a/b/1/2/c', lease_until = 9999999999999")
    code, out, _ = run("doctor")
    assert (code, "✗ leases: conv_" in out, "the clock went back" in out) == (1, True, True)
    code, out, _ = run("doctor", "--fix")
    assert (code, "which was not renewed, was ended" in out) == (0, True)


def test_a_lease_that_ended_long_ago_needs_a_server(talked: Path, run: Run) -> None:
    change(talked, "UPDATE logs SET owner = 'a/b/1/2/c', lease_until = 1000000")
    for arguments in ([], ["--fix"]):
        code, out, _ = run("doctor", *arguments)
        assert (code, "start `penstock serve`" in out) == (1, True)


def test_blobs_that_no_row_names_are_deleted_on_request(talked: Path, run: Run) -> None:
    blob = talked / ".penstock" / "blobs" / ("a" * 64)
    blob.write_bytes(b"x")
    assert "every blob older than a day" in run("doctor")[1]
    past = blob.stat().st_mtime - 2 * 24 * 3600
    os.utime(blob, (past, past))
    code, out, _ = run("doctor")
    assert (code, "· blobs: 1 blob that no row names, older than a day: aaaa" in out) == (0, True)
    assert blob.exists()
    assert "✓ blobs: 1 blob that no row names were deleted" in run("doctor", "--fix")[1]
    assert not blob.exists()


def test_a_list_that_has_drifted_is_named_field_by_field_and_rebuilt(
    talked: Path, run: Run
) -> None:
    change(talked, "UPDATE sessions SET title = 'Odd'")
    code, out, _ = run("doctor")
    assert code == 1
    assert "title is 'Odd', the log gives 'hello Ann'. Run `penstock doctor --rebuild`" in out
    assert run("doctor", "--fix")[0] == 0
    assert "drift: the lists of 1 log are what" in run("doctor")[1]


def test_a_clock_that_went_back_is_seen_in_the_newest_event(talked: Path, run: Run) -> None:
    change(talked, "UPDATE events SET at = at + 3600000")
    code, out, _ = run("doctor")
    assert (code, "✗ clock: the newest event is 3" in out) == (1, True)
    assert "s in the future: the clock of this machine went back" in out
