"""Files of noted definitions: the newest before a task counts, and damage is left out."""

import logging
from pathlib import Path

import pytest

from penstock.agents.definition.noted import FOLDER, MOST, definitions_at, note
from penstock.core.clock import Moment
from penstock.core.events.events import Record, TaskStarted
from penstock.core.ids import LogId


def started(at: int, digest: str = "d1") -> Record:
    """An event with which an agent starts."""
    event = TaskStarted(agent_digest=digest)
    return Record(LogId("log"), 1, Moment(at), None, None, event)


def test_the_newest_definition_before_a_task_counts(tmp_path: Path) -> None:
    for at, text in ((10, "a"), (20, "a"), (30, "b"), (40, "a")):
        note(tmp_path, {"d1": {"instructions": text}}, Moment(at))
    texts = {
        at: definitions_at(tmp_path, [started(at)]).get("d1", {}).get("instructions")
        for at in (9, 10, 29, 30, 41)
    }
    assert texts == {9: None, 10: "a", 29: "a", 30: "b", 41: "a"}
    assert definitions_at(None, [started(10)]) == {}
    assert definitions_at(tmp_path, [started(10, "../d1")]) == {}


def test_a_file_keeps_the_newest_definitions_and_may_be_damaged(tmp_path: Path) -> None:
    for at in range(MOST + 5):
        note(tmp_path, {"d1": {"at": at}}, Moment(at))
    file = tmp_path / FOLDER / "d1.jsonl"
    assert len(file.read_bytes().splitlines()) == MOST
    file.write_bytes(b'{"at": 1, "defin\n' + file.read_bytes()[:-9])
    assert definitions_at(tmp_path, [started(99)]) == {"d1": {"at": MOST + 3}}


def test_a_folder_that_cannot_be_written_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FOLDER).write_text("a file")
    with caplog.at_level(logging.WARNING):
        note(tmp_path, {"d1": {}}, Moment(1))
    assert "could not be noted for replays" in caplog.text
