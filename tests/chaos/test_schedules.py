"""Schedules that are due in a process which is killed at each of its writes."""

import signal
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.harness import PATIENCE, Moment, Nursery, Server, effects, wait_until
from tests.chaos.program import NEWS

URL = "/agents/assistant/schedules"
CALL = {"callback_type": "function", "callback_id": "inner", "input": {"number": 1}}
SOON = {"name": "Soon", "delay_seconds": 1, **CALL}
EACH_MINUTE = {
    "name": "News",
    "cron_expression": "* * * * *",
    "callback_type": "message",
    "input": {"content": NEWS, "conversation": "same"},
}
SPEED = 30
"""A minute of a server takes two seconds."""


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    """Where servers come from."""
    opened = Nursery()
    yield opened
    opened.close()


@pytest.fixture
def fast_nursery() -> Iterator[Nursery]:
    """Where servers with a fast clock come from."""
    opened = Nursery(speed=SPEED)
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


def create(server: Server, given: dict[str, Any] = SOON) -> dict[str, Any]:
    answer = server.client.post(URL, json=given)
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


def answers(server: Server, conversation: str) -> list[str]:
    """Return what the assistant said in a conversation."""
    path, query = "/agents/assistant/chat", {"conversationId": conversation}
    found = server.client.get(path, params=query, timeout=PATIENCE)
    assert found.status_code == 200, found.text
    return [each["content"] for each in found.json()["messages"] if each["role"] == "assistant"]


@pytest.mark.slow("a schedule over a crash and a restart of a real process")
def test_answers_of_each_minute_are_in_one_conversation_over_a_restart(
    fast_nursery: Nursery, tmp_path: Path
) -> None:
    """Due times pass also while no process runs.

    Issue: "A schedule that asks the assistant each minute leaves its answers in one conversation,
    over a restart".
    """
    with fast_nursery.start(tmp_path, None, signal.SIGKILL) as first:
        conversation = create(first, EACH_MINUTE)["conversation_id"]
        wait_for_answers(first, conversation, 2)
    before = len(state(tmp_path)[1])
    with fast_nursery.start(tmp_path, None, signal.SIGKILL) as second:
        wait_for_answers(second, conversation, before + 2)
        said = answers(second, conversation)
        assert said == [f"News {number}." for number in range(1, len(said) + 1)]
        listed = second.client.get("/agents/assistant/chat/conversations", timeout=PATIENCE)
        assert [each["id"] for each in listed.json()["conversations"]] == [conversation]


def wait_for_answers(server: Server, conversation: str, count: int) -> None:
    wait_until(lambda: len(answers(server, conversation)) >= count, f"answer {count}")
