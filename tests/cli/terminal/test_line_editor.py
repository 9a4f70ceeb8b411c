"""One line that a person edits in a real terminal, with completion by Tab."""

import sys
from pathlib import Path

import pytest

from tests.kit.terminal import Terminal

pytestmark = [pytest.mark.programs, pytest.mark.slow("starts Python in a terminal")]
ASKS = """
import sys
from penstock.cli.terminal.keyboard import read_line
from penstock.core.errors import QuestionClosed

OPTIONS = ("Tokyo", "Quick fix", "quick run")

def complete(line):
    return [each for each in OPTIONS if each.lower().startswith(line.lower())]

def is_over():
    return "over" in sys.argv

draft = "a draft" if "draft" in sys.argv else ""
while True:
    try:
        line = read_line(
            "answer> ", complete=complete, draft=draft, is_over=is_over, poll_seconds=0.05
        )
    except (EOFError, KeyboardInterrupt, QuestionClosed) as error:
        print("ended by", type(error).__name__, flush=True)
        sys.exit()
    print("line:", ascii(line), flush=True)
"""
PROGRAM = (sys.executable, "-c", ASKS)


def test_lines_are_edited_and_completed(tmp_path: Path) -> None:
    """One process reads them all, so what one line leaves behind would show in the next."""
    lines: list[tuple[str | bytes, str]] = [
        ("T\t\n", "'Tokyo'"),
        ("q\tf\t\n", "'Quick fix'"),
        ("z\t\n", "'z'"),
        ("blue\n", "'blue'"),
        ("\n", "''"),
        ("frü\x7f\x7föh\n", "'f\\xf6h'"),
        ("漢字\x7f語\n", "'\\u6f22\\u8a9e'"),
        ("\x1b[200~one\ntwo\x1b[201~\n", "'one\\ntwo'"),
        ("word\x15other\n", "'other'"),
        (b"\xff\xfe!\n", "'\\ufffd\\ufffd!'"),
        ("\x1b[31mred\n", "'mred'"),
    ]
    with Terminal(cwd=tmp_path, program=PROGRAM, echoes=True) as terminal:
        for keys, line in lines:
            terminal.until("answer> ")
            terminal.press(keys)
            terminal.until("line: ")
            assert terminal.until("\n") == line, keys
        terminal.until("answer> ")
        terminal.press("first\nsecond\n")  # pasted into a terminal that does not mark pasted text
        terminal.until("line: 'first'")
        terminal.until("line: 'second'")
        terminal.until("answer> ")
        terminal.leave()
        terminal.until("ended by EOFError")
        assert terminal.ended() == 0


def test_tab_lists_several_matching_options(tmp_path: Path) -> None:
    with Terminal(cwd=tmp_path, program=PROGRAM, echoes=True) as terminal:
        terminal.until("answer> ")
        terminal.press("\t")
        terminal.until("Quick fix")
        terminal.until("quick run")
        terminal.until("answer> ")
        terminal.leave()
        assert terminal.ended() == 0


def test_a_line_starts_with_its_draft(tmp_path: Path) -> None:
    with Terminal("draft", cwd=tmp_path, program=PROGRAM, echoes=True) as terminal:
        terminal.until("answer> a draft")
        terminal.press("\x7f\x7fgon\n")
        terminal.until("line: 'a dragon'")
        terminal.until("answer> a draft")
        terminal.press("\x15")
        terminal.leave()
        assert terminal.ended() == 0


@pytest.mark.parametrize("typed", ["", "half a l", "T\t"])
def test_a_prompt_ends_when_its_question_is_closed_elsewhere(tmp_path: Path, typed: str) -> None:
    with Terminal("over", cwd=tmp_path, program=PROGRAM) as terminal:
        terminal.until("answer> ")
        terminal.press(typed)
        terminal.until("ended by QuestionClosed")
        assert terminal.ended() == 0


def test_ctrl_c_ends_a_prompt(tmp_path: Path) -> None:
    with Terminal(cwd=tmp_path, program=PROGRAM) as terminal:
        terminal.until("answer> ")
        terminal.press("half a l")
        terminal.interrupt_until("ended by KeyboardInterrupt")
        assert terminal.ended() == 0


def test_the_prompt_is_not_in_the_output(tmp_path: Path) -> None:
    """A program reads what the command prints, and the person still completes options."""
    output = tmp_path / "output"
    with (
        output.open("wb") as file,
        Terminal(cwd=tmp_path, program=PROGRAM, output=file.fileno()) as terminal,
    ):
        terminal.until("answer> ")
        terminal.press("T\t\n")
        terminal.until("answer> ")
        terminal.leave()
        assert terminal.ended() == 0
    assert output.read_text() == "line: 'Tokyo'\nended by EOFError\n"
