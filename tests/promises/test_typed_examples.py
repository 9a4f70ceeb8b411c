"""Every Python example of the documentation type-checks in mypy and pyrefly.

`make check` runs pyright over the same programs (`scripts/typed_examples.py`).
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.typed_examples import CHECKED, ROOT, write_blocks

pytestmark = [
    pytest.mark.programs,
    pytest.mark.slow(reason="each checker reads the whole package", seconds=300),
]
OWN = sorted(
    str(each) for path in CHECKED for each in [path, *path.rglob("*.py")] if each.is_file()
)


def mypy(folder: Path) -> list[str]:
    """In a run of its own for each folder: two programs may have one name."""
    cache = f"--cache-dir={ROOT / '.mypy_cache/typed_examples'}"
    return ["mypy", "--strict", "--config-file=", "--explicit-package-bases", cache]


def pyrefly(folder: Path) -> list[str]:
    config = folder / "pyrefly.toml"
    paths = f'search-path = ["{ROOT}"]\npython-interpreter-path = "{sys.executable}"\n'
    config.write_text(f'preset = "default"\n{paths}', encoding="utf-8")
    return ["pyrefly", "check", "-c", str(config), "--output-format", "min-text"]


@pytest.mark.parametrize("checker", [mypy, pyrefly], ids=lambda each: each.__name__)
def test_every_example_type_checks(checker: Callable[[Path], list[str]], tmp_path: Path) -> None:
    blocks = [str(file) for file, _ in write_blocks(tmp_path)]
    assert (len(blocks) > 30, len(OWN) > 10) == (True, True)
    name, *options = checker(tmp_path)
    bin_folder = Path(sys.executable).parent
    for files in (blocks, OWN):
        command = [str(bin_folder / name), *options, *files]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
