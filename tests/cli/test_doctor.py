"""What is installed, reachable, misconfigured."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.main import main

Run = Callable[..., tuple[int, str, str]]


def test_a_new_project_is_fine(run: Run, run_json: Callable[..., Any]) -> None:
    code, out, _ = run("doctor")
    assert code == 0
    assert "✓ model offline: offline offline (the default)" in out
    assert "✓ database: " in out
    assert "✓ events: " in out
    assert "✓ ready: database, migrations, disk, blobs: all work" in out
    assert run_json("doctor")["ok"] is True


def test_lists_are_made_anew_from_the_logs(run: Run, run_json: Callable[..., Any]) -> None:
    run("chat", "hello name=Ann")
    before = run_json("tasks", "list")
    assert "✓ lists: made anew from 1 logs" in run("doctor", "--rebuild")[1]
    assert run_json("tasks", "list") == before


WRONG = [
    ("penstock.toml", "x = 1", "✗ project: penstock.toml:1: x is not a setting."),
    ("agents/bad.md", "", "✗ file: agents/bad.md:1:1: error no-front-matter: "),
    ("agents/a.md", "---\nname: a\nmodel: fst\n---\n", "✗ model fst: there is no model 'fst'."),
    (
        "penstock.toml",
        '[models]\ndefault = "m"\n[models.m]\nprovider = "openai"\nmodel = "m"\n',
        "✗ model m: the model 'm' needs a key",
    ),
    (
        "penstock.toml",
        '[models.m]\nprovider = "openai"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\n',
        "✗ model m: openai m; nobody answers at http://127.0.0.1:9/v1: ",
    ),
    ("penstock.toml", "[limits]\nfree_bytes = 4611686018427387904\n", "✗ disk: "),
    (".penstock/penstock.db", "no database", "✗ database: sqlite:///"),
]


@pytest.mark.parametrize(("file", "text", "said"), WRONG)
def test_what_is_wrong_is_named_and_ends_with_one(
    run: Run, project: Path, file: str, text: str, said: str
) -> None:
    (project / file).parent.mkdir(exist_ok=True)
    (project / file).write_text(text)
    code, out, _ = run("doctor")
    assert code == 1
    assert said in out


def test_where_there_is_no_project_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["doctor"]) == 1
    assert "Make one with `penstock init`" in capsys.readouterr().out
