"""Names in one package differ by more than a plural ending."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "penstock"
PACKAGES = sorted(home.parent for home in SOURCE.glob("*/__init__.py"))


def public_names(module: ast.Module) -> Iterator[str]:
    """Yield the top-level classes, functions and type aliases of a file."""
    for node in module.body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                names = [name]
            case ast.AsyncFunctionDef(name=name):
                names = [name]
            case ast.Assign(targets=[ast.Name(id=name)]) if is_alias(name):
                names = [name]
            case _:
                names = []
        yield from (each for each in names if not each.startswith("_"))


def is_alias(name: str) -> bool:
    """Whether a variable is named as a type is; constants and loggers are not."""
    return name[0].isupper() and not name.isupper()


def plurals(name: str) -> set[str]:
    """Return the forms that a reader could take for the plural of a name."""
    return {f"{name}s", f"{name}es", f"{name.removesuffix('y')}ies"}


def pairs(texts: Iterable[str]) -> list[str]:
    """Return each name of these files whose plural is a name too."""
    names = {name for text in texts for name in public_names(ast.parse(text))}
    return [f"{name}, {other}" for name in sorted(names) for other in plurals(name) & names]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_no_two_names_of_a_package_differ_by_the_plural_alone(package: Path) -> None:
    """`Rule` and `Rules` are one word in a search, and one slip apart in a line of code."""
    assert pairs(path.read_text() for path in package.rglob("*.py")) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("class Rule: ...", "class Rules: ..."),
        ("Rule = tuple[int, str]", "class Rules: ..."),
        ("def run(): ...", "async def runs(): ..."),
        ("class Box: ...", "class Boxes: ..."),
        ("def entry(): ...", "def entries(): ..."),
    ],
)
def test_a_pair_is_found_across_files(one: str, other: str) -> None:
    assert len(pairs([one, other])) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("class Rule: ...", "class RuleSet: ..."),
        ("class Rule: ...", "RULES = 1"),
        ("class _Rule: ...", "class Rules: ..."),
        ("log = 1", "def logs(): ..."),
    ],
)
def test_other_names_are_allowed(one: str, other: str) -> None:
    assert pairs([one, other]) == []
