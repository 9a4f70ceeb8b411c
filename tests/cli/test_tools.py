"""Tools: which there are, and what each wants."""

from collections.abc import Callable
from typing import Any

Run = Callable[..., tuple[int, str, str]]


def test_the_tools_of_a_project_stand_beside_the_built_in_ones(run: Run) -> None:
    code, out, told = run("tools", "list")
    assert code == 0
    lines = out.splitlines()
    assert any(line.startswith("ask_user ") for line in lines)
    assert "hello" in lines[-1]
    assert "direct  Greet somebody by name." in lines[-1]
    assert told == f"{len(lines) - 1} tools\n"


def test_those_that_programs_may_call_are_a_list_of_their_own(run_json: Callable[..., Any]) -> None:
    assert [tool["id"] for tool in run_json("tools", "list", "--direct")["tools"]] == ["hello"]


def test_a_tool_is_shown_with_its_defaults(run: Run, run_json: Callable[..., Any]) -> None:
    shown = run_json("tools", "show", "hello")
    assert shown["effect"] == "none"
    assert shown["timeout_ms"] == 60_000
    assert shown["input_schema"]["required"] == ["name"]
    assert '"kind": "python"' in run("tools", "show", "hello")[1]


def test_an_unknown_tool_is_answered_with_the_nearest(run: Run) -> None:
    code, _, told = run("tools", "show", "helo")
    assert (code, told) == (1, "Error: There is no tool 'helo'. Did you mean 'hello'?\n")
