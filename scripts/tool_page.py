"""Writes `@tool`, ToolContext and the built-in tools as tables of docs/."""

import ast
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from penstock.builtins import TOOLS
from penstock.builtins.families import family_of
from penstock.tools.python.context import ToolContext
from penstock.tools.python.options import Options
from penstock.tools.tool import Tool
from scripts.written import class_body, docstrings

Function = ast.FunctionDef | ast.AsyncFunctionDef
_EQUALS = re.compile(r"(?<=[^ =])=(?=[^ =])")


class Member(NamedTuple):
    """One member of a ToolContext, at any depth."""

    form: str
    """As code writes it behind `ctx.`."""
    meaning: str


def tool_options() -> str:
    """Return the arguments of `@tool`."""
    said = docstrings(Options)
    rows = [f"| `{name}` | {said.get(name, '')} |" for name in Options.__annotations__]
    return "\n".join(["| argument | means |", "| --- | --- |", *rows])


def context_members() -> str:
    """Return what a tool may ask of its context."""
    rows = [f"| {_code(each.form)} | {each.meaning} |" for each in members(ToolContext)]
    return "\n".join(["| member | means |", "| --- | --- |", *rows])


def built_in_tools() -> str:
    """Return every built-in tool."""
    head = ["| tool | family | input | effect | does |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([*head, *map(_built_in_row, TOOLS)])


def _built_in_row(tool: Tool) -> str:
    spec, family = tool.spec, family_of(tool.spec.tool_id)
    needed = spec.input_schema.get("required", ())
    names = [each if each in needed else f"{each}?" for each in spec.input_schema["properties"]]
    cells = (
        _code(spec.tool_id),
        _code(family) if family else "",
        ", ".join(map(_code, names)),
        "transactional" if spec.is_transactional else spec.effect.value,
        spec.description.replace("|", "\\|"),
    )
    return f"| {' | '.join(cells)} |"


def members(kind: type[Any], prefix: str = "") -> Iterator[Member]:
    """Yield the public members of a class, inherited ones first, then those of what it holds."""
    for base in reversed(kind.__mro__[:-1]):
        found = [each for each in class_body(base) if isinstance(each, Function)]
        functions = [
            each for each in found if "overload" not in map(ast.unparse, each.decorator_list)
        ]
        yield from (_member(each, prefix) for each in functions if each.name[0] != "_")
        for each in functions:
            if each.name == "__init__":
                yield from _held(base, each, prefix)


def _held(kind: type[Any], begin: Function, prefix: str) -> Iterator[Member]:
    """Yield the members of objects in described attributes."""
    module = sys.modules[kind.__module__]
    for place, below in pairwise(begin.body):
        match place, below:
            case ast.Assign(
                targets=[ast.Attribute(attr=name)], value=ast.Call() as made
            ), ast.Expr():
                yield from members(getattr(module, ast.unparse(made.func)), f"{prefix}{name}.")


def _member(function: Function, prefix: str) -> Member:
    said = _first_sentence(ast.get_docstring(function) or "")
    name = f"{prefix}{function.name}"
    if any(ast.unparse(each) == "property" for each in function.decorator_list):
        gives = ast.unparse(function.returns) if function.returns else ""
        return Member(f"{name}: {gives}", said)
    taken = ast.unparse(function.args).removeprefix("self").removeprefix(", ")
    gives = ast.unparse(function.returns) if function.returns else "None"
    ending = "" if gives == "None" else f" -> {gives}"
    wait = "await " if isinstance(function, ast.AsyncFunctionDef) else ""
    return Member(f"{wait}{name}({taken}){ending}", said)


def _first_sentence(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split())


def _code(text: str) -> str:
    return f"`{_EQUALS.sub(' = ', text)}`".replace("|", "\\|")
