"""`penstock fork`."""

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


def test_a_copy_of_a_task_runs_to_its_end(
    run: Run, run_json: Callable[..., Any], task_id: str
) -> None:
    code, made, err = run("fork", task_id)
    assert (code, f"penstock tasks show {made.strip()}" in err) == (0, True)
    assert made.strip() != task_id
    shown = {each["id"]: each["status"] for each in run_json("tasks", "list")["tasks"]}
    assert shown[made.strip()] == "succeeded"


@pytest.mark.programs
def test_the_message_can_be_changed_in_an_editor(
    run: Run, project: Path, task_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", "sed -i s/Ann/Bob/")
    assert run("fork", task_id, "--edit")[0] == 0
    stored = (each.read_bytes() for each in (project / ".penstock").glob("penstock.db*"))
    assert any(b"hello name=Bob" in each for each in stored)


@pytest.mark.programs
@pytest.mark.parametrize(
    ("editor", "told"),
    [
        ("false", (1, "Error: false: Editing failed; EDITOR names the editor")),
        ("nowhere", (1, "EDITOR names the editor")),
        ("true", (0, "nothing is forked")),
    ],
)
def test_an_editor_that_fails_or_changes_nothing_forks_nothing(
    run: Run,
    run_json: Callable[..., Any],
    task_id: str,
    monkeypatch: pytest.MonkeyPatch,
    editor: str,
    told: tuple[int, str],
) -> None:
    monkeypatch.setenv("VISUAL", editor)
    ended, out, err = run("fork", task_id, "--edit")
    assert (ended, out, told[1] in err) == (told[0], "", True), err
    assert [each["id"] for each in run_json("tasks", "list")["tasks"]] == [task_id]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("task_other",), "there is no task"),
        (("TASK", "--at", "99"), "is not an event of this task"),
        (("CALL", "--edit"), "has no message to change"),
    ],
)
def test_what_cannot_be_forked_is_reported(
    run: Run, run_json: Callable[..., Any], task_id: str, arguments: tuple[str, ...], message: str
) -> None:
    run("call", "hello", "name=Ann")
    call = run_json("tasks", "list")["tasks"][0]["id"]
    names = {"TASK": task_id, "CALL": call}
    code, _, err = run("fork", *(names.get(each, each) for each in arguments))
    assert (code, message in err) == (1, True)
