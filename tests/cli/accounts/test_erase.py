"""The command that erases a profile."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WORD = "pineapple-7f3a"


def files_with(word: str, project: Path) -> list[str]:
    """Return the files that contain a word."""
    values = [each for each in (project / ".penstock").rglob("*") if each.is_file()]
    return [each.name for each in values if word.encode() in each.read_bytes()]


def test_a_profile_is_erased_with_its_conversations(
    project: Path, run: Callable[..., tuple[int, str, str]], run_json: Callable[..., Any]
) -> None:
    assert run("chat", f"hello {WORD}")[0] == 0
    assert "penstock.db" in files_with(WORD, project)
    assert run_json("erase", "somebody", "--yes") == {"profile": "somebody", "logs": 0}
    assert files_with(WORD, project)
    text = "erased local: 1 log (conversations, calls, runs) and all other data\n"
    assert run("erase", "local", "--yes") == (0, text, "")
    assert files_with(WORD, project) == []


def test_nothing_is_erased_without_yes(
    project: Path, run: Callable[..., tuple[int, str, str]]
) -> None:
    run("chat", f"hello {WORD}")
    code, _, err = run("erase", "local")
    assert code == 2
    assert "'local' cannot be restored later; confirm with --yes" in err
    assert files_with(WORD, project)


def test_one_log_is_erased_even_if_damaged(
    project: Path, run: Callable[..., tuple[int, str, str]], run_json: Callable[..., Any]
) -> None:
    run("chat", f"hello {WORD}")
    run("chat", "hello Ann")
    other, one = [each["conversationId"] for each in run_json("tasks", "list")["tasks"]]
    database = sqlite3.connect(project / ".penstock" / "penstock.db")
    with database:
        database.execute("DELETE FROM events WHERE log_id = ? AND seq = 2", (one,))
    database.close()
    assert run("erase", "--log", one, "--yes") == (0, f"erased {one}\n", "")
    assert [each["conversationId"] for each in run_json("tasks", "list")["tasks"]] == [other]
    assert files_with(WORD, project) == []
    code, _, err = run("erase", "--log", one, "--yes")
    assert (code, f"There is no log {one!r}" in err) == (1, True)


@pytest.mark.parametrize("named", [(), ("local", "--log", "conv_1")])
def test_either_a_profile_or_a_log_is_erased(
    named: tuple[str, ...], project: Path, run: Callable[..., tuple[int, str, str]]
) -> None:
    code, _, err = run("erase", *named, "--yes")
    assert (code, "name either a PROFILE or a --log" in err) == (2, True)
