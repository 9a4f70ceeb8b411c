"""Reads from the source of a class what its objects do not hold."""

import ast
import inspect
from typing import Any


def docstrings(cls: type[Any]) -> dict[str, str]:
    """Return the docstring under each field."""
    found: dict[str, str] = {}
    name = ""
    for node in class_body(cls):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                pass
            case ast.Expr(value=ast.Constant(value=str(text))) if name:
                found[name] = " ".join(text.split())
                name = ""
            case _:
                name = ""
    return found


def class_body(cls: type[Any]) -> list[ast.stmt]:
    """Return the statements of a class."""
    (written,) = ast.parse(inspect.getsource(cls).strip()).body
    return written.body if isinstance(written, ast.ClassDef) else []
