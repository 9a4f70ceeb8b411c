"""Parts of a runtime are complete once they are constructed."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

APP = Path(__file__).parents[1] / "penstock" / "app"
OWN = {"self", "cls"}
FILLED = {
    "mocks.py": {"failure"},
    "run_feed.py": {"visit"},
    "settings.py": {"settings"},
}
"""Values that their own file fills: file -> names. No part of a runtime is among them."""


def foreign_assignments(text: str, filled: frozenset[str] = frozenset()) -> list[str]:
    """Return each assignment to an attribute of an object other than `self`."""
    tree = ast.parse(text)
    found = [*_targets(tree), *_setters(tree)]
    return [
        f"line {owner.lineno}: {ast.unparse(owner)}"
        for owner in found
        if not (isinstance(owner, ast.Name) and owner.id in OWN | filled)
    ]


def _targets(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the object of each attribute that is stored or deleted."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield node.value


def _setters(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the object of each `setattr` and `object.__setattr__`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("setattr", "setattr__")):
            yield node.args[0]


@pytest.mark.parametrize("path", sorted(APP.rglob("*.py")), ids=lambda path: path.stem)
def test_nothing_is_assigned_to_a_part_from_outside(path: Path) -> None:
    """A port that a part needs is an argument of its constructor; see `app/wiring.py`."""
    filled = frozenset(FILLED.get(path.name, ()))
    assert foreign_assignments(path.read_text(), filled) == []


CASES = {
    "a port is filled later": ("def f(parts): parts.inbox.wake = 1", 1),
    "a parameter is changed": ("def f(part): part.wake = 1", 1),
    "several at once": ("def f(a): a.b, a.c = 1, 2", 2),
    "it is counted up": ("def f(a): a.b += 1", 1),
    "a part that was just made": ("def f():\n a = A()\n a.b = 1", 1),
    "a part of a part under a new name": ("def f(w):\n p = w.parts\n p.x = 1", 1),
    "by setattr": ("def f(w): setattr(w, 'x', 1)", 1),
    "by object.__setattr__": ("def f(w): object.__setattr__(w, 'x', 1)", 1),
    "at the top of a module": ("import a\na.b = 1", 1),
    "an own attribute": ("class A:\n def f(self): self.b = 1", 0),
    "an own attribute by setattr": ("class A:\n def f(self): setattr(self, 'b', 1)", 0),
}


@pytest.mark.parametrize(("text", "count"), CASES.values(), ids=list(CASES))
def test_the_rule_finds_assignments(text: str, count: int) -> None:
    assert len(foreign_assignments(text)) == count
