"""What goes to stdout and what to stderr."""

import pytest

from penstock.cli.terminal.output import note, print_json


def test_json_is_one_line_on_stdout_and_notes_go_to_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_json({"said": "grüß\ngott"})
    note("beside")
    assert capsys.readouterr() == ('{"said": "grüß\\ngott"}\n', "beside\n")


def test_half_a_character_is_printed_as_a_sign(capsys: pytest.CaptureFixture[str]) -> None:
    """Spec: "lone surrogates become U+FFFD"."""
    print_json({"said": "bad\ud800 thing"})
    assert capsys.readouterr().out == '{"said": "bad\ufffd thing"}\n'
