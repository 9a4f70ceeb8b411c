"""A task that kills its process fails, and all others finish: with real processes.

How many deaths that takes is in tests/store/logs/test_quarantine.py, in simulated time.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.core.clock import SystemClock

PROGRAM = Path(__file__).with_name("crowd.py")
MAX_DEATHS = 40
Calls = list[tuple[str, dict[str, Any]]]
CLOCK = SystemClock()
PATIENCE = 60


class Crowd:
    """Starts one process after the other on a project, until one has seen all tasks end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.deaths = 0
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def see_through(self, calls: Calls, watch: Callable[[int], None] = lambda pid: None) -> None:
        """Restart the process whenever it dies; `watch` is called with the id of each."""
        assert self._process.stdin
        assert self._process.stdout
        while True:
            spec = {"directory": str(self._directory), "calls": calls}
            self._process.stdin.write(json.dumps(spec) + "\n")
            self._process.stdin.flush()
            watch(int(self._process.stdout.readline()))
            if self._process.stdout.readline() == "0\n":
                return
            calls, self.deaths = [], self.deaths + 1
            assert self.deaths <= MAX_DEATHS, ends(self._directory)

    def close(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()


def crowd(
    innocent: int, poison: int = 0, *, kills_after: float = 0.05, takes: float = 0.2
) -> Calls:
    """Return calls of tools, the poison in the middle."""
    harmless: Calls = [("innocent", {"number": n, "seconds": takes}) for n in range(innocent)]
    lethal: Calls = [("poison", {"number": n, "seconds": kills_after}) for n in range(poison)]
    half = innocent // 2
    return [*harmless[:half], *lethal, *harmless[half:]]


def ends(directory: Path) -> Counter[tuple[str, str]]:
    """Return how many tasks of each tool ended how."""
    asked = (
        "SELECT json_extract(asked.body, '$.tool_id'), tasks.status FROM tasks "
        "JOIN events AS asked ON asked.log_id = tasks.log_id AND asked.seq = tasks.first_seq"
    )
    return Counter((tool, status) for tool, status in _rows(directory, asked))


def reasons(directory: Path) -> list[str]:
    """Return why tasks failed."""
    failed = (
        "SELECT json_extract(body, '$.error.message') FROM events WHERE kind = 'task_ended' "
        "AND json_extract(body, '$.status') = 'failed'"
    )
    return [reason for (reason,) in _rows(directory, failed)]


def wait_for_leases(directory: Path, fewest: int) -> int:
    """Wait until this many leases were acquired; returns how many.

    A call that only reads is written with its outcome, so its beginning is in no event.
    """
    taken = "SELECT coalesce(sum(epoch), 0) FROM logs"
    until = CLOCK.monotonic() + PATIENCE
    while CLOCK.monotonic() < until:
        if (directory / ".penstock" / "penstock.db").exists():
            with suppress(sqlite3.OperationalError):  # its tables are being made
                ((found,),) = _rows(directory, taken)
                if found >= fewest:
                    return int(found)
        threading.Event().wait(0.01)
    raise AssertionError(f"{fewest} leases were not taken within {PATIENCE} s: {ends(directory)}")


def _rows(directory: Path, statement: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(directory / ".penstock" / "penstock.db")
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


CROWDS: dict[str, Calls] = {
    "one among fifty": crowd(49, 1),
    "two among twenty": crowd(18, 2),
    "one that takes nearly as long as the others": crowd(19, 1, kills_after=0.16),
}


@pytest.mark.slow("a dozen real processes that die one after the other")
@pytest.mark.parametrize("calls", CROWDS.values(), ids=list(CROWDS))
def test_the_poison_fails_and_the_innocent_are_done(tmp_path: Path, calls: Calls) -> None:
    workers = Crowd(tmp_path)
    workers.see_through(calls)
    workers.close()
    wanted = Counter((tool, "failed" if tool == "poison" else "succeeded") for tool, _ in calls)
    assert ends(tmp_path) == wanted
    for reason in reasons(tmp_path):
        assert "in the call of 'poison', 5 times with no other suspect at work" in reason


@pytest.mark.slow("seven real processes, of which six are killed")
def test_kills_from_outside_fail_nothing(tmp_path: Path) -> None:
    """Twelve tasks, killed six times in a row as soon as some of them are in their calls."""
    workers, seen = Crowd(tmp_path), [0]

    def kill(pid: int) -> None:
        if len(seen) <= 6:
            fewest = 12 if len(seen) == 1 else seen[-1] + 1
            seen.append(wait_for_leases(tmp_path, fewest))
            os.kill(pid, signal.SIGKILL)

    workers.see_through(crowd(12, takes=0.6), kill)
    workers.close()
    assert (workers.deaths, ends(tmp_path)) == (6, Counter({("innocent", "succeeded"): 12}))


@pytest.mark.slow("two real processes on one database, started again whenever they die")
def test_two_processes_of_one_database_find_the_poison_together(tmp_path: Path) -> None:
    first, second = Crowd(tmp_path), Crowd(tmp_path)
    calls = crowd(11, 1, kills_after=0.12)
    threads = [
        threading.Thread(target=first.see_through, args=(calls,)),
        threading.Thread(target=second.see_through, args=([],)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), ends(tmp_path)
    first.close()
    second.close()
    assert ends(tmp_path) == Counter({("innocent", "succeeded"): 11, ("poison", "failed"): 1})
