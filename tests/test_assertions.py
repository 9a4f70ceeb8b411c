"""Every test asserts something: a test that cannot fail shows nothing."""

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.slow("parses every test file")
ROOT = Path(__file__).parents[1]
CHECKS = frozenset({"raises", "warns", "fail"})
"""Functions of pytest that fail a test."""
Function = ast.FunctionDef | ast.AsyncFunctionDef
Asserting = Mapping[str, set[str]]
"""The functions of each module of `tests` that assert."""


class Body(NamedTuple):
    """What a function does, as far as it can fail a test."""

    name: str
    has_assert: bool
    plain: set[str]
    """The names that it calls."""
    methods: set[str]
    """The last parts of the dotted names that it calls."""


class Module(NamedTuple):
    """The functions of a test file, nested ones and methods too, and what it imports."""

    bodies: list[Body]
    imports: list[tuple[str, str, str]]
    """The module, the name there, and the name here."""


def read(text: str) -> Module:
    """Return what a file has."""
    tree = ast.parse(text)
    nodes = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return Module(
        [body_of(node) for node in ast.walk(tree) if isinstance(node, Function)],
        [
            (node.module or "", each.name, each.asname or each.name)
            for node in nodes
            for each in node.names
        ],
    )


def body_of(function: Function) -> Body:
    """Return the calls of a function."""
    nodes = list(ast.walk(function))
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    return Body(
        function.name,
        any(isinstance(node, ast.Assert) for node in nodes),
        {each.id for each in called if isinstance(each, ast.Name)},
        {each.attr for each in called if isinstance(each, ast.Attribute)},
    )


def asserting(module: Module, others: Asserting) -> set[str]:
    """Return the functions of a file that assert, or call one that does."""
    plain = {here for home, name, here in module.imports if name in others.get(home, ())} | CHECKS
    own: set[str] = set()
    while True:
        more = {
            each.name
            for each in module.bodies
            if each.has_assert or (plain | own) & each.plain or (CHECKS | own) & each.methods
        }
        if more == own:
            return own
        own = more


def empty_tests(module: Module, others: Asserting) -> list[str]:
    """Return the tests of a file that assert nothing."""
    own = asserting(module, others)
    names = [each.name for each in module.bodies]
    return [name for name in names if name.startswith("test_") and name not in own]


def test_every_test_asserts_something() -> None:
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): read(path.read_text())
        for path in sorted((ROOT / "tests").rglob("*.py"))
    }
    found: dict[str, set[str]] = {}
    while (more := {name: asserting(each, found) for name, each in modules.items()}) != found:
        found = more
    empty = [f"{name}: {test}" for name in modules for test in empty_tests(modules[name], found)]
    assert empty == [], "\n".join(empty)


HELPER = "from tests.kit.x import {}\ndef test_x():\n    {}(1)"


@pytest.mark.parametrize(
    ("text", "is_empty"),
    [
        ("def test_x():\n    do()", True),
        ("def test_x():\n    raise ValueError", True),
        ("def test_x():\n    assert do()", False),
        ("def test_x():\n    with pytest.raises(ValueError):\n        do()", False),
        ("def check(x):\n    assert x\ndef test_x():\n    check(1)", False),
        ("def check(x):\n    return x\ndef test_x():\n    check(1)", True),
        ("def a(x):\n    assert x\ndef b(x):\n    a(x)\ndef test_x():\n    b(1)", False),
        ("class X:\n    def test_x(self):\n        do()", True),
        (HELPER.format("checks", "checks"), False),
        (HELPER.format("checks as same", "same"), False),
        (HELPER.format("waits", "waits"), True),
    ],
)
def test_an_empty_test_is_found(text: str, is_empty: bool) -> None:
    assert empty_tests(read(text), {"tests.kit.x": {"checks"}}) == ["test_x"] * is_empty
