"""The command that moves a project to another database."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., tuple[int, str, str]]


def test_a_project_moves_and_its_old_database_is_closed(
    project: Path,
    run: Run,
    run_json: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run("chat", "hello Ann")
    before = run_json("tasks", "list")
    url = f"sqlite:///{tmp_path}/other/penstock.db"
    code, out, err = run("move", "--to", url, "--blobs", str(tmp_path / "other" / "blobs"))
    assert code == 0, err
    assert out.startswith("moved ")
    assert f"and 0 blobs to {tmp_path}/other/penstock.db, verified" in out
    assert "set database_url in penstock.toml" in err
    code, _, err = run("tasks", "list")
    assert (code, "was moved to" in err) == (1, True)
    monkeypatch.setenv("PENSTOCK_DATABASE_URL", url)
    assert run_json("tasks", "list") == before
    assert run("doctor")[0] == 0
    found = run_json("move", "--to", f"sqlite:///{project}/.penstock/penstock.db")
    assert found["rows"]["tasks"] == 1
    monkeypatch.delenv("PENSTOCK_DATABASE_URL")
    assert run_json("tasks", "list") == before


def test_without_an_interrupted_move_there_is_nothing_to_end(
    project: Path, run: Run, run_json: Callable[..., Any]
) -> None:
    run("chat", "hello Ann")
    assert run("move", "--abort") == (0, "no move to end\n", "")
    assert run_json("move", "--abort") == {"aborted": False}


@pytest.mark.parametrize("arguments", [(), ("--to", "sqlite:///x.db", "--abort")])
def test_either_an_address_or_the_end_of_a_move_is_named(
    arguments: tuple[str, ...], run: Run
) -> None:
    code, _, err = run("move", *arguments)
    assert (code, "name either --to URL or --abort" in err) == (2, True)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://host/name", "database_url must be sqlite:///FILE or postgresql://"),
        ("nonsense", "database_url must be sqlite:///FILE or postgresql://"),
    ],
)
def test_a_wrong_address_is_refused(project: Path, run: Run, url: str, said: str) -> None:
    run("chat", "hello Ann")
    code, _, err = run("move", "--to", url)
    assert (code, said in err) == (1, True), err
    assert run("tasks", "list")[0] == 0
