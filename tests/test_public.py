"""The public names of `penstock`."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import penstock


def test_the_public_names_are_sorted_and_exist() -> None:
    names = list(penstock.HOMES)
    assert names == sorted(names)
    assert all(getattr(penstock, name) for name in names)


def test_every_public_name_has_its_type_in_the_stub() -> None:
    imports = [node for node in _stub().body if isinstance(node, ast.ImportFrom)]
    typed = {alias.asname: node.module for node in imports for alias in node.names}
    homes = penstock.HOMES.items()
    assert typed == {name: f"penstock.{home}" for name, home in homes}


def test_dir_lists_public_names_only() -> None:
    assert dir(penstock) == sorted([*penstock.HOMES, "__version__"])


def test_a_star_import_brings_the_public_names_and_shadows_no_builtin() -> None:
    space: dict[str, object] = {}
    exec("from penstock import *", space)  # noqa: S102  what a notebook does
    assert space.keys() - {"__builtins__"} == penstock.HOMES.keys() - {"open"}
    (listed,) = [node for node in _stub().body if isinstance(node, ast.Assign)]
    assert ast.literal_eval(listed.value) == penstock.__all__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Manager'"):
        getattr(penstock, "Manager")  # noqa: B009


LOADED = [
    ("import penstock", {"asyncio", "msgspec", "pathlib"}),
    ("from penstock import Agent, tool", set[str]()),
]
COSTLY = {
    "alembic",
    "cryptography",
    "fastapi",
    "httpx2",
    "pydantic",
    "pydantic_core",
    "rich",
    "sqlalchemy",
    "starlette",
    "typer",
    "uvicorn",
    "yaml",
}


@pytest.mark.parametrize(("statement", "more"), LOADED, ids=[each for each, _ in LOADED])
def test_a_program_that_declares_agents_loads_no_database_and_no_server(
    statement: str, more: set[str]
) -> None:
    report = f"{statement}; import sys; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in ran.stdout.split()}
    assert loaded & (COSTLY | more) == set()


def _stub() -> ast.Module:
    return ast.parse(Path(penstock.__file__).with_suffix(".pyi").read_text())
