"""What a program gives as tools: what is accepted, and the advice for what is not."""

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from penstock import Agent, tool
from penstock.core.call import Effect
from penstock.core.errors import ConfigError, DeclarationError
from penstock.core.late import load_file
from penstock.testing.invocation import open_workbench
from penstock.tools.python.given_tools import all_as_tools, as_tool


def area(width: float, height: float) -> float:
    """Return an area."""
    return width * height


class Shop:
    """An object with methods of each kind."""

    name = "tea"

    def find(self, sku: str) -> str:
        """Find an article."""
        return f"{self.name} {sku}"

    @classmethod
    def named(cls, sku: str) -> str:
        """Name an article."""
        return f"{cls.name} {sku}"

    @staticmethod
    def upper(text: str) -> str:
        """Write it in capitals."""
        return text.upper()

    def __call__(self, sku: str) -> str:
        """Find an article."""
        return self.find(sku)


ACCEPTED: list[tuple[Callable[..., Any], dict[str, Any], Any]] = [
    (area, {"width": 2, "height": 3}, 6),
    (Shop().find, {"sku": "7"}, "tea 7"),
    (Shop.named, {"sku": "7"}, "tea 7"),
    (Shop.upper, {"text": "a"}, "A"),
    (functools.cache(area), {"width": 2, "height": 3}, 6),
]


@pytest.mark.parametrize(("given", "input", "output"), ACCEPTED)
async def test_functions_and_methods_become_tools_that_write(
    given: Any, input: dict[str, Any], output: Any
) -> None:
    made = as_tool(given)
    assert made.spec.effect is Effect.WRITE
    bench = await open_workbench(made)
    assert (await bench.call(made.spec.tool_id, input)).output == output


DEF = "write a def with @tool above it"
REFUSED: list[tuple[Any, type[Exception], str]] = [
    (functools.partial(area, 2), ConfigError, f"{DEF} that calls area"),
    (functools.partial(tool(area), 2), ConfigError, f"{DEF} that calls area"),
    (functools.partial(functools.partial(area, 2), 3), ConfigError, f"{DEF} that calls area"),
    (functools.partial(Shop()), ConfigError, DEF),
    (functools.partialmethod(area, 2), ConfigError, DEF),
    (lambda x: x, ConfigError, f"a lambda has no name, hints or docstring for a model: {DEF}"),
    (Shop(), ConfigError, f"{DEF} that calls it"),
    (len, ConfigError, f"the built-in function 'len' has no type hints: {DEF} that calls it"),
    ("".join, ConfigError, f"the built-in function 'join' has no type hints: {DEF}"),
    (str.upper, ConfigError, f"the built-in function 'upper' has no type hints: {DEF}"),
    (Shop, TypeError, r"Pass a method of an object, as in tools=\[shop.buy\]"),
    (int, TypeError, "Pass a method of an object"),
    (None, TypeError, "tools= takes functions, with @tool above them or not, and tools; found"),
    (3, TypeError, "found 3"),
    ({"name": "area"}, TypeError, "found {'name': 'area'}"),
    (sys, TypeError, "found <module 'sys'"),
]


@pytest.mark.parametrize(("given", "error", "advice"), REFUSED)
def test_what_a_model_can_be_told_nothing_about_is_refused_with_the_line_to_write(
    given: Any, error: type[Exception], advice: str
) -> None:
    with pytest.raises(error, match=advice):
        Agent("clerk", tools=[given])
    with pytest.raises(error, match=advice):
        all_as_tools([given])


UNBOUND = "it is a method of a class; pass a bound one, such as tools=[shop.buy]"


def yields(count: int) -> Any:
    """Count."""
    yield from range(count)


def bare(x) -> str:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """Take anything."""
    return str(x)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Shop.find, UNBOUND),
        (yields, "it yields values; a tool returns one"),
        (bare, "the parameter 'x' has no type hint; add one, such as x: str"),
    ],
)
def test_a_function_that_makes_no_schema_is_refused_with_its_line(given: Any, message: str) -> None:
    made = as_tool(given)
    with pytest.raises(DeclarationError) as caught:
        _ = made.spec
    assert message in str(caught.value)


LATE = '''
from __future__ import annotations
from typing import TYPE_CHECKING
from penstock import ToolContext, tool
if TYPE_CHECKING:
    from decimal import Decimal

@tool
def of_a_parameter(price: Decimal) -> str:
    """Show a price."""

@tool
def of_the_context(ctx: ToolContext[Decimal], key: str) -> str:
    """Show a price."""

@tool
def of_the_result(key: str) -> Decimal:
    """Return a price."""

@tool(input_schema={"type": "object"})
def of_a_foreign_schema(ctx: ToolContext[Decimal], **rest: int) -> str:
    """Show a price."""
'''


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """Return a module with names that only type checkers import."""
    file = tmp_path_factory.mktemp("late") / "late_hints.py"
    file.write_text(LATE, encoding="utf-8")
    return load_file(file, "late_hints")


@pytest.mark.parametrize(
    "name", ["of_a_parameter", "of_the_context", "of_the_result", "of_a_foreign_schema"]
)
def test_an_annotation_that_cannot_be_resolved_is_named_and_is_not_taken_as_no_context(
    late: ModuleType, name: str
) -> None:
    with pytest.raises(DeclarationError) as caught:
        _ = getattr(late, name).spec
    assert "name 'Decimal' is not defined" in str(caught.value)
    assert "import it at the top, not under `if TYPE_CHECKING:`" in str(caught.value)
    assert "late_hints.py" in str(caught.value)
