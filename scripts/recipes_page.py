"""The recipes of docs/compare.md: the programs of bench/recipes, and their size."""

import ast

from bench.recipes.count import FRAMEWORKS, NAMES, RECIPES, source, table


def recipes() -> str:
    """Return every recipe as it runs, for each framework."""
    return "\n\n".join(map(_recipe, NAMES))


def sizes() -> str:
    """Return the sizes of all recipes."""
    return table()


def killed() -> str:
    """Return the program that is killed."""
    return _programs("killed")


def _recipe(name: str) -> str:
    program = (RECIPES / "penstock" / f"{name}.py").read_text(encoding="utf-8")
    said = ast.get_docstring(ast.parse(program))
    return f"### {NAMES[name]}\n\n{said}\n\n{_programs(name)}"


def _programs(name: str) -> str:
    return "\n\n".join(
        f"**{title}**\n\n```py\n{source(each, name)}```" for each, title in FRAMEWORKS.items()
    )
