"""Checks the types of examples/, of the Python blocks of the docs and of a typed program.

mypy checks the code; people who write tools use pyright in their editors. basedpyright is the same
checker with its node in a wheel, so that nothing is fetched outside of the package index.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CHECKED = [
    ROOT / "examples",
    ROOT / "bench/recipes/penstock",
    ROOT / "tests/promises/test_typed_program.py",
]
BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
STRICT = {"typeCheckingMode": "strict", "reportMissingModuleSource": False}


def main() -> int:
    """Print every finding with its file or page, and its line; return how checks end."""
    with TemporaryDirectory() as folder:
        homes = {str(file): page for file, page in write_blocks(Path(folder))}
        found = findings(Path(folder))
    for each in found:
        at = each["range"]["start"]
        print(f"{homes.get(each['file'], each['file'])}:{at['line'] + 1}: {each['message']}")
    return int(bool(found))


def write_blocks(folder: Path) -> Iterator[tuple[Path, str]]:
    """Write each block to a file, at the line it has in its page; yield it with the page."""
    for page in PAGES:
        text, name = page.read_text(encoding="utf-8"), str(page.relative_to(ROOT))
        for block in BLOCK.finditer(text):
            above = text.count("\n", 0, block.start()) + 1
            file = (folder / f"{name.replace('/', '_')}_{above}.py").resolve()
            file.write_text("\n" * above + dedent(block[2]), encoding="utf-8")
            yield file, name


def findings(folder: Path) -> list[dict[str, Any]]:
    """Return what pyright says of a folder and of our own files."""
    settings = {
        **STRICT,
        "include": [str(folder), *map(str, CHECKED)],
        "extraPaths": [str(ROOT)],
        "venvPath": str(ROOT),
        "venv": ".venv",
    }
    file = folder / "pyrightconfig.json"
    file.write_text(json.dumps(settings), encoding="utf-8")
    checker = Path(sys.executable).with_name("basedpyright")
    command = [str(checker), "--outputjson", "--project", str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        said = json.loads(ran.stdout)
    except ValueError:
        sys.exit(f"basedpyright did not run: {ran.stdout}{ran.stderr}")
    if not said["summary"]["filesAnalyzed"]:
        sys.exit("basedpyright found no file to check")
    return [each for each in said["generalDiagnostics"] if each["severity"] != "information"]


if __name__ == "__main__":
    sys.exit(main())
