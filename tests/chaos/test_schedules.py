"""Schedules that are due in a process which is killed at each of its writes."""

import signal
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.harness import Moment, Nursery, Server, effects, wait_until

URL = "/agents/assistant/schedules"
CALL = {"callback_type": "function", "callback_id": "inner", "input": {"number": 1}}
SOON = {"name": "Soon", "delay_seconds": 1, **CALL}


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    """Where servers come from."""
    opened = Nursery()
    yield opened
    opened.close()


def state(directory: Path) -> tuple[str, list[str]]:
    """Return the status of the schedule, and of the tasks that it started."""
    with closing(sqlite3.connect(directory / ".penstock" / "penstock.db")) as database:
        (status,) = database.execute("SELECT status FROM schedules").fetchone()
        rows = database.execute("SELECT status FROM tasks WHERE schedule_id IS NOT NULL")
        return status, [each for (each,) in rows]


def is_over(directory: Path) -> bool:
    status, tasks = state(directory)
    return status == "completed" and set(tasks) <= {"succeeded", "failed"} and bool(tasks)


def create(server: Server) -> dict[str, Any]:
    answer = server.client.post(URL, json=SOON)
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


def moments_of(nursery: Nursery, directory: Path) -> list[Moment]:
    """Run a schedule once without a crash; list its commits and its effect."""
    directory.mkdir()
    with nursery.start(directory, None, signal.SIGKILL) as server:
        create(server)
        wait_until(lambda: is_over(directory), "the schedule to fire")
        told = directory / "moments"
        wait_until(lambda: "task_ended" in told.read_text(), "the last write to be reported")
    lines = (line.split(" ", 2) for line in (directory / "moments").read_text().splitlines())
    return [Moment(kind, int(number), label) for kind, number, label in lines]


@pytest.mark.slow("a schedule over a crash of a real process at each of its writes")
def test_a_tick_survives_a_kill_at_each_of_its_writes(nursery: Nursery, tmp_path: Path) -> None:
    """One task for the due time, and its effect at most once."""
    moments = moments_of(nursery, tmp_path / "quiet")
    assert any("schedule_fired" in each.label for each in moments)
    outcomes = Counter[str]()
    for moment in [Moment("commit", 0, "none"), *moments]:
        directory = tmp_path / f"{moment.kind}-{moment.number}"
        directory.mkdir()
        with nursery.start(directory, moment, signal.SIGKILL) as first:
            create(first)
            if moment.number:
                wait_until(lambda dying=first: dying.is_gone, "the server to die")
        with nursery.start(directory, None, signal.SIGKILL):
            wait_until(lambda at=directory: is_over(at), "the schedule to fire")
            (ended,) = state(directory)[1]
            outcomes[ended] += 1
            done = effects(directory) if (directory / "effects").exists() else []
            assert done == ["inner 1"] or (ended, done) == ("failed", [])
    assert outcomes["succeeded"] > outcomes["failed"]
