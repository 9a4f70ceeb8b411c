"""`penstock eval`: run a file of cases, go on after a cut, compare, add a recorded task."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.recorded import eval as command
from penstock.evals.report import Attempt
from penstock.evals.stored_runs import StoredRuns

Run = Callable[..., tuple[int, str, str]]


class Killed(BaseException):
    """Ends a command in the middle of a run."""


CASES = """
agent: assistant
scorers: [{contains: "Hello, Ann!"}]
cases:
  - name: greets
    input: Say hello to Ann
    scorers: [{called_tool: {tool: hello, input: {name: Ann}}}]
  - name: another
    input: Say hello to Bob
"""


@pytest.fixture
def cases(project: Path) -> str:
    """A file of two cases, of which one passes."""
    file = project / "evals" / "greetings.yaml"
    file.parent.mkdir()
    file.write_text(CASES)
    return str(file)


def test_a_file_of_cases_is_asked_and_scored(run: Run, cases: str) -> None:
    code, out, err = run("eval", cases)
    lines = [line.split() for line in out.splitlines()]
    assert lines[0][:2] == ["case", "passed"]
    assert lines[1][:2] == ["greets", "1/1"]
    assert lines[2][:2] == ["another", "0/1"]
    assert "Contains" in out
    assert "assistant: 1/2 = 50%" in out
    assert "--since eval_" in err
    assert code == 1


def test_the_share_that_must_pass_decides_the_exit_code(run: Run, cases: str) -> None:
    assert run("eval", cases, "--min-pass", "0.5")[0] == 0


def test_a_report_is_json_junit_and_markdown(
    run_json: Callable[..., Any], cases: str, tmp_path: Path
) -> None:
    junit, markdown = tmp_path / "report.xml", tmp_path / "report.md"
    report = run_json(
        "eval", cases, "--min-pass", "0", "--junit", str(junit), "--markdown", str(markdown)
    )
    assert [(each["case"], each["passed"]) for each in report["attempts"]] == [
        ("greets", True),
        ("another", False),
    ]
    assert 'testcase classname="greetings" name="greets #1"' in junit.read_text()
    assert "| another | 0/1 |" in markdown.read_text()


def test_the_next_run_is_compared_with_the_last_one(run: Run, project: Path, cases: str) -> None:
    run("eval", cases)
    Path(cases).write_text(CASES.replace("hello to Bob", "hello to Ann "))
    code, out, _ = run("eval", cases)
    assert code == 0
    assert "better another: 0% -> 100%" in out
    first = StoredRuns(project / ".penstock").records()[-1]
    out = run("eval", cases, "--since", first.report.run_id)[1]
    assert f"compared with {first.report.run_id}" in out


def test_only_what_failed_is_asked_again(
    run: Run, run_json: Callable[..., Any], cases: str
) -> None:
    code, _, err = run("eval", cases, "--only-failed")
    assert code == 1
    assert "--only-failed needs a finished run of 'greetings'" in err
    run("eval", cases)
    report = run_json("eval", cases, "--only-failed", "--min-pass", "0")
    assert [each["case"] for each in report["attempts"]] == ["another"]
    out = run("eval", cases, "--only-failed")[1]
    assert "no differences" in out
    assert "cost unknown" in out


@pytest.mark.parametrize("option", ["--junit", "--markdown"])
def test_a_report_that_cannot_be_written_is_refused_before_any_case_is_asked(
    run: Run, cases: str, tmp_path: Path, option: str
) -> None:
    for place in (tmp_path, tmp_path / "none" / "report"):
        code, out, err = run("eval", cases, option, str(place))
        assert (code, out, err.count("cannot write")) == (1, "", 1)
    full = Path("/dev/full")
    code, out, err = run("eval", cases, option, str(full))
    assert (code, "assistant: 1/2" in out, "cannot write /dev/full: No space left" in err) == (
        1,
        True,
        True,
    )


def test_a_run_that_was_cut_goes_on_and_asks_no_finished_case_again(
    run: Run, project: Path, cases: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies leaves a run without its report; the log has the attempts."""

    def cut(bar: Any, attempt: Attempt) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(command.ProgressBar, "show", cut)
        with pytest.raises(Killed):
            run("eval", cases, "--concurrency", "1")
    (current,) = StoredRuns(project / ".penstock").records()
    assert not current.is_finished
    tasks = json.loads(run("tasks", "list", "--json")[1])["tasks"]
    report, err = _json(run, "eval", cases, "--min-pass", "0")
    assert f"the run {current.report.run_id} was cut and continues" in err
    assert report["run_id"] == current.report.run_id
    again = json.loads(run("tasks", "list", "--json")[1])["tasks"]
    assert {each["id"] for each in tasks} <= {each["task_id"] for each in report["attempts"]}
    assert len(again) == 2
    assert _json(run, "eval", cases, "--min-pass", "0", "--new")[0]["run_id"] != report["run_id"]


def test_models_are_compared_side_by_side(run_json: Callable[..., Any], cases: str) -> None:
    report = run_json("eval", cases, "--model", "offline", "--model", "offline", "--min-pass", "0")
    assert {each["model"] for each in report["attempts"]} == {"offline"}


def test_a_recorded_task_becomes_a_case_that_passes(run: Run, project: Path) -> None:
    run("chat", "Say hello to Ann")
    (task,) = json.loads(run("tasks", "list", "--json")[1])["tasks"]
    file = project / "evals" / "recorded.yaml"
    code, out, _ = run("eval", "add", task["id"], "--file", str(file), "--name", "greets")
    assert (code, file.exists()) == (0, True)
    assert f"try it: penstock eval {file}" in out
    assert file.read_text().startswith("agent: assistant\ncases:\n")
    assert run("eval", str(file))[0] == 0
    code, _, err = run("eval", "add", task["id"], "--file", str(file), "--name", "greets")
    assert (code, "has a case named 'greets'" in err) == (1, True)


def test_runs_are_listed(run: Run, run_json: Callable[..., Any], cases: str) -> None:
    assert run_json("eval", "list") == {"runs": []}
    run("eval", cases)
    (listed,) = run_json("eval", "list")["runs"]
    assert (listed["dataset"], listed["passed"], listed["attempts"]) == ("greetings", 1, 2)
    assert "1/2 = 50%" in run("eval", "list")[1]


def test_a_broken_file_and_an_unknown_agent_are_reported_before_any_task(
    run: Run, cases: str
) -> None:
    Path(cases).write_text("cases: [{name: a}]")
    code, _, err = run("eval", cases)
    assert (code, '"cases[0]" must have "input"' in err) == (1, True)
    Path(cases).write_text(CASES.replace("assistant", "nobody-known"))
    code, _, err = run("eval", cases)
    assert (code, "no agent 'nobody-known'" in err) == (1, True)
    assert f"Dataset.from_file({cases!r})" in err
    assert json.loads(run("tasks", "list", "--json")[1])["tasks"] == []


def _json(run: Run, *arguments: str) -> tuple[Any, str]:
    code, out, err = run(*arguments, "--json")
    assert code == 0, err
    return json.loads(out), err
