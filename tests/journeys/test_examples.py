"""Every Python example of the documentation runs, in a new project."""

import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import penstock
from penstock.cli.authoring.init import init

pytestmark = pytest.mark.programs
ROOT = Path(penstock.__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


def examples() -> list[tuple[str, str]]:
    """Return the blocks of every page, each with its page and line."""
    collected = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in BLOCK.finditer(text):
            line = text.count("\n", 0, block.start()) + 1
            collected.append((f"{page.relative_to(ROOT)}:{line}", textwrap.dedent(block[2])))
    return collected


CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
"""Brackets in code are no links: `Agent[int](...)` is a call."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_has_a_target(page: Path) -> None:
    prose = CODE.sub("", page.read_text(encoding="utf-8"))
    links = re.findall(r"\]\((?!https?:)([^)#]*)(?:#[^)]*)?\)", prose)
    assert [link for link in links if link and not (page.parent / link).exists()] == []


def test_the_documentation_has_examples() -> None:
    assert len(examples()) > 5


INSIDE = ("docs/packages/", "docs/sandbox.md", "docs/howto/change.md")
"""Pages for people who change penstock; all others are for people who use it."""
PUBLIC = {"penstock", "penstock.evals", "penstock.testing"}


def test_examples_for_users_import_public_names_alone() -> None:
    deep = {
        f"{place}: {module}"
        for place, code in examples()
        for module in re.findall(r"^\s*(?:from|import) (penstock[\w.]*)", code, re.MULTILINE)
        if module not in PUBLIC and not place.startswith(INSIDE)
    }
    assert not deep


@pytest.mark.slow(reason="starts a process for each example")
@pytest.mark.parametrize(("place", "code"), examples(), ids=[place for place, _ in examples()])
def test_every_example_runs(place: str, code: str, tmp_path: Path) -> None:
    init(tmp_path)
    if "SIGKILL" in code:
        assert _run(code, tmp_path).returncode == -signal.SIGKILL
    ran = _run(code, tmp_path)
    assert ran.returncode == 0, f"{place}\n{ran.stdout}\n{ran.stderr}"


@pytest.mark.slow(reason="starts a process")
def test_the_example_that_kills_itself_pays_once(tmp_path: Path) -> None:
    (code,) = [code for _, code in examples() if "SIGKILL" in code]
    runs = [_run(code, tmp_path).returncode for _ in range(3)]
    assert runs == [-signal.SIGKILL, 0, 0]
    assert (tmp_path / "paid.txt").read_text() == "7\n"


def _run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=30
    )


@pytest.mark.slow(reason="opens a project twenty times")
def test_the_example_of_streaming_prints_the_answer_every_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answer may be whole before the program begins to read it."""
    init(tmp_path)
    monkeypatch.chdir(tmp_path)
    (code,) = [
        code
        for place, code in examples()
        if place.startswith("docs/howto/embed.md:") and "async for event in run:" in code
    ]
    capsys.readouterr()
    for _ in range(20):
        exec(compile(code, "embed.md", "exec"), {})  # noqa: S102  what the page says
        assert capsys.readouterr().out.startswith("I cannot call `hello` yet")
