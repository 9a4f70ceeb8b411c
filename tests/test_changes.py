"""docs/howto/change.md names the files of ten changes: no other file has its examples."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/howto/change.md"
CODE = {".py", ".pyi", ".js", ".ts", ".mjs", ".html", ".md"}
WORD = re.compile(r"`([^`]+)`")
ROW = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)


def changes() -> Mapping[str, str]:
    """Return the changes of the page: heading -> text."""
    parts = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return {part.split("\n", 1)[0]: part for part in parts}


CHANGES = changes()


def example_of(change: str) -> re.Pattern[str]:
    """Return a pattern for the names of the example: `Example: ...`, up to the full stop."""
    (line,) = re.findall(r"^Example: (.*?)\.(?: |$)", CHANGES[change], re.MULTILINE)
    names = map(re.escape, WORD.findall(line))
    return re.compile(rf"(?<![\w-])(?:{'|'.join(names)})(?!\w)")


def has(path: Path, example: re.Pattern[str]) -> bool:
    name = path.stem.removeprefix("test_")
    return bool(example.fullmatch(name) or example.search(path.read_text()))


def test_the_page_has_ten_changes() -> None:
    assert len(CHANGES) == 10


@pytest.mark.parametrize("change", CHANGES)
def test_every_listed_file_has_the_example(change: str) -> None:
    example, files = example_of(change), ROW.findall(CHANGES[change])
    assert len(files) > 1
    assert [file for file in files if not has(ROOT / file, example)] == []


@pytest.mark.slow("reads every file of the package")
@pytest.mark.parametrize("change", CHANGES)
def test_no_other_file_of_the_package_has_the_example(change: str) -> None:
    example, files = example_of(change), set(ROW.findall(CHANGES[change]))
    code = (path for path in (ROOT / "penstock").rglob("*") if path.suffix in CODE)
    having = {path.relative_to(ROOT).as_posix() for path in code if has(path, example)}
    assert having - files == set()
