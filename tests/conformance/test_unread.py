"""A run reads only the files in which it selects tests."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.unread import is_unread

ROOT = Path(__file__).parents[2]
IN_FOLDER = "def pytest_itemcollected(item): item.add_marker(pytest.mark.chaos)"
FILES = {
    "plain": "def test_a(): ...",
    "whole": "pytestmark = pytest.mark.programs\ndef test_a(): ...",
    "listed": "pytestmark = [\n    pytest.mark.slow('why'),\n    pytest.mark.programs,\n]",
    "partly": "pytestmark = pytest.mark.slow('x')\n@pytest.mark.programs\ndef test_a(): ...",
    "alone": "pytestmark = pytest.mark.programs\n@pytest.mark.alone\ndef test_a(): ...",
    "stores": "def test_a(database_url): ...",
}
NOT_PROGRAMS = {"plain", "partly", "stores", "chaos/inside"}


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    """A folder `tests` with a file of each kind."""
    folder = tmp_path / "tests"
    (folder / "chaos").mkdir(parents=True)
    (folder / "chaos" / "conftest.py").write_text(IN_FOLDER)
    (folder / "chaos" / "test_inside.py").write_text("def test_a(): ...")
    for name, text in FILES.items():
        (folder / f"test_{name}.py").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("marks", "names", "read"),
    [
        ("", "", {*FILES, "chaos/inside"}),
        ("not programs", "", NOT_PROGRAMS),
        ("not programs and not chaos", "not postgres", NOT_PROGRAMS - {"chaos/inside"}),
        ("programs", "", {"whole", "listed", "partly", "alone"}),
        ("programs and not alone", "", {"whole", "listed", "partly", "alone"}),
        ("alone", "", {"alone"}),
        ("chaos and not programs", "", {"chaos/inside"}),
        ("not programs", "postgres", {"stores"}),
        ("not programs or alone", "", {*FILES, "chaos/inside"}),
        ("slow", "a and b", {*FILES, "chaos/inside"}),
    ],
)
def test_a_run_reads_the_files_in_which_it_may_select_tests(
    marks: str, names: str, read: set[str], tests: Path
) -> None:
    found = [each for each in tests.rglob("*.py") if not is_unread(each, marks, names)]
    assert {
        str(each.relative_to(tests)).removesuffix(".py").replace("test_", "")
        for each in found
        if each.name != "conftest.py"
    } == read


@pytest.mark.parametrize(
    ("text", "arguments", "advice"),
    [
        (
            "pytestmark = getattr(pytest.mark, 'cha' + 'os')\ndef test_a(): ...",
            ["-m", "not chaos"],
            "say so in its file",
        ),
        (
            "@pytest.mark.parametrize('at', ['post' + 'gres'])\ndef test_a(at): ...",
            ["-k", "not postgres"],
            "say so in its file",
        ),
        (
            "@pytest.fixture\ndef postgres(): ...\ndef test_a(postgres): ...",
            [],
            "uses 'postgres': put that word into its name",
        ),
    ],
    ids=["mark", "name", "server"],
)
@pytest.mark.slow("runs pytest in a process of its own")
def test_a_test_of_a_part_whose_file_or_name_does_not_say_so_is_refused(
    text: str, arguments: list[str], advice: str, tests: Path
) -> None:
    (tests / "test_hidden.py").write_text(f"import pytest\n{text}")
    command = ["-m", "pytest", "-q", "-p", "tests.kit.unread", *arguments, "tests/test_hidden.py"]
    ended = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=tests.parent,
        env={"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    assert ended.returncode == pytest.ExitCode.USAGE_ERROR
    assert advice in ended.stderr
