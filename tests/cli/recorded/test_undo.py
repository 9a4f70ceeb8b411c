"""`penstock undo`: the plan, the undo, and what waits."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.terminal.exit_codes import FAILED, FINE, WAITING

Run = Callable[..., tuple[int, str, str]]
SHOP = '''
from penstock import tool

@tool(requires_approval={"when": {"properties": {"input": {"properties": {"item": {"const": "gold"}}}}}})
def give_back(input: dict[str, str], output: str) -> str:
    """Give it back."""
    return output

@tool(revert=give_back, direct_call=True)
def take(item: str) -> str:
    """Take it."""
    return item
'''  # noqa: E501


@pytest.fixture
def taken(project: Path, run: Run) -> Callable[[str], str]:
    """Take something with a direct call; returns its task."""
    (project / "tools" / "shop.py").write_text(SHOP)

    def taken(item: str) -> str:
        assert run("call", "take", f"item={item}")[0] == 0
        return str(json.loads(run("tasks", "list", "--json")[1])["tasks"][0]["id"])

    return taken


def test_a_plan_is_shown_and_changes_nothing(run: Run, taken: Callable[[str], str]) -> None:
    task = taken("tea")
    code, out, err = run("undo", task, "--dry-run")
    assert code == FINE
    assert out.splitlines()[1].split() == ["4", "take", '{"item":', '"tea"}', "ready"]
    assert err == "1 call can be taken back\n"


def test_a_task_is_undone_once(run: Run, taken: Callable[[str], str]) -> None:
    task = taken("tea")
    for _ in range(2):
        code, out, err = run("undo", task)
        assert code == FINE
        assert out.splitlines()[1].split()[-1] == "undone"
        assert err == f"undo_{task} succeeded: 1 call taken back\n"


def test_the_questions_of_reverts_are_shown_with_how_to_answer(
    run: Run, run_json: Callable[..., Any], taken: Callable[[str], str]
) -> None:
    task = taken("gold")
    code, _, err = run("undo", task)
    assert code == WAITING
    assert "penstock answer q_" in err
    (question,) = run_json("answer")["questions"]
    assert run("answer", question["id"], "approve")[0] == FINE
    assert run_json("undo", task)["calls"][0]["status"] == "undone"


def test_an_unknown_task_or_call_is_reported(run: Run, taken: Callable[[str], str]) -> None:
    task = taken("tea")
    assert run("undo", "task_x")[::2] == (FAILED, "Error: there is no task 'task_x'\n")
    code, _, err = run("undo", task, "--call", "9")
    assert (code, err) == (
        FAILED,
        "Error: no call '9' of this task had an effect. Calls with an effect are 4.\n",
    )
