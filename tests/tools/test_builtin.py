"""How a built-in tool is written: in short, and strict."""

from typing import Any

import pytest

from penstock.core.call import Effect
from penstock.core.call_errors import InvalidInput
from penstock.core.envelope import Json
from penstock.core.schema import Schema
from penstock.testing.invocation import invocation_for
from penstock.tools.builtin import NAME, URI, builtin, list_of, place, whole
from penstock.tools.invocation import Invocation


@builtin(
    "Count.",
    {"path": URI, "names": list_of(NAME, most=2), "most?": whole(1, 3)},
    effect=Effect.WRITE,
)
async def count_names(input: Json, invocation: Invocation) -> Any:
    return {"path": input["path"], "count": len(input["names"])}


def test_a_tool_is_named_like_its_function_and_comes_with_skills() -> None:
    spec = count_names.spec
    assert (spec.tool_id, spec.description) == ("count_names", "Count.")
    assert not spec.is_offered
    assert not spec.is_global
    assert spec.stays_inside


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
def test_its_schema_takes_what_it_names_and_nothing_else(input: Json, fits: bool) -> None:
    assert (Schema(count_names.spec.input_schema).problems(input) == []) is fits


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("a.csv", "/path: a path begins with task:// or session://, found 'a.csv'"),
        ("task://a.txt", "/path: the name ends with .csv, found 'task://a.txt'"),
        ("task://", "/path: the name ends with .csv, found 'task://'"),
    ],
)
async def test_an_address_that_is_none_is_an_invalid_input(uri: str, message: str) -> None:
    invocation = await invocation_for(count_names)
    with pytest.raises(InvalidInput) as refused:
        place({"path": uri}, "path", invocation, ending=".csv")
    assert str(refused.value) == f'input of "count_names" is not valid: {message}'


async def test_a_suffix_is_known_in_any_case() -> None:
    path = place({"path": "task://A.CSV"}, "path", await invocation_for(count_names), ending=".csv")
    assert path.name == "A.CSV"


def test_people_see_which_file_it_was() -> None:
    assert count_names.preview({"path": "task://a"}) == "task://a"
    assert count_names.preview({"output_path": "task://b"}) == "task://b"
    assert count_names.preview({"count": 1}) is None
    assert count_names.preview("a text") is None
