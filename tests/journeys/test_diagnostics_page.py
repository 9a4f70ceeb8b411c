"""The page of diagnostics has every code of the source, and no other."""

import re
from functools import cache
from pathlib import Path

import pytest

import penstock
from penstock.flows.steps.table import KINDS

pytestmark = pytest.mark.conformance

SOURCE = Path(penstock.__file__).parent
PAGE = (SOURCE.parent / "docs" / "diagnostics.md").read_text(encoding="utf-8")
PLACES = (
    *("manifest/**/*.py", "flows/*.py", "flows/checks/**/*.py", "flows/steps/*.py"),
    *("flows/project/files.py", "flows/dry_run/*.py"),
    *("agents/agent_*.py", "tools/python/*.py", "sandbox/compiler/*.py"),
    *("app/script_sandbox.py", "app/global_tools.py", "app/project.py", "app/agent_warnings.py"),
    "app/script_types/type_check.py",
)
"""Modules that yield findings."""
MADE = {f"duplicate-{noun}" for noun in ("skill", "permission", "group")}
"""Codes that are formed from a noun."""
OTHERS = {
    *("utf-8", "utf-16-le", "angle-bracket", "built-in", "flow-architect"),
    *("project-dir", "unix-time", "flow-decision"),
    *("typed-dict-version", "trailing-strings"),  # words of pydantic
    *KINDS,
}
"""Texts of the same form that are not codes."""


@cache
def codes() -> frozenset[str]:
    """Return every text that has the form of a code."""
    files = (file for place in PLACES for file in sources(place))
    texts = (file.read_text(encoding="utf-8") for file in files)
    return frozenset(name for text in texts for name in re.findall(r'"([a-z]+(?:-[a-z]+)+)"', text))


def sources(place: str) -> list[Path]:
    """Return the files that a pattern finds, which are some."""
    files = [*SOURCE.glob(place)]
    assert files, f"{place} finds no file of penstock: name the files that yield findings now"
    return files


def listed() -> list[str]:
    """Return the codes of the page."""
    return re.findall(r"^\| `([a-z-]+)` \| (?:error|warning) \|", PAGE, re.MULTILINE)


def test_every_code_is_on_the_page() -> None:
    missing = sorted({*codes(), *MADE} - set(listed()) - OTHERS)
    assert missing == [], "add a row for each to docs/diagnostics.md"


def test_every_row_is_a_code_and_occurs_once() -> None:
    assert sorted(set(listed()) - codes() - MADE - {"hidden"}) == []
    assert len(listed()) == len(set(listed()))
