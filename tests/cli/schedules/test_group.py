"""`penstock schedules`: list, show, run, pause, resume, next."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.app.opening import open_project
from penstock.app.project import load_project
from penstock.app.settings import load
from penstock.chat.schedules.definition import NewSchedule

Run = Callable[..., tuple[int, str, str]]
NEWS = NewSchedule(
    name="News", cron="0 8 * * *", input={"content": "What is new?", "conversation": "same"}
)
LATER = NewSchedule(name="Later", delay_seconds=3600, input={"content": "Hello"})


@pytest.fixture
def schedule(project: Path) -> str:
    """The first of two schedules."""

    async def create() -> str:
        settings = load(project)
        loaded = load_project(settings)
        async with open_project(settings, loaded, resumes=False) as runtime:
            await runtime.schedules.create(LATER)
            return (await runtime.schedules.create(NEWS)).schedule_id

    return asyncio.run(create())


def test_schedules_are_listed(run: Run, run_json: Callable[..., Any], schedule: str) -> None:
    code, out, err = run("schedules", "list")
    assert code == 0
    (line,) = [each for each in out.splitlines() if each.startswith(schedule)]
    assert line.split()[1:7] == ["active", "0", "8", "*", "*", "*"]
    assert line.rstrip().endswith("News")
    assert err.endswith("2 of 2\n")
    assert run_json("schedules", "list", "--status", "paused")["schedules"] == []
    assert run_json("schedules", "list", "--agent", "poet")["total"] == 0


def test_a_schedule_is_paused_and_resumed(
    run_json: Callable[..., Any], run: Run, schedule: str
) -> None:
    assert run_json("schedules", "pause", schedule)["status"] == "paused"
    shown = run_json("schedules", "show", schedule)
    assert (shown["status"], shown["next_runs"]) == ("paused", [])
    # Its row has no next time.
    row = next(line for line in run("schedules", "list")[1].splitlines() if schedule in line)
    assert row.split()[1:] == ["paused", *"08***", "News"], row
    assert run_json("schedules", "resume", schedule)["status"] == "active"
    assert len(run_json("schedules", "show", schedule)["next_runs"]) == 3
    code, _, err = run("schedules", "pause", "News")
    assert code == 1
    assert f"Did you mean {schedule!r}?" in err


def test_a_run_prints_the_answer(run: Run, run_json: Callable[..., Any], schedule: str) -> None:
    code, out, _ = run("schedules", "run", schedule)
    assert (code, "offline model" in out) == (0, True)
    ran = run_json("schedules", "run", schedule)
    assert ran["status"] == "succeeded"
    assert run_json("schedules", "show", schedule)["last_task_id"] == ran["task_id"]
    code, out, _ = run("schedules", "run", schedule, "--no-wait")
    assert (code, out.startswith("task_")) == (0, True)


def test_the_next_due_times_of_one_and_of_all(
    run: Run, run_json: Callable[..., Any], schedule: str
) -> None:
    one = run_json("schedules", "next", schedule, "--count", "5")["next"]
    assert [each["id"] for each in one] == [schedule] * 5
    assert all(each["at"].endswith("T08:00:00.000Z") for each in one)
    both = run_json("schedules", "next")["next"]
    assert len(both) == 10
    assert {each["id"] for each in both} > {schedule}
    assert [each["at"] for each in both] == sorted(each["at"] for each in both)
    assert run("schedules", "next", schedule, "--count", "1")[2] == "1 due time\n"
