"""Leaves files unread in which a run selects no test, so that no worker imports them.

To import all files and to make their 24,000 tests takes 6 s of CPU in each worker; the tests marked
`programs` are in a fifth of the files, those on Postgres in 33. A file is judged by its text:
`-m "not programs"` leaves it unread if its `pytestmark` or a conftest.py of its folders marks all
its tests, `-m programs` and `-k postgres` if neither its text nor such a conftest.py has the word.
Whatever else a run asks for is left to pytest.

Relies on: a test of a part says so in its own file, or in a conftest.py, and one that uses the
server of Postgres has that word in its name. Each run checks this for all tests which it reads,
those of other parts too, before pytest deselects them.
Proof: `tests/conformance/test_unread.py`, and `tests/test_makefile.py` for the Makefile.
"""

import re
from functools import cache
from pathlib import Path

import pytest

PARTS = ("programs", "alone", "peers", "chaos", "conformance")
WORDS = {part: rf"\bmark\.{part}\b" for part in PARTS} | {"postgres": r"(?i)postgres|database_url"}
WHOLE = re.compile(r"^pytestmark = .*(\n[ \])].*)*", re.MULTILINE)
SERVER = "postgres"
"""The fixture that starts Postgres, which takes 2 s of each worker that uses it."""
TERM = re.compile(r"(not )?(\w+)")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore a file in which the run selects nothing."""
    option = config.option
    return is_unread(collection_path, option.markexpr, option.keyword) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse a test of a part whose file does not say so: other runs would leave it unread.

    Names are checked in runs with `-k` alone, and not those of programs, which are never asked for.
    """
    asked = {word for _, word in terms(config.option.keyword)} & WORDS.keys()
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        if uses_server(item) and "programs" not in marks and SERVER not in item.name:
            raise pytest.UsageError(f"{item.nodeid} uses {SERVER!r}: put that word into its name")
        named = set() if "programs" in marks else {word for word in asked if word in item.name}
        for word in named | (marks & WORDS.keys()):
            if not mentions(item.path, word):
                raise pytest.UsageError(f"{item.nodeid} is one of {word!r}: say so in its file")


def uses_server(item: pytest.Item) -> bool:
    """Return whether a test asks for the server of Postgres by its fixtures."""
    return SERVER in getattr(item, "fixturenames", ())


def terms(expression: str) -> list[tuple[bool, str]]:
    """Return whether each word of an expression is wanted; nothing if it has more than words."""
    found = [TERM.fullmatch(term) for term in expression.split(" and ")]
    return [(not term[1], term[2]) for term in found if term] if all(found) else []


def is_unread(path: Path, marks: str, names: str) -> bool:
    """Return whether `-m` and `-k` leave nothing of a file."""
    if not path.match("test_*.py"):
        return False
    for is_wanted, word in [*terms(marks), *terms(names)]:
        if word in WORDS and is_wanted and not mentions(path, word):
            return True
        if word in PARTS and not is_wanted and marks_all(path, word):
            return True
    return False


def mentions(path: Path, word: str) -> bool:
    """Return whether a file, or a conftest.py of its folders, has what its part is known by."""
    return any(re.search(WORDS[word], text) for text in (text_of(path), *conftests(path.parent)))


def marks_all(path: Path, mark: str) -> bool:
    """Return whether every test of a file has a mark."""
    own = [match[0] for match in WHOLE.finditer(text_of(path))]
    return any(re.search(WORDS[mark], text) for text in (*own, *conftests(path.parent)))


@cache
def conftests(folder: Path) -> tuple[str, ...]:
    """Return the texts of conftest.py in a folder of `tests` and in those above it."""
    if folder.name == "tests" or folder == folder.parent:
        return ()
    own = folder / "conftest.py"
    return (*conftests(folder.parent), *([text_of(own)] if own.exists() else []))


@cache
def text_of(path: Path) -> str:
    """Return what is in a file."""
    return path.read_text("utf-8")
