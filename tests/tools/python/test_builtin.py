"""How a built-in tool is written: in short, and strict."""

from typing import Any

import pytest

from penstock.core.call import Effect
from penstock.core.call_errors import InvalidInput
from penstock.core.envelope import Json
from penstock.core.json_values.schema import Schema
from penstock.testing.invocation import invocation_for
from penstock.tools.invocation import Invocation
from penstock.tools.python.builtin import NAME, URI, builtin, list_of, offered_without, place, whole


@builtin(
    "Count.",
    {"path": URI, "names": list_of(NAME, most=2), "most?": whole(1, 3)},
    effect=Effect.WRITE,
)
async def count_names(input: Json, invocation: Invocation) -> Any:
    return {"path": input["path"], "count": len(input["names"])}


def test_a_tool_has_the_name_of_its_function_and_the_given_skills() -> None:
    spec = count_names.spec
    assert (spec.tool_id, spec.description) == ("count_names", "Count.")
    assert not spec.is_offered
    assert not spec.is_global
    assert spec.is_transactional


@pytest.mark.parametrize(
    ("input", "fits"),
    [
        ({"path": "task://a", "names": ["a"]}, True),
        ({"path": "task://a", "names": ["a", "b"], "most": 3}, True),
        ({"path": "task://a", "names": ["a"], "most": 4}, False),
        ({"path": "task://a", "names": []}, False),
        ({"path": "task://a", "names": ["a", "b", "c"]}, False),
        ({"path": "task://a", "names": [""]}, False),
        ({"path": "task://a", "names": ["a"], "more": 1}, False),
        ({"names": ["a"]}, False),
    ],
)
def test_the_schema_accepts_only_named_fields(input: Json, fits: bool) -> None:
    assert (Schema(count_names.spec.input_schema).problems(input) == []) is fits


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("a.csv", "/path: a path begins with task:// or session://, found 'a.csv'"),
        ("task://a.txt", "/path: the name ends with .csv, found 'task://a.txt'"),
        ("task://", "/path: the name ends with .csv, found 'task://'"),
    ],
)
async def test_a_malformed_address_is_an_invalid_input(uri: str, message: str) -> None:
    invocation = await invocation_for(count_names)
    with pytest.raises(InvalidInput) as refused:
        place({"path": uri}, "path", invocation, ending=".csv")
    assert str(refused.value) == f'input of "count_names" is not valid: {message}'


async def test_a_suffix_is_known_in_any_case() -> None:
    path = place({"path": "task://A.CSV"}, "path", await invocation_for(count_names), ending=".csv")
    assert path.name == "A.CSV"


def test_the_preview_names_the_file() -> None:
    assert count_names.preview({"path": "task://a"}) == "task://a"
    assert count_names.preview({"output_path": "task://b"}) == "task://b"
    assert count_names.preview({"count": 1}) is None
    assert count_names.preview("a text") is None


async def test_a_tool_returns_the_result_of_its_function_and_locks_the_file_it_changes() -> None:
    invocation = await invocation_for(count_names)
    found = await count_names.run({"path": "task://a", "names": ["a", "b"]}, invocation)
    assert found == {"path": "task://a", "count": 2}
    key = count_names.spec.exclusive
    assert callable(key)
    assert key({"path": "task://a"}) == "task://a"


@pytest.mark.parametrize(
    ("effect", "fields", "takes_turns", "is_transactional"),
    [
        (Effect.WRITE, {"path": URI}, True, True),
        (Effect.WRITE, {"name": NAME}, False, True),
        (Effect.READ, {"path": URI}, False, False),
    ],
)
def test_only_writes_of_a_file_take_turns_and_only_writes_stay_inside(
    effect: Effect, fields: dict[str, Json], takes_turns: bool, is_transactional: bool
) -> None:
    async def look(input: Json, invocation: Invocation) -> Any:
        return 1

    spec = builtin("Look.", fields, effect=effect, tool_id="other")(look).spec
    assert (spec.tool_id, spec.effect) == ("other", effect)
    assert bool(spec.exclusive) is takes_turns
    assert spec.is_transactional is is_transactional
    outside = builtin("Look.", fields, effect=effect, is_transactional=False)(look).spec
    assert (outside.tool_id, outside.is_transactional) == ("look", False)


def test_an_old_name_of_a_member_is_accepted_and_not_offered() -> None:
    fields = {"path": URI, "old?": NAME, "new?": NAME, "more?": NAME}

    async def look(input: Json, invocation: Invocation) -> Any:
        return 1

    made = builtin("Look.", fields, effect=Effect.READ)(look)
    spec = offered_without("old", instead="new")(made).spec
    assert spec.input_schema == made.spec.input_schema
    assert list(spec.input_schema["properties"]) == ["path", "old", "new", "more"]
    offered = spec.offered_schema
    assert offered is not None
    assert list(offered["properties"]) == ["path", "new", "more"]
    assert offered["required"] == ["path", "new"]
    assert offered["additionalProperties"] is False


def test_schemas_of_numbers_and_lists_have_bounds_and_descriptions() -> None:
    assert whole(1, 3) == {"type": "integer", "minimum": 1, "maximum": 3}
    assert whole(0, 9, "How many.") == {
        "type": "integer",
        "minimum": 0,
        "maximum": 9,
        "description": "How many.",
    }
    assert list_of(NAME) == {"type": "array", "items": NAME, "minItems": 1}
    assert list_of(NAME, most=2) == {"type": "array", "items": NAME, "minItems": 1, "maxItems": 2}
