"""Counts the recipes: lines, imported modules, and names taken from the framework.

    python -m bench.recipes.count

A line counts if it holds code: blank lines, comments and the docstring of the file do not. A module
counts once, however many names come from it. A name counts once: what is imported from the
framework, and every attribute and keyword that the program does not define itself.
"""

import ast
import asyncio
import builtins
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RECIPES = Path(__file__).parent
FRAMEWORKS = {
    "penstock": "penstock",
    "pydantic_ai": "Pydantic AI 2.68",
    "openai_agents": "OpenAI Agents 0.24",
}
"""Folder -> the name of the framework."""
NAMES = {
    "typed_output": "Typed output",
    "tool_with_dependency": "A tool with a dependency",
    "approval": "Approval",
    "streaming": "Streaming",
    "history": "History",
    "image": "An image",
    "sub_agent": "A sub-agent",
    "fallback": "Fallback",
    "eval": "An evaluation",
    "test_refund": "A test",
}
"""File -> the title of the recipe."""
ROOTS = {"penstock", "pydantic_ai", "pydantic_evals", "agents", "openai"}
"""Packages whose names are names of a framework."""
OF_PYTHON = {
    *("end", "flush", "read_bytes"),
    *(name for each in (asyncio, builtins, bytes, dict, list, str) for name in dir(each)),
}
"""Attributes and keywords of Python itself."""


@dataclass(frozen=True, slots=True)
class Count:
    """The size of a program."""

    lines: int
    modules: int
    names: int

    def __add__(self, other: "Count") -> "Count":
        """Return the sum of two programs."""
        return Count(
            self.lines + other.lines, self.modules + other.modules, self.names + other.names
        )

    def __str__(self) -> str:
        """Return the three figures."""
        return f"{self.lines} / {self.modules} / {self.names}"


def source(framework: str, name: str) -> str:
    """Return a recipe without the docstring of the file."""
    text = (RECIPES / framework / f"{name}.py").read_text(encoding="utf-8")
    return text.partition('"""\n\n')[2]


def count(text: str) -> Count:
    """Count a program."""
    module = ast.parse(text)
    nodes = list(ast.walk(module))
    code = [line for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    modules = {name for node in nodes for name in _modules(node)}
    defined = {
        name
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for name in (node.name, *_fields(node))
    }
    names = {name for node in nodes for name in _names(node)} - defined - OF_PYTHON
    return Count(len(code), len(modules), len(names))


def counts() -> dict[str, dict[str, Count]]:
    """Return the counts of every recipe: its file -> framework -> count."""
    return {name: {each: count(source(each, name)) for each in FRAMEWORKS} for name in NAMES}


def table() -> str:
    """Return the counts as a table of Markdown."""
    rows = counts()
    head = "| recipe | " + " | ".join(FRAMEWORKS.values()) + " |"
    lines = [head, "| --- " * (len(FRAMEWORKS) + 1) + "|"]
    for name, row in rows.items():
        lines.append(f"| {NAMES[name]} | " + " | ".join(map(str, row.values())) + " |")
    sums = (sum((row[each] for row in rows.values()), Count(0, 0, 0)) for each in FRAMEWORKS)
    return "\n".join([*lines, "| all | " + " | ".join(map(str, sums)) + " |"])


def _modules(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import():
            yield from (alias.name for alias in node.names)
        case ast.ImportFrom(module=str(module)):
            yield module
        case _:
            pass


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in ROOTS:
            yield from (alias.name for alias in node.names)
        case ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
            yield name
        case _:
            pass


def _fields(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Iterator[str]:
    """Yield the names of a class's fields, or of a function's parameters."""
    if not isinstance(node, ast.ClassDef):
        yield from (each.arg for each in node.args.args)
        return
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            yield line.target.id


if __name__ == "__main__":
    print(table())
