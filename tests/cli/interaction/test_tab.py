"""Tab completes commands of a conversation, and what may stand behind them."""

import readline

import pytest

from penstock.cli.interaction.tab import Words, choosing, completions, listen

WORDS: Words = {
    "/call": lambda: ["order_status", "order_cancel", "hello"],
    "/model": lambda: ["fast"],
    "/new": tuple,
}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("/", ["/call ", "/model ", "/new "]),
        ("/c", ["/call "]),
        ("/call", ["/call "]),
        ("/call ", ["hello ", "order_cancel ", "order_status "]),
        ("/call ord", ["order_cancel ", "order_status "]),
        ("/call hello na", []),
        ("/model f", ["fast "]),
        ("/new ", []),
        ("/other x", []),
        ("//", []),
        ("", []),
        ("call", []),
    ],
)
def test_what_a_word_may_become(line: str, found: list[str]) -> None:
    assert completions(line, WORDS) == found


def test_the_line_that_is_written_is_what_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("readline.get_line_buffer", lambda: "/call ordxyz")
    monkeypatch.setattr("readline.get_endidx", lambda: len("/call ord"))
    before = readline.get_completer()
    listen(WORDS)
    completer = readline.get_completer()
    readline.set_completer(before)
    assert completer is not None
    assert [completer("ord", number) for number in range(3)] == [
        "order_cancel ",
        "order_status ",
        None,
    ]


@pytest.mark.parametrize(
    ("line", "found"),
    [("", ["Tokyo", "Quick fix"]), ("q", ["Quick fix"]), ("Quick f", ["Quick fix"]), ("x", [])],
)
def test_an_option_is_completed_as_a_whole_line(line: str, found: list[str]) -> None:
    before = readline.get_completer(), readline.get_completer_delims()
    with choosing(["Tokyo", "Quick fix"]):
        completer = readline.get_completer()
        assert completer is not None
        assert [completer(line, number) for number in range(len(found) + 1)] == [*found, None]
        assert readline.get_completer_delims() == ""
    assert (readline.get_completer(), readline.get_completer_delims()) == before
