"""The shop window."""

import ast
from pathlib import Path

import pytest

import penstock


def test_the_window_is_sorted_and_real() -> None:
    names = list(penstock.HOMES)
    assert names == sorted(names)
    assert all(getattr(penstock, name) for name in names)


def test_every_public_name_has_its_type_in_the_stub() -> None:
    stub = ast.parse(Path(penstock.__file__).with_suffix(".pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    typed = {alias.asname: node.module for node in imports for alias in node.names}
    homes = penstock.HOMES.items()
    assert typed == {name: f"penstock.{home}" for name, home in homes}


def test_the_window_shows_public_names_alone() -> None:
    assert dir(penstock) == sorted([*penstock.HOMES, "__version__"])


def test_anything_else_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Manager'"):
        getattr(penstock, "Manager")  # noqa: B009
