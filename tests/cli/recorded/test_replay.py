"""`penstock replay`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def task_id(run: Run, run_json: Callable[..., Any]) -> str:
    """The id of a task of a chat that called a tool."""
    assert run("chat", "hello name=Ann")[0] == 0
    return str(run_json("tasks", "list")["tasks"][0]["id"])


def test_a_task_of_the_same_project_has_no_difference(
    run: Run, run_json: Callable[..., Any], task_id: str
) -> None:
    code, out, err = run("replay", task_id)
    assert (code, out.strip().startswith(f"{task_id}: no difference in ")) == (0, True), err
    assert run_json("replay", task_id)["equal"] is True


def test_a_changed_prompt_names_the_first_call_of_the_model(
    run: Run, task_id: str, tmp_path: Path
) -> None:
    prompt = tmp_path / "brief.md"
    prompt.write_text("Be brief.")
    code, out, err = run("replay", task_id, "--system-prompt", str(prompt))
    lines = out.splitlines()
    assert code == 1
    assert lines[0].startswith(f"{task_id}: differs at task/1, event ")
    assert lines[0].endswith("(prompt)")
    assert any('+ "Be brief.' in line for line in lines)
    assert "events came out the same" in err


def test_saved_tasks_are_checked(
    run: Run, run_json: Callable[..., Any], task_id: str, project: Path
) -> None:
    file = project / "tasks" / "hello.json"
    code, out, err = run("replay", task_id, "--save", str(file))
    assert (code, out.strip(), f"--check {file}" in err) == (0, str(file), True)
    code, out, err = run("replay", "--check", str(file), str(file))
    assert (code, out.count("no difference")) == (0, 2), err
    assert "2 tasks, 0 with a difference" in err
    assert run_json("replay", "--check", str(file))["tasks"][0]["file"] == str(file)
    (project / "hello.tool.yaml").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("task_other",), 2, "there is no task"),
        (("TASK", "task_2"), 2, "name one task"),
        (("TASK", "--check", "--save", "x"), 2, "--save takes a task"),
        (("--check", "nothing.json"), 2, "cannot read nothing.json"),
        (("TASK", "--system-prompt", "nothing.md"), 2, "cannot read nothing.md"),
        (("TASK", "--model", "fast"), 2, "asked only with live"),
        (("TASK", "--until", "999"), 2, "is not an event of this task"),
        ((), 2, "Missing argument"),
    ],
)
def test_what_cannot_be_replayed_is_reported(
    run: Run, task_id: str, arguments: tuple[str, ...], code: int, message: str
) -> None:
    found, _, err = run("replay", *(task_id if each == "TASK" else each for each in arguments))
    assert (found, message in err) == (code, True), err
