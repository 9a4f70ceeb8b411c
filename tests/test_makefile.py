"""The commands of the Makefile run each test once."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STORES = ("sqlite", "postgres")
TESTS = """
import pytest

@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_suite(store): ...

@pytest.mark.chaos
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_chaos(store): ...

@pytest.mark.conformance
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_conformance(store): ...

@pytest.mark.programs
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_programs(store): ...

@pytest.mark.programs
@pytest.mark.alone
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_alone(store): ...
"""
FOLDER = """
import pytest

def pytest_itemcollected(item):
    item.add_marker(pytest.mark.programs)
    item.add_marker(pytest.mark.chaos)
"""
KINDS = ("suite", "chaos", "conformance", "programs", "alone")


@pytest.mark.parametrize(
    ("extras", "expected"), [("sheets,google", "'.[sheets,google]'"), ("", 'test -z "" ||')]
)
def test_make_install_installs_the_extras_it_is_given(extras: str, expected: str) -> None:
    made = subprocess.run(
        ["/usr/bin/env", "make", "--dry-run", "install", f"EXTRAS={extras}", "PREFIX=/nowhere"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = [each for each in made.stdout.splitlines() if each.startswith("test -z")]
    assert expected in line


@pytest.mark.slow("starts pytest once for each command")
def test_make_check_and_make_test_run_every_test_exactly_once(tmp_path: Path) -> None:
    """In a small tree with a test of every kind; the commands are those of the real Makefile."""
    files = {
        "pytest.ini": "[pytest]\nmarkers =\n  programs\n  alone\n  peers\n  chaos\n  conformance\n"
        "addopts = --import-mode=importlib -p tests.kit.unread",
        "tests/test_shape.py": TESTS,
        "tests/store/test_a.py": TESTS,
        "tests/chaos/conftest.py": FOLDER,
        "tests/chaos/test_a.py": TESTS,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    ran = Counter(test for command in commands(tmp_path) for test in collected(command, tmp_path))
    kinds = [f"test_{kind}[{store}]" for kind in KINDS for store in STORES]
    homes = [name for name in files if name.endswith(("_a.py", "_shape.py"))]
    assert ran == {f"{home}::{kind}": 1 for home in homes for kind in kinds}


def commands(folder: Path) -> list[str]:
    """Return every line by which `make check` and `make test` start pytest."""
    make = [
        "/usr/bin/env",
        "make",
        "--dry-run",
        "--no-print-directory",
        "-f",
        str(ROOT / "Makefile"),
    ]
    fresh = ["-o", ".venv/dev", "-o", "blobs", f"BIN={Path(sys.executable).parent}"]
    done = subprocess.run(
        [*make, *fresh, "ARGS=--collect-only", "check", "test"],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return [line for line in done.stdout.splitlines() if " -m pytest " in line]


def collected(command: str, folder: Path) -> list[str]:
    """Return the tests that a command selects."""
    listed = command if "--collect-only" in command else f"{command} --collect-only"
    done = subprocess.run(
        ["/bin/sh", "-c", listed.replace(" -n auto", "").replace(" --dist loadfile", "")],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)},
    )
    return re.findall(r"^tests/\S+::\S+$", done.stdout, re.MULTILINE)
