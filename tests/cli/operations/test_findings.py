"""`penstock doctor` on a live database: what it finds, and what --fix mends."""

import asyncio
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import penstock
from penstock.cli.operations.findings import FindingLevel, upkeep_findings
from penstock.core.clock import Moment, SystemClock
from penstock.store.blobs import open_blobs
from penstock.store.database import open_database
from penstock.store.upkeep.health import stuck_leases

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


GONE = "UPDATE logs SET owner = 'a/b/1/2/c', lease_until = 1000000, needs_run = "


def test_a_lease_of_a_conversation_that_rests_is_ended(
    talked: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_LIMITS__LEASE_SECONDS", "0.05")
    change(talked, f"{GONE} 0")
    code, out, _ = run("doctor")
    assert (code, "has no work, so no process takes it over" in out) == (1, True)
    assert run("doctor", "--fix")[0] == 0
    assert run("doctor")[0] == 0


def test_a_lease_that_ended_long_ago_needs_a_server(talked: Path, run: Run) -> None:
    change(talked, f"{GONE} 1")
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


def test_a_log_whose_lease_was_ended_continues(
    talked: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, the conversation waited for a process that is gone, until the year 2286."""
    monkeypatch.setenv("PENSTOCK_LIMITS__LEASE_SECONDS", "0.05")
    change(talked, "UPDATE logs SET owner = 'a/b/1/2/c', lease_until = 9999999999999")
    assert run("doctor", "--fix")[0] == 0
    monkeypatch.delenv("PENSTOCK_LIMITS__LEASE_SECONDS")
    code, out, err = run("chat", "hello Bob", "--continue")
    assert (code, "Hello, Bob!" in out) == (0, True), err
    assert "✓ leases: no log waits for a process that is gone" in run("doctor")[1]


def test_a_server_that_starts_takes_over_what_a_dead_process_left(talked: Path, run: Run) -> None:
    change(talked, f"{GONE} 1")
    assert run("doctor")[0] == 1
    asyncio.run(serve_until_nothing_is_stuck(talked))
    code, out, _ = run("doctor")
    assert (code, "✓ leases: no log waits for a process that is gone" in out) == (0, True)


async def serve_until_nothing_is_stuck(project: Path) -> None:
    """Open the project as a server does."""
    clock = SystemClock()
    database = await open_database(f"sqlite:///{project}/.penstock/penstock.db")
    async with penstock.open(project), asyncio.timeout(10):
        while await stuck_leases(database, clock):
            pass
    await database.close()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("UPDATE tasks SET status = 'running'", "status is 'running', the log gives 'succeeded'"),
        ("DELETE FROM tasks", "task_"),
        ("DELETE FROM sessions", "conv_"),
        ("UPDATE tasks SET agent = 'poet'", "agent is 'poet', the log gives 'assistant'"),
        ("UPDATE sessions SET message_count = 7", "message_count is 7, the log gives 2"),
    ],
)
def test_each_list_that_has_drifted_is_rebuilt(
    talked: Path, run: Run, damage: str, said: str
) -> None:
    before = run("tasks", "list", "--json")[1]
    change(talked, damage)
    code, out, _ = run("doctor")
    (line,) = [each for each in out.splitlines() if "✗ drift" in each][:1]
    assert (code, said in line) == (1, True), line
    assert run("doctor", "--rebuild")[0] == 0
    assert run("doctor")[0] == 0
    assert run("tasks", "list", "--json")[1] == before


class SetClock(SystemClock):
    """A clock that somebody set wrongly."""

    def __init__(self, ahead: int) -> None:
        self._ahead = ahead

    def now(self) -> Moment:
        return Moment(super().now() + 1000 * self._ahead)


async def test_clocks_of_postgres_and_this_machine_that_differ_are_named(
    postgres_url: str, tmp_path: Path
) -> None:
    """Leases last three seconds: a difference of ten ends or keeps them wrongly."""
    database = await open_database(postgres_url)
    blobs = open_blobs(str(tmp_path))
    for seconds, said in ((-10, "10.0 s ahead of"), (0, ""), (10, "10.0 s behind")):
        clock = SetClock(seconds)
        found = await upkeep_findings(database, blobs, clock, fixes=False)
        (finding,) = [each for each in found if each.about == "clock"]
        assert (said in finding.text) is True
        assert finding.mark is (FindingLevel.WRONG if said else FindingLevel.FINE)
    await database.close()
