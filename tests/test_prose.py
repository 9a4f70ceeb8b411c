"""Prose is plain English: words of a private dialect are gone, and hard code tells its reasons."""

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow("reads every file")
ROOT = Path(__file__).parents[1]
PROSE = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["shape"]["prose"]
OLD_WORDS = (
    *("for who", "let who", "to who", "of who", "who waits", "is told", "are told", "hears of"),
    *("is heard of", "stands in", "stands beside", "amounts to", "comes to nothing", "in vain"),
    *("at hand", "heeds", "of old", "anew", "besides", "each of them that", "what is wrong with"),
    *("gives back", "takes up", "goes on with", "is spoken", "is begun", "are begun", "nobody"),
    *("becomes of", "became of", "whoever", "in hand", "begun", "stands"),
    *("given back", "passed over", "learns of", "whose turn", "again and again", "for want of"),
)
"""Phrases with a plain word of the field in their place; the list grows as others are met."""
FOUND = re.compile(rf"\b(?:{'|'.join(OLD_WORDS)})\b", re.IGNORECASE)
RIDDLE = re.compile(r'^\s*r?"""(?:What|Who|Whom)\b.*', re.MULTILINE)
"""A docstring without a noun as its subject: "What a step needs" for "The inputs of a step"."""
IS_NO = re.compile(r"\b(?<!there\s)is\s+no\b(?!\s+longer)", re.IGNORECASE)
"""A claim such as `is no file` is written `is not a file`; `there is no file` is right."""
READ = {".py", ".md", ".js", ".ts", ".toml", ".yaml"}
QUOTED = re.compile(r'"[^"\n]*"|`[^`\n]*`')
"""What a page of the specification or a program says is quoted as it is."""


def prose_of(path: Path) -> str:
    """Return the words of a file for people: all of a page or a script; of Python, what is no code.

    Texts of tests are data, so of tests only comments and docstrings count.
    """
    text = path.read_text()
    if path.suffix != ".py":
        return QUOTED.sub("", text)
    return "\n".join(_spoken(text, is_test="tests" in path.parts))


def _spoken(text: str, *, is_test: bool) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
        if token.type == tokenize.STRING:
            is_docstring = '"""' in token.string
            if is_docstring or not is_test:
                yield QUOTED.sub("", token.string[1:]) if is_docstring else token.string


def pages_and_code() -> list[Path]:
    folders = ("penstock", "scripts", "bench", "examples", "docs")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    prose = [path for path in files if path.suffix in READ]
    tests = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    return sorted([*prose, *tests, *ROOT.glob("*.md"), ROOT / "Makefile", ROOT / "pyproject.toml"])


def test_no_phrase_of_the_list_is_left() -> None:
    """`old_words` in pyproject.toml is the number that is allowed."""
    found = {
        path.relative_to(ROOT).as_posix(): hits
        for path in pages_and_code()
        if (hits := FOUND.findall(prose_of(path)))
    }
    count = sum(map(len, found.values()))
    worst = sorted(found.items(), key=lambda item: -len(item[1]))[:10]
    assert count <= PROSE["old_words"], "\n".join(f"{path}: {hits}" for path, hits in worst)


def test_docstrings_begin_with_the_noun_or_the_verb_that_they_describe() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): hits
        for path in (ROOT / "penstock").rglob("*.py")
        if (hits := RIDDLE.findall(path.read_text()))
    }
    assert found == {}


RIDDLES = {
    '"""What a step needs."""': 1,
    'class A:\n    """Who calls a tool."""': 1,
    'r"""Whom it blames."""\nx = 1\n"""What x is."""': 2,
    '"""Whole or in pieces."""': 0,
    '"""Return what a step needs."""': 0,
}


@pytest.mark.parametrize(("text", "count"), RIDDLES.items())
def test_a_docstring_that_begins_with_what_or_who_is_found(text: str, count: int) -> None:
    ast.parse(text)
    assert len(RIDDLE.findall(text)) == count


def test_texts_of_penstock_say_that_something_is_not_a_thing() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): len(hits)
        for path in (ROOT / "penstock").rglob("*.py")
        if (hits := IS_NO.findall(prose_of(path)))
    }
    assert not found


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("'a' is no tool id", True),
        ("the text is\nno JSON", True),
        ("There is no tool 'a'", False),
        ("the lease is no longer held", False),
        ("the text is not JSON", False),
    ],
)
def test_is_no_is_refused_except_after_there(text: str, is_refused: bool) -> None:
    assert bool(IS_NO.search(text)) is is_refused


@pytest.mark.parametrize("package", sorted(PROSE["comments"]))
def test_mechanisms_state_their_reasons(package: str) -> None:
    """Comments say why: an ordering, a race that is closed, a measured cost, what failed."""
    lines = comments = 0
    for path in (ROOT / "penstock" / package).rglob("*.py"):
        text = path.read_text()
        lines += text.count("\n")
        comments += sum(1 for _ in _comment_lines(text))
    assert 1000 * comments >= PROSE["comments"][package] * lines, f"{comments} in {lines} lines"


def _comment_lines(text: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not re.match(r"# (noqa|type:|---)", token.string):
            yield token.string


CASES = {
    "a docstring": ('"""Let who waits in."""', 1),
    "a comment": ("x = 1  # it is told to nobody", 2),
    "a message": ('raise E("goes on with it")', 1),
    "a name": ("nobody = 1", 0),
    "what is quoted": ('"""The page: "nobody is asked"."""', 0),
    "plain words": ('"""Return the newest event."""', 0),
}


@pytest.mark.parametrize(("text", "count"), CASES.values(), ids=list(CASES))
def test_old_words_are_found_only_in_prose(tmp_path: Path, text: str, count: int) -> None:
    ast.parse(text)
    (tmp_path / "a.py").write_text(text + "\n")
    assert len(FOUND.findall(prose_of(tmp_path / "a.py"))) == count
