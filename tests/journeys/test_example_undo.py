"""The undo of docs/undo.md: its commands, run on the example shop, print what the page shows."""

import io
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

import penstock
from penstock.cli.main import main

ROOT = Path(penstock.__file__).parents[1]
PAGE = (ROOT / "docs/undo.md").read_text(encoding="utf-8")
TASK = re.compile(r"task_[0-9a-z]+")
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


@pytest.fixture
def shop(tmp_path: Path, machine_code: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the example project, as the current folder."""
    place = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", place, ignore=shutil.ignore_patterns(".penstock"))
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(machine_code))
    monkeypatch.chdir(place)
    return place


def steps() -> Iterator[tuple[str, str]]:
    """Yield the commands of the section about the example shop, with what it shows below each."""
    section = PAGE.partition("## An order of the example shop\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"^```text\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def printed(command: str) -> str:
    """Do what a line says; returns what a terminal shows of it."""
    out, err = io.StringIO(), io.StringIO()
    name, *arguments = shlex.split(command)
    assert name == "penstock"
    with redirect_stdout(out), redirect_stderr(err):
        assert main(arguments) == 0
    return out.getvalue() + err.getvalue()


def lines(text: str) -> list[str]:
    """Return the lines of a text, without ids, times and the widths of columns."""
    plain = TIME.sub("TIME", TASK.sub("TASK", text))
    return [" ".join(line.split()) for line in plain.splitlines() if line.strip()]


@pytest.mark.slow("runs five commands, with scripts in the sandbox")
def test_an_undo_of_the_example_shop_prints_what_the_page_shows(shop: Path) -> None:
    """An order of four calls is taken back.

    Issue 13: "`penstock undo` on the example shop takes back an order of four calls and says
    which e-mail it cannot take back."
    """
    task = ""
    for command, shown in steps():
        said = printed(TASK.sub(task, command))
        assert lines(said) == lines(shown), command
        task = next(iter(TASK.findall(said)), task)
