"""Lines that a person types, on a pseudo terminal."""

import os
import pty
from collections.abc import Iterator

import pytest

from penstock.cli.terminal.keyboard import forget_typed, read_line
from penstock.core.errors import QuestionClosed


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The person's end of a pseudo terminal whose other end is stdin."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "r") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield ours
    os.close(ours)


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        (b"blue\n", "blue"),
        (b"\n", ""),
        ("früh\n".encode(), "früh"),
        (b"one\ntwo\n", "one"),
        (b"half\x04\x04", "half"),
    ],
)
def test_a_line_is_the_text_before_its_end(
    person: int, typed: bytes, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    os.write(person, typed)
    assert read_line("answer> ") == line
    assert capsys.readouterr() == ("", "answer> ")


def test_ctrl_d_at_the_start_of_a_line_raises_eof(person: int) -> None:
    os.write(person, b"\x04")
    with pytest.raises(EOFError):
        read_line("answer> ")


@pytest.mark.parametrize("early", [b"yes\n", b"ye", b"yes\nno\n"])
def test_text_typed_before_a_question_is_discarded(person: int, early: bytes) -> None:
    os.write(person, early)
    forget_typed()
    os.write(person, b"blue\n")
    assert read_line("answer> ") == "blue"


def test_a_prompt_ends_when_its_question_is_closed(person: int) -> None:
    os.write(person, b"half a l")
    with pytest.raises(QuestionClosed):
        read_line("answer> ", is_over=lambda: True, poll_seconds=0.01)


def test_a_complete_line_is_returned_even_if_the_question_closed(person: int) -> None:
    os.write(person, b"blue\n")
    assert read_line("answer> ", is_over=lambda: True) == "blue"
