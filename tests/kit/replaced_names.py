"""Where a test replaces names of the project, which counts as a mock."""

import ast
import re
from collections.abc import Collection, Iterable, Iterator

_METHOD = re.compile(r"^(?!.* app\.openapi = ).*ignore\[method-" + r"assign\]", re.MULTILINE)
"""What mypy wants where a method is replaced; of FastAPI, its document may be."""


def replaced_names(text: str, nodes: Iterable[ast.AST], ours: Collection[str]) -> Iterator[str]:
    """Yield where a module of penstock, a name in it, a class attribute or a method is replaced."""
    if _METHOD.search(text):
        yield "replaces a method of an object: write a class that has its own"
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(attr="setattr" | "delattr"), args=[patched, *_]):
                name = ast.unparse(patched).strip("'")
            case ast.Call(
                func=ast.Attribute(attr="setitem"),
                args=[ast.Attribute(attr="modules"), patched, *_],
            ):
                name = ast.unparse(patched).strip("'")
            case ast.Attribute(value=patched, ctx=ast.Store() | ast.Del()):
                name = ast.unparse(patched)
                name *= name[0].isupper()  # a variable may be called like a module of ours
            case _:
                continue
        if name.partition(".")[0] in ours:
            yield f"line {node.lineno} replaces a name of ours: take it as an argument"
