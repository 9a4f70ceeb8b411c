"""The command that erases a profile."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

WORD = "pineapple-7f3a"


def files_with(word: str, project: Path) -> list[str]:
    """Return the files in which a word is."""
    found = [each for each in (project / ".penstock").rglob("*") if each.is_file()]
    return [each.name for each in found if word.encode() in each.read_bytes()]


def test_a_profile_is_erased_with_all_that_was_said(
    project: Path, run: Callable[..., tuple[int, str, str]], run_json: Callable[..., Any]
) -> None:
    assert run("chat", f"hello {WORD}")[0] == 0
    assert "penstock.db" in files_with(WORD, project)
    assert run_json("erase", "somebody", "--yes") == {"profile": "somebody", "logs": 0}
    assert files_with(WORD, project)
    said = "erased local: 1 conversations, calls and runs, and what it kept\n"
    assert run("erase", "local", "--yes") == (0, said, "")
    assert files_with(WORD, project) == []


def test_nothing_is_erased_without_yes(
    project: Path, run: Callable[..., tuple[int, str, str]]
) -> None:
    run("chat", f"hello {WORD}")
    code, _, said = run("erase", "local")
    assert code == 2
    assert "nothing of 'local' can be brought back: add --yes" in said
    assert files_with(WORD, project)
