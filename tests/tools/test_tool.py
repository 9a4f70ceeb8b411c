"""A tool with another specification, whatever kind of thing the tool is."""

from dataclasses import dataclass
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from penstock.core.envelope import Json
from penstock.tools.invocation import Invocation
from penstock.tools.spec import ANY_INPUT, ToolSpec
from penstock.tools.tool import Tool, with_spec

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
