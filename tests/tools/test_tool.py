"""A tool with another specification, whatever kind of thing the tool is."""

from dataclasses import dataclass
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from penstock.core.call import Effect
from penstock.core.envelope import Json
from penstock.testing.invocation import open_workbench
from penstock.tools.invocation import Invocation
from penstock.tools.python.function import FunctionTool, as_tool, tool
from penstock.tools.spec import ANY_INPUT, ToolSpec
from penstock.tools.tool import Tool, with_spec
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


@pytest.mark.parametrize("given", [plain, Shop("a").find, Act("look"), len])
def test_a_function_and_a_tool_are_taken_as_tools(given: Any) -> None:
    found = as_tool(given)
    assert hasattr(found, "run")
    assert (found is given) is not (given is plain or given is len)


@pytest.mark.parametrize("given", [1, "look", Act, Shop, Shop("a"), object(), None])
def test_anything_else_is_no_tool(given: Any) -> None:
    with pytest.raises(TypeError):
        as_tool(given)
