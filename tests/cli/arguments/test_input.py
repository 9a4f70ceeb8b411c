"""JSON that a person gives on the command line."""

import io
from pathlib import Path

import pytest
import typer

from penstock.cli.arguments.input import read_object


def test_it_is_a_text_a_file_or_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x.json"
    file.write_text('{"a": 2}')
    monkeypatch.setattr("sys.stdin", io.StringIO('{"a": 3}'))
    found = [read_object(each, "--input") for each in ('{"a": 1}', f"@{file}", "-", None)]
    assert found == [{"a": 1}, {"a": 2}, {"a": 3}, {}]


def test_half_a_character_is_none(tmp_path: Path) -> None:
    """As the server reads bodies: nothing is kept that has no bytes."""
    file = tmp_path / "x.json"
    file.write_text('{"a": "\\ud83d\\ude00", "b\\ud800": ["\\uD83D"]}')
    assert read_object(f"@{file}", "--mocks") == {"a": "😀", "b�": ["�"]}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{", "--input must be JSON: "),
        ("[]", "--input must be a JSON object, found array"),
        ('{"a": ' + "[" * 100_000, "--input is too deeply nested JSON"),
        ("@nowhere.json", "--input cannot read nowhere.json: "),
    ],
)
def test_a_value_that_is_not_an_object_is_refused(given: str, said: str) -> None:
    with pytest.raises(typer.BadParameter) as found:
        read_object(given, "--input")
    assert str(found.value).startswith(said)


def test_stdin_that_is_not_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff"), encoding="utf-8"))
    with pytest.raises(typer.BadParameter, match="--input cannot read stdin: "):
        read_object("-", "--input")
