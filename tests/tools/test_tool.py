"""A tool with another specification, whatever kind of thing the tool is."""

from dataclasses import dataclass
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from penstock.core.call import Effect
from penstock.core.call_errors import ToolNotFound
from penstock.core.envelope import Json
from penstock.core.errors import NameTaken
from penstock.testing.invocation import open_workbench
from penstock.tools.invocation import Invocation
from penstock.tools.python.function import FunctionTool, tool
from penstock.tools.python.given_tools import as_tool
from penstock.tools.spec import ANY_INPUT, ToolSpec
from penstock.tools.tool import Registry, Tool, with_spec
from tests.kit.tools import Act

SPEC = ToolSpec(tool_id="a", description="d", input_schema=ANY_INPUT)


class Runs:
    """Does nothing."""

    async def run(self, input: Json, invocation: Invocation) -> Any:
        return None

    def preview(self, output: Any) -> str | None:
        return None


class Plain(Runs):
    """A tool whose specification belongs to its class."""

    spec = SPEC


@dataclass(frozen=True)
class Data(Runs):
    """A tool that is a dataclass."""

    spec: ToolSpec = SPEC


class Made(Struct, frozen=True):
    """A tool that is a struct."""

    spec: ToolSpec = SPEC

    async def run(self, input: Json, invocation: Invocation) -> Any:
        return None

    def preview(self, output: Any) -> str | None:
        return None


@pytest.mark.parametrize("tool", [Plain(), Data(), Made()])
def test_another_specification_makes_a_copy_and_the_tool_stays(tool: Tool) -> None:
    other = replace(SPEC, tool_id="b")
    made = with_spec(tool, other)
    assert (made.spec, tool.spec, type(made)) == (other, SPEC, type(tool))


class Shop:
    """An object whose methods are tools."""

    def __init__(self, name: str) -> None:
        self.name = name

    @tool(effect="read", id="find_in_shop")
    async def find(self, sku: str) -> str:
        """Find something."""
        return f"{sku} of {self.name}"


async def test_a_method_is_a_tool_of_its_object_with_the_same_options() -> None:
    found = Shop("a").find
    assert isinstance(found, FunctionTool)
    assert (found.spec.tool_id, found.spec.effect) == ("find_in_shop", Effect.READ)
    bench = await open_workbench(found)
    assert (await bench.call("find_in_shop", {"sku": "x"})).output == "x of a"
    assert await Shop("b").find("y") == "y of b"
    assert isinstance(Shop.find, FunctionTool)


def plain(text: str) -> str:
    """Say it."""
    return text


@pytest.mark.parametrize("given", [plain, Shop("a").find, Act("look")])
def test_a_function_and_a_tool_are_accepted_as_tools(given: Any) -> None:
    found = as_tool(given)
    assert hasattr(found, "run")
    assert (found is given) is not (given is plain)


@pytest.mark.parametrize("given", [1, "look", Act, Shop, Shop("a"), object(), None])
def test_anything_else_is_not_a_tool(given: Any) -> None:
    with pytest.raises(TypeError):
        as_tool(given)


@tool
def one(n: int) -> int:
    """Return the number."""
    return n


@tool
def two() -> None:
    """Do nothing."""


@tool
def silent():  # type: ignore[no-untyped-def]  # noqa: ANN201
    """Say nothing of what comes out."""


def again() -> None:
    """Do nothing under a name that is taken."""


def test_tools_are_listed_in_the_order_of_registration() -> None:
    registry = Registry([two, one])
    assert list(registry) == [two, one]
    assert "one" in registry
    assert "three" not in registry
    assert registry.by_id.get("two") is two
    assert registry.by_id.get("three") is None


def test_the_effect_of_a_tool_is_known_by_its_id() -> None:
    """One that there is not does nothing."""
    registry = Registry([one, tool(effect="read")(again)])
    effects = [registry.effect_of(each) for each in ("one", "again", "three")]
    assert effects == [one.spec.effect, Effect.READ, Effect.NONE]


def test_an_unknown_id_is_refused_with_the_nearest_one() -> None:
    assert Registry([two, one]).get("one") is one
    with pytest.raises(ToolNotFound, match=r"no tool 'onee'\. Did you mean 'one'\?"):
        Registry([two, one]).get("onee")


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(NameTaken, match="there are two tools 'one'"):
        Registry([one, FunctionTool(again, id="one")])


def test_the_same_tool_twice_is_one() -> None:
    assert list(Registry([one, one])) == [one]


def test_permissions_are_those_that_tools_require_and_others_that_are_named() -> None:
    guarded = Act("send", requires_permissions=frozenset({"mail.send"}))
    assert Registry([guarded], ["a.b"]).permissions == {"a.b", "mail.send"}


def test_a_tool_with_the_id_of_a_built_in_tool_is_refused_with_a_hint() -> None:
    builtin = Act("one")
    with pytest.raises(
        NameTaken, match=r"'one' is the name of a built-in tool; give yours .*my_one"
    ):
        Registry([builtin, one])
    with pytest.raises(NameTaken, match="there are two tools 'two'"):
        Registry([two, tool(id="two")(two.__wrapped__)])


def test_an_unloaded_tool_is_refused_with_its_error() -> None:
    registry = Registry([one], broken={"price": "tools/shop.py:3: no docstring"})
    with pytest.raises(ToolNotFound) as caught:
        registry.get("price")
    assert str(caught.value) == (
        "The tool 'price' could not be loaded: tools/shop.py:3: no docstring"
    )
