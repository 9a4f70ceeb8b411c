"""`@tool(input_schema={…})`: a schema from elsewhere, and how the function gets its inputs."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Annotated, Any

import pytest

from penstock import Depends, ToolContext, tool
from penstock.core.errors import DeclarationError
from penstock.testing.invocation import open_workbench
from penstock.testing.runtime import memory_runtime
from penstock.tools.python.function import FunctionTool

ORDER: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Order",
    "type": "object",
    "properties": {
        "sku": {"$ref": "#/$defs/sku"},
        "count": {"type": "integer", "minimum": 1, "default": 1},
        "class": {"type": "string"},
    },
    "required": ["sku"],
    "$defs": {"sku": {"type": "string", "pattern": "^[A-Z]"}},
    "x-vendor": {"kept": True},
}


def foreign(
    function: Callable[..., Any], schema: Any = ORDER, **more: Any
) -> FunctionTool[Any, ..., Any]:
    """Return a function as a tool of a foreign schema."""
    made: FunctionTool[Any, ..., Any] = tool(
        input_schema=schema, id="order", description="Order an article.", **more
    )(function)
    return made


def whole(order: dict[str, Any]) -> Any:
    order["seen"] = True
    return order


def mapping(order: Mapping[str, Any]) -> Any:
    return dict(order)


def unhinted(order) -> Any:  # type: ignore[no-untyped-def]  # noqa: ANN001
    return order


def by_name(sku: str, count: int = 7, **rest: Any) -> Any:
    return {"sku": sku, "count": count, **rest}


def every_name(**order: Any) -> Any:
    return order


async def late(order: dict[str, Any]) -> Any:
    return order


GIVEN: dict[str, Any] = {"sku": "A1", "class": "b"}
RECEIVED: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (whole, {**GIVEN, "seen": True}),
    (mapping, GIVEN),
    (unhinted, GIVEN),
    (by_name, {**GIVEN, "count": 7}),
    (every_name, GIVEN),
    (late, GIVEN),
]


@pytest.mark.parametrize(("function", "received"), RECEIVED)
async def test_the_function_gets_one_dict_or_the_properties_by_name(
    function: Callable[..., Any], received: dict[str, Any]
) -> None:
    given = deepcopy(GIVEN)
    bench = await open_workbench(foreign(function))
    assert (await bench.call("order", given)).output == received
    assert given == GIVEN


async def test_an_empty_input_is_an_empty_dict() -> None:
    bench = await open_workbench(foreign(whole, {"type": "object"}))
    assert (await bench.call("order", {})).output == {"seen": True}


def test_models_get_the_schema_as_it_is_and_a_later_change_of_it_does_not_reach_them() -> None:
    schema = deepcopy(ORDER)
    spec = foreign(whole, schema).spec
    schema["properties"].clear()
    assert spec.input_schema == spec.parameters == ORDER


async def test_inputs_are_checked_by_the_schema_and_no_value_is_converted() -> None:
    bench = await open_workbench(foreign(by_name))
    wrong = await bench.call("order", {"sku": "a", "count": 0})
    assert wrong.error
    assert wrong.error.code == "INVALID_INPUT"
    assert [each["path"] for each in (wrong.error.details or {})["problems"]] == ["/sku", "/count"]
    assert (await bench.call("order", {"sku": "A", "count": 2.0})).output["count"] == 2.0


async def test_a_name_that_the_schema_allows_and_no_parameter_takes_is_refused_by_its_name() -> (
    None
):
    def narrow(sku: str) -> str:
        return sku

    schema = {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}
    bench = await open_workbench(foreign(narrow, schema))
    refused = await bench.call("order", {"sku": "A", "self": 1, "function": 2})
    assert refused.error
    assert refused.error.code == "INVALID_INPUT"
    for name in ("/self", "/function"):
        assert f"{name}: is not a parameter of the tool" in refused.error.message
    assert (await bench.call("order", {"sku": "A"})).output == "A"


def stock() -> dict[str, int]:
    return {"A1": 3}


async def test_contexts_and_dependencies_are_no_part_of_the_input() -> None:
    async def order(
        order: dict[str, Any], ctx: ToolContext, left: Annotated[dict[str, int], Depends(stock)]
    ) -> Any:
        return [order["sku"], ctx.depth, left["A1"]]

    made = foreign(order, direct_call=True)
    assert made.spec.input_schema == ORDER
    async with memory_runtime(tools=[made]) as runtime:
        assert (await runtime.call("order", {"sku": "A1"})).output == ["A1", 0, 3]


def no_default(sku: str, count: int) -> None: ...
def too_few(sku: str) -> None: ...
def too_many(sku: str, colour: str, **rest: Any) -> None: ...
def by_place(order: dict[str, Any], /) -> None: ...
def any_number(*order: Any) -> None: ...
def a_model(order: int) -> None: ...


MISFITS: list[tuple[Callable[..., Any], list[str]]] = [
    (no_default, ["'count': give it a default: input_schema does not require it",
                  "input_schema has 'class', which no parameter takes; add it, or **rest"]),
    (too_few, ["input_schema has 'class', which no parameter takes",
               "input_schema has 'count', which no parameter takes"]),
    (too_many, ["'colour': input_schema has no such property; one dict, as in (input: dict)"]),
    (by_place, ["'order' is positional-only; remove the /"]),
    (any_number, ["'order' takes any number of values; the input has names"]),
    (a_model, ["'order': input_schema has no such property; one dict, as in (input: dict)"]),
]  # fmt: skip


@pytest.mark.parametrize(("function", "messages"), MISFITS)
def test_parameters_that_do_not_fit_the_schema_are_errors_when_the_tool_is_loaded(
    function: Callable[..., Any], messages: list[str]
) -> None:
    with pytest.raises(DeclarationError) as caught:
        _ = foreign(function).spec
    for message in messages:
        assert message in str(caught.value)


NO_SCHEMAS: list[Any] = [
    None,
    "x",
    [],
    {},
    {"type": "array"},
    {"type": ["object", "null"]},
    {"type": "object", "properties": {"a": {"type": "nothing"}}},
    {"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/missing"}}},
    {"type": "object", "properties": 3},
    {"type": "object", "required": "sku"},
]


@pytest.mark.parametrize("schema", NO_SCHEMAS)
def test_what_is_no_schema_of_an_object_is_a_finding(schema: Any) -> None:
    with pytest.raises(DeclarationError) as caught:
        _ = foreign(every_name, schema).spec
    wanted = "'input_schema' of tool 'order' must be a JSON Schema with type: object"
    assert wanted in str(caught.value)


def test_a_schema_that_refers_to_itself_is_taken() -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}}}
    assert foreign(whole, tree).spec.input_schema == tree
