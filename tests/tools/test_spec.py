"""The declared effect of a tool decides what an interrupted call means."""

import asyncio
from operator import itemgetter
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.core.call import Effect
from penstock.core.call_errors import ToolFailed
from penstock.testing.invocation import open_workbench
from penstock.tools.python.function import tool
from penstock.tools.spec import ANY_INPUT, ToolSpec
from tests.kit.counting_tools import killed
from tests.kit.tools import Act


@pytest.mark.parametrize(
    ("expected", "is_ambiguous_when_cut"),
    [
        ({"effect": Effect.READ}, False),
        ({"effect": Effect.NONE}, False),
        ({"effect": Effect.WRITE}, True),
        ({"effect": Effect.WRITE, "is_frame": True}, False),
        ({"effect": Effect.WRITE, "is_transactional": True}, False),
    ],
)
def test_only_a_write_to_the_world_may_have_happened(
    expected: dict[str, Any], is_ambiguous_when_cut: bool
) -> None:
    spec = ToolSpec(tool_id="t", description="", input_schema=ANY_INPUT, **expected)
    assert spec.is_ambiguous_when_cut is is_ambiguous_when_cut


SILENT = (
    "The function of 'pay' says no effect, so it counts as a write. If it only reads, write "
    '@tool(effect="read") above it; if a second run does no harm, @tool(idempotent=True).'
)


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({}, SILENT),
        ({"effect": "write"}, ""),
    ],
)
async def test_a_cut_call_of_a_tool_without_an_effect_says_which_line_to_write(
    options: Any, advice: str
) -> None:
    entered = asyncio.Event()

    @tool(**options)
    async def pay() -> None:
        """Pay, and never end."""
        entered.set()
        await asyncio.Event().wait()

    bench = await open_workbench(pay)
    cut = asyncio.create_task(bench.call("pay"))
    await entered.wait()
    await killed(bench)
    error = (await bench.call("pay")).error
    cut.cancel()
    assert error
    assert error.code == "INTERRUPTED"
    asked = "Find out whether it happened before you try it again."
    assert error.suggestion == f"{asked} {advice}".strip()


@pytest.mark.parametrize(
    ("exclusive", "input", "key"),
    [
        (False, {"disk": "a"}, None),
        (True, {"disk": "a"}, None),
        ("disks", {"disk": "a"}, "disks"),
        (itemgetter("disk"), {"disk": "a"}, "a"),
        (itemgetter("disk"), {"disk": 7}, "7"),
        (itemgetter("disk"), {}, None),
    ],
)
async def test_calls_with_an_equal_key_take_turns_and_a_bad_input_has_none(
    exclusive: Any, input: dict[str, Any], key: str | None
) -> None:
    schema = {"type": "object", "required": ["disk"]}
    bench = await open_workbench(Act("write", exclusive=exclusive, input_schema=schema))
    assert bench.invoker.key_of(bench.next_call("write", input)) == key
    assert bench.invoker.key_of(bench.next_call("nothing", input)) is None


async def test_a_key_function_that_raises_fails_the_call() -> None:
    bench = await open_workbench(Act("write", exclusive=itemgetter("disk")))
    with pytest.raises(ToolFailed):
        bench.invoker.key_of(bench.next_call("write", {}))


def test_input_and_output_schemas_are_compiled_once() -> None:
    number = {"type": "integer"}
    spec = ToolSpec(tool_id="t", description="", input_schema=ANY_INPUT, output_schema=number)
    compiled = spec.compiled_output
    assert compiled is not None
    assert (compiled.problems(1), bool(compiled.problems("1"))) == ([], True)
    assert (spec.compiled_input.problems({}), bool(spec.compiled_input.problems(1))) == ([], True)
    assert spec.compiled_output is compiled
    assert spec.compiled_input is spec.compiled_input
    assert replace(spec, output_schema=None).compiled_output is None
