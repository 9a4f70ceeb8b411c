"""Parts of a runtime are complete once they are constructed."""

import ast
from pathlib import Path

import pytest

APP = Path(__file__).parents[1] / "penstock" / "app"


def foreign_assignments(text: str) -> list[str]:
    """Return each assignment to an attribute of an object that the function did not make."""
    found = []
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            own = {"self", "cls", *_local_names(function)}
            found += [
                f"line {target.lineno}: {ast.unparse(target)}"
                for target in _targets(function)
                if not (isinstance(target.value, ast.Name) and target.value.id in own)
            ]
    return found


def _targets(function: ast.AST) -> list[ast.Attribute]:
    assigned: list[ast.expr] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            assigned += node.targets
        if isinstance(node, ast.AugAssign | ast.AnnAssign):
            assigned.append(node.target)
    flat = [each for target in assigned for each in ast.walk(target)]
    return [each for each in flat if isinstance(each, ast.Attribute) and _is_stored(each)]


def _is_stored(attribute: ast.Attribute) -> bool:
    return isinstance(attribute.ctx, ast.Store)


def _local_names(function: ast.AST) -> set[str]:
    """Return the names that the function assigns, but not those of its parameters."""
    stored = (node for node in ast.walk(function) if isinstance(node, ast.Name))
    return {node.id for node in stored if isinstance(node.ctx, ast.Store)}


@pytest.mark.parametrize("path", sorted(APP.rglob("*.py")), ids=lambda path: path.stem)
def test_nothing_is_assigned_to_a_part_from_outside(path: Path) -> None:
    """A port that a part needs is an argument of its constructor; see `app/wiring.py`."""
    assert foreign_assignments(path.read_text()) == []


CASES = {
    "a port is filled later": ("def f(parts): parts.inbox.wake = 1", 1),
    "a parameter is changed": ("def f(part): part.wake = 1", 1),
    "several at once": ("def f(a): a.b, a.c = 1, 2", 2),
    "it is counted up": ("def f(a): a.b += 1", 1),
    "an own attribute": ("class A:\n def f(self): self.b = 1", 0),
    "an own value": ("def f():\n a = A()\n a.b = 1", 0),
}


@pytest.mark.parametrize(("text", "count"), CASES.values(), ids=list(CASES))
def test_the_rule_finds_assignments(text: str, count: int) -> None:
    assert len(foreign_assignments(text)) == count
