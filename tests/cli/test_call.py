"""Calls one tool, as a program would."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.builtins import SKILLS

Run = Callable[..., tuple[int, str, str]]


def test_an_outcome_is_printed_for_people_and_for_programs(run: Run) -> None:
    assert run("call", "hello", "name=Ann") == (0, '{\n  "greeting": "Hello, Ann!"\n}\n', "")
    code, out, _ = run("call", "hello", "name=Ann", "--json")
    assert (code, json.loads(out)["status"]) == (0, "success")


def test_a_text_stays_a_text_where_the_tool_wants_one(run: Run) -> None:
    assert "Hello, 3!" in run("call", "hello", "name=3")[1]


def test_an_input_may_be_json_a_file_or_stdin(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "input.json").write_text('{"name": "File"}')
    monkeypatch.setattr("sys.stdin", io.StringIO('{"name": "Pipe"}'))
    said = [
        run("call", "hello", "--input", given)[1]
        for given in ('{"name": "Json"}', f"@{tmp_path}/input.json", "-")
    ]
    assert [json.loads(each)["greeting"] for each in said] == [
        "Hello, Json!",
        "Hello, File!",
        "Hello, Pipe!",
    ]


WRONG = [
    (("name",), 2, "an input is key=value, found 'name'"),
    (("--input", "{"), 2, "--input must be JSON: "),
    (("--input", "[]"), 2, "--input must be a JSON object, found list"),
    (("--input", "@missing.json"), 2, "--input cannot read missing.json: "),
    ((), 3, ""),
    (("name=Ann", "more=1"), 3, ""),
]


@pytest.mark.parametrize(("arguments", "code", "said"), WRONG)
def test_wrong_usage_is_two_and_a_wrong_input_is_three(
    run: Run, arguments: tuple[str, ...], code: int, said: str
) -> None:
    """Spec: "Exit codes: 0 fine, 1 … failed or timed out, 2 wrong usage, 3 `validation_error`"."""
    ended, _, told = run("call", "hello", *arguments)
    assert ended == code
    assert said in told


def test_an_unknown_tool_is_a_failed_call_with_the_nearest_name(run: Run) -> None:
    code, out, _ = run("call", "helo", "name=Ann")
    assert code == 1
    assert out.startswith("failed: TOOL_NOT_FOUND: ")
    assert "'hello'" in out


def test_skills_may_be_selected_for_the_call(run: Run) -> None:
    code, _, told = run("call", "hello", "name=Ann", "--skill", "no_such_skill")
    assert (code, "no skill 'no_such_skill'" in told) == (2, True)
    known = next(iter(SKILLS))
    assert run("call", "hello", "name=Ann", "--skill", known, "--skill", known)[0] == 0
