"""Who may call a tool: the rows of the visibility table, printed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kit.project import ProjectFolder
from tests.kit.visibility import write_project

Json = Callable[..., Any]
DIRECT = ("--root", "t_direct")
SELECTED = ("--skill", "a")


@pytest.fixture(autouse=True)
def scripts(project: Path, machine_code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the tools and skills of the visibility table into the project."""
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(machine_code))
    write_project(ProjectFolder(project, machine_code))


@pytest.mark.parametrize(
    ("tool", "origin", "options", "verdict"),
    [
        ("ask_user", "model", (), "global"),
        ("ask_user", "direct", (), "TOOL_NOT_FOUND"),
        ("t_req", "model", SELECTED, "tools"),
        ("t_inline", "script", SELECTED, "inline"),
        ("t_helper", "model", SELECTED, "TOOL_NOT_FOUND"),
        ("t_helper", "script", SELECTED, "script_tools"),
        ("t_helper", "script", (), "NOT_PERMITTED"),
        ("t_direct", "direct", (), "direct_call"),
        ("t_direct", "script", DIRECT, "self"),
        ("t_own", "script", DIRECT, "own_script_tools"),
        ("t_own2", "script", DIRECT, "NOT_PERMITTED"),
        ("hello", "model", (), "agent"),
    ],
)
def test_the_verdict_is_that_of_the_table(
    run_json: Json, tool: str, origin: str, options: tuple[str, ...], verdict: str
) -> None:
    shown = run_json("tools", "grants", tool, "--origin", origin, *options)
    assert [each["verdict"] for each in shown["origins"]] == [verdict]


def test_every_grant_is_shown_whether_it_holds_or_not(run_json: Json) -> None:
    shown = run_json("tools", "grants", "t_own", "--origin", "script", *DIRECT, *SELECTED)
    assert shown["skills"] == ["a", "b"]
    (part,) = shown["origins"]
    assert part["grants"] == {
        "global": False,
        "tools": False,
        "inline": False,
        "script_tools": False,
        "self": False,
        "direct_call": False,
        "own_script_tools": True,
    }


def test_people_read_all_origins_as_a_table(run: Callable[..., tuple[int, str, str]]) -> None:
    code, out, told = run("tools", "grants", "t_direct")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert ["direct", "direct_call", "yes"] in rows
    assert ["model", "verdict", "TOOL_NOT_FOUND"] in rows
    assert told.endswith("selected skills: none\n")
