"""Type checkers infer what agents need and return, and report what is wrong.

`tests/assets/typing/surface.txt` has a line for each inference; a line that ends in `# E` must be
an error in every checker.
"""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.programs,
    pytest.mark.slow(reason="each checker reads the whole package", seconds=300),
]
ROOT = Path(__file__).parents[2]
SURFACE = (ROOT / "tests/assets/typing/surface.txt").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent
PYRIGHT = """{"typeCheckingMode": "strict", "reportPrivateUsage": false, "reportUnusedExpression":
false, "reportUnusedCallResult": false, "extraPaths": ["%s"], "venvPath": "%s", "venv": ".venv"}"""


def mypy(file: Path) -> list[str]:
    cache = f"--cache-dir={ROOT / '.mypy_cache/typed_surface'}"
    return ["mypy", "--strict", "--config-file=", cache, str(file)]


def pyright(file: Path) -> list[str]:
    config = file.with_name("pyrightconfig.json")
    config.write_text(PYRIGHT % (ROOT, ROOT), encoding="utf-8")
    return ["basedpyright", "--level", "error", "--project", str(config), str(file)]


def pyrefly(file: Path) -> list[str]:
    config = file.with_name("pyrefly.toml")  # without one, only some kinds of errors are reported
    paths = f'search-path = ["{ROOT}"]\npython-interpreter-path = "{sys.executable}"\n'
    config.write_text(f'preset = "default"\n{paths}', encoding="utf-8")
    return ["pyrefly", "check", "-c", str(config), "--output-format", "min-text", str(file)]


@pytest.mark.parametrize("checker", [mypy, pyright, pyrefly], ids=lambda each: each.__name__)
def test_every_inference_and_every_error_is_as_written(
    checker: Callable[[Path], list[str]], tmp_path: Path
) -> None:
    file = tmp_path / "surface.py"
    file.write_text(SURFACE, encoding="utf-8")
    name, *arguments = checker(file)
    ran = subprocess.run(
        [str(BIN / name), *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    lines = SURFACE.splitlines()
    wanted = {number for number, line in enumerate(lines, 1) if line.endswith("# E")}
    if checker is mypy:
        wanted |= {number for number, line in enumerate(lines, 1) if line.endswith("# not mypy")}
    reported = {
        int(found[1]): line
        for line in ran.stdout.splitlines()
        if (found := re.search(r"surface\.py:(\d+)", line)) and "note:" not in line
    }
    differences = [
        f"{number}: {lines[number - 1].strip()}\n    {reported.get(number, 'no error')}"
        for number in sorted(wanted ^ reported.keys())
    ]
    assert not differences, "\n".join(differences)


def test_the_file_has_enough_to_check() -> None:
    assert SURFACE.count("assert_type(") >= 99
    assert SURFACE.count("# E\n") >= 34
