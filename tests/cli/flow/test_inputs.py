"""What a run at a terminal begins with."""

import io
from typing import Any

import pytest
import typer

from penstock.cli.flow.inputs import asked_for, read_pairs, values_of
from penstock.core.events.flow_events import ValueType
from penstock.core.messages import MissingArguments
from penstock.flows.definition import RunInput

NUMBER, TEXT = (
    MissingArguments(question="n (number): how many?", is_text=False),
    MissingArguments(question="For whom?"),
)


def test_an_input_is_json_or_a_text() -> None:
    pairs = ["n=3", "t=a=b", "l=[1]", "e=", "b=true", 's="x"', f"deep={'[' * 100_000}"]
    wanted: dict[str, Any] = {"n": 3, "t": "a=b", "l": [1], "e": "", "b": True, "s": "x"}
    assert values_of(read_pairs(pairs), ()) == {**wanted, "deep": "[" * 100_000}


def test_a_flow_that_wants_a_text_gets_it_as_it_was_written() -> None:
    declared = [RunInput(name="code", value_type=ValueType.STRING)]
    texts = {"code": "42", "other": "42"}
    assert values_of(texts, declared) == {"code": "42", "other": 42}
    assert values_of({"code": '"42"'}, declared) == {"code": "42"}


def test_a_malformed_pair_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match="an input has the form KEY=VALUE, found 'n'"):
        read_pairs(["n"])


def test_missing_inputs_are_prompted_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(" 3 \n \nAnn\n"))
    wanted = {"n": NUMBER, "m": NUMBER, "there": NUMBER, "task": TEXT}
    assert asked_for(wanted, {"there"}) == {"n": 3, "task": "Ann"}
    assert capsys.readouterr() == ("", "n (number): how many?> " * 2 + "For whom?> ")


def test_the_end_of_input_ends_the_prompts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert asked_for({"n": NUMBER, "task": TEXT}, ()) == {}
    assert capsys.readouterr().err == "n (number): how many?> "
