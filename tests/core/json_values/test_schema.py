"""A value against a JSON Schema."""

import socket
from typing import Any

import pytest

from penstock.core.json_values.schema import (
    Problem,
    Schema,
    check_schema,
    json_problems,
    json_type,
    pointer,
    remote_refs,
)

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "age": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"type": "string"}},
        "a/b~c": {"type": "null"},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def paths(schema: Any, value: Any) -> list[str]:
    return sorted(problem.path for problem in Schema(schema).problems(value))


VALUES: list[tuple[Any, list[str]]] = [
    ({"name": "Ann"}, []),
    ({"name": "Ann", "age": 3.0}, []),
    ({"name": "Ann", "age": True}, ["/age"]),
    ({"name": "Ann", "age": "3"}, ["/age"]),
    ({"name": "", "age": -1, "tags": ["a", 1, 2]}, ["/age", "/name", "/tags/1", "/tags/2"]),
    ({"name": "Ann", "a/b~c": 1}, ["/a~1b~0c"]),
    ({}, ["/name"]),
    ({"name": "Ann", "extra": 1}, [""]),
    ([], [""]),
    (None, [""]),
]


@pytest.mark.parametrize(("value", "wrong"), VALUES, ids=range(len(VALUES)))
def test_every_problem_is_found_with_its_place(value: Any, wrong: list[str]) -> None:
    """No coercion: "3" is no integer, and true is none."""
    assert paths(PERSON, value) == wrong


def test_a_problem_is_shown_with_its_place() -> None:
    (problem,) = Schema(PERSON).problems({"name": 7})
    assert str(problem) == '/name: 7 is not of type "string"'
    assert str(Problem("", "is wrong")) == "/: is wrong"


def test_at_most_fifty_problems_are_reported() -> None:
    many = Schema({"items": {"type": "string"}}).problems(list(range(1000)))
    assert len(many) == 50


def test_only_the_first_problem_of_a_large_value_is_reported() -> None:
    """Or an input of 1 MiB would hold up the process for as long as it takes to find all of it."""
    one_of = {"items": {"anyOf": [{"type": "string", "minLength": size} for size in range(10)]}}
    found = Schema(one_of).problems([*["a" * 10] * 3000, *[1] * 300_000])
    assert [problem.path for problem in found] == ["/3000"]


def test_a_problem_never_repeats_a_large_value() -> None:
    (problem,) = Schema({"type": "integer"}).problems("x" * 100_000)
    assert len(problem.message) == 500


FORMATS = [
    ("email", "ann@example.com", "ann"),
    ("date-time", "2026-11-21T09:00:00Z", "yesterday"),
    ("date", "2026-02-28", "2026-02-30"),
    ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123"),
    ("uri", "https://example.com/a", "no uri"),
    ("ipv4", "127.0.0.1", "127.0.0.256"),
]


@pytest.mark.parametrize(("name", "good", "bad"), FORMATS, ids=[name for name, *_ in FORMATS])
def test_formats_are_checked(name: str, good: str, bad: str) -> None:
    assert paths({"format": name}, good) == []
    assert paths({"format": name}, bad) == [""]


INSIDE = {
    "$defs": {"name": {"type": "string"}, "tree": {"items": {"$ref": "#/$defs/tree"}}},
    "properties": {"name": {"$ref": "#/$defs/name"}, "tree": {"$ref": "#/$defs/tree"}},
}


def test_references_inside_the_schema_hold() -> None:
    assert paths(INSIDE, {"name": "Ann", "tree": [[], [[]]]}) == []
    assert paths(INSIDE, {"name": 1}) == ["/name"]


@pytest.fixture
def listener() -> Any:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        yield server


def test_a_remote_reference_is_refused_and_nothing_is_contacted(listener: Any) -> None:
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/schema.json"
    for schema in ({"$ref": url}, {"properties": {"a": {"$ref": url}}}, {"$dynamicRef": url}):
        with pytest.raises(ValueError, match=r"outside the schema; put it under \$defs"):
            Schema(schema)
    Schema({"$schema": url})
    with pytest.raises(BlockingIOError):
        listener.accept()


@pytest.mark.parametrize("ref", ["file:///etc/passwd", "other.json", "//example.com/x", "ftp://x"])
def test_no_other_document_is_read(ref: str) -> None:
    with pytest.raises(ValueError, match=r"outside the schema; put it under \$defs"):
        Schema({"$ref": ref})


BROKEN: list[tuple[Any, str]] = [
    ({"type": "text"}, '/type: "text" is not valid under any of the schemas'),
    ({"type": 5}, "/type: 5 is not valid under any of the schemas"),
    ({"properties": {"a": {"minimum": "1"}}}, '/properties/a/minimum: "1" is not of type "number"'),
    ({"properties": []}, r'/properties: \[\] is not of type "object"'),
    ({"pattern": "("}, '/pattern: "\\(" is not a "regex"'),
    ({"required": "name"}, '/required: "name" is not of type "array"'),
    ({"$ref": "#/$defs/none"}, r"/: Pointer '/\$defs/none' does not exist"),
    ({"enum": ["\ud800"]}, "surrogates not allowed"),
    ({"const": object()}, "Unsupported type: 'object'"),
]


@pytest.mark.parametrize(("schema", "expected"), BROKEN, ids=range(len(BROKEN)))
def test_an_invalid_schema_is_refused_with_the_place(schema: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        Schema(schema)


def test_a_pattern_that_explodes_elsewhere_is_fast() -> None:
    assert paths({"pattern": "^(a+)+$"}, "a" * 40 + "!") == [""]


NO_JSON = ["\ud800", {"\ud800": 1}, {1: 2}, [object()], {"a": b"x"}]


@pytest.mark.parametrize("value", NO_JSON, ids=range(len(NO_JSON)))
def test_a_value_that_is_not_json_is_a_problem(value: Any) -> None:
    (problem,) = Schema({"enum": [1]}).problems(value)
    assert problem.path == ""
    assert problem.message.startswith("is not JSON: ")


# ---- what no schema says -------------------------------------------------------------------------


def nested(depth: int) -> Any:
    value: Any = "x"
    for number in range(depth):
        value = [value] if number % 2 else {"a": value}
    return value


NUMBERS = [
    (2**53 - 1, []),
    (-(2**53) + 1, []),
    (2**53, [""]),
    (-(2**53), [""]),
    (10**5000, [""]),
    ({"a": {"b": [1, 2**60, True]}, "c": -(2**60)}, ["/a/b/1", "/c"]),
    ({"a": float("nan"), "b": [float("inf")], "c": 1e300}, ["/a", "/b/0"]),
    ({"a": True, "b": "9" * 30, "c": None}, []),
]


@pytest.mark.parametrize(("value", "wrong"), NUMBERS, ids=range(len(NUMBERS)))
def test_numbers_that_other_languages_change_are_named(value: Any, wrong: list[str]) -> None:
    """`scripts.md` section 8: an integer beyond 2^53-1 on either side is INVALID_INPUT."""
    assert sorted(problem.path for problem in json_problems(value, 200)) == wrong


def test_nesting_ends_at_its_limit() -> None:
    assert list(json_problems(nested(200), 200)) == []
    (problem,) = json_problems(nested(201), 200)
    assert str(problem) == "/a/0/a/…: is nested more than 200 levels deep"


def test_nesting_without_end_is_one_problem() -> None:
    (problem,) = json_problems(nested(100_000), 200)
    assert problem.message == "is nested more than 200 levels deep"
    circle: list[Any] = []
    circle.append(circle)
    assert len(list(json_problems(circle, 200))) == 1


def test_a_pointer_escapes_tildes_and_slashes() -> None:
    assert pointer([]) == ""
    assert pointer(["a/b", "~", 0, ""]) == "/a~1b/~0/0/"


FAULTS: list[tuple[Any, list[tuple[tuple[str | int, ...], str]]]] = [
    ({"type": "object"}, []),
    (
        {"type": "text"},
        [
            (
                ("type",),
                '"text" is not one of array, boolean, integer, null, number, object, string',
            )
        ],
    ),
    (
        {"items": {"minimum": "1"}, "required": "a"},
        [
            (("items", "minimum"), '"1" is not of type "number"'),
            (("required",), '"a" is not of type "array"'),
        ],
    ),
    ({"items": {"$ref": "#/$defs/a"}}, [(("items", "$ref"), "Pointer '/$defs/a' does not exist")]),
    ({"$ref": "#here"}, [(("$ref",), "Anchor 'here' does not exist")]),
    (
        {
            "items": {"$ref": "#/$defs/b"},
            "not": {"$ref": "#/$defs/b"},
            "properties": {"p": {"$ref": "#x"}, "q": {"$ref": "#/$defs/a"}},
            "$defs": {"a": {}},
        },
        [
            (("items", "$ref"), "Pointer '/$defs/b' does not exist"),
            (("not", "$ref"), "Pointer '/$defs/b' does not exist"),
            (("properties", "p", "$ref"), "Anchor 'x' does not exist"),
        ],
    ),
]


@pytest.mark.parametrize(("schema", "faults"), FAULTS)
def test_every_fault_of_a_schema_is_found_with_its_place(
    schema: Any, faults: list[tuple[tuple[str | int, ...], str]]
) -> None:
    assert [(each.path, each.message) for each in check_schema(schema)] == faults


def test_a_value_that_is_not_json_is_not_a_schema() -> None:
    (fault,) = check_schema({"enum": ["\ud800"]})
    assert "surrogates not allowed" in fault.message


REMOTE: list[tuple[Any, list[tuple[tuple[str | int, ...], str]]]] = [
    ({"$ref": "http://a/b"}, [(("$ref",), "http://a/b")]),
    ({"anyOf": [{}, {"$dynamicRef": "b.json"}]}, [(("anyOf", 1, "$dynamicRef"), "b.json")]),
    ({"properties": {"$ref": {"$ref": "b"}}}, [(("properties", "$ref", "$ref"), "b")]),
    ({"const": {"$ref": "b"}, "default": {"$ref": "b"}, "examples": [{"$ref": "b"}]}, []),
    ({"$ref": "#/$defs/a", "$defs": {"a": {}}}, []),
    ({"$ref": "a#/x", "$defs": {"a": {"$id": "a"}}}, []),
    ({"properties": [{"$ref": 5}], "$id": 5}, []),
]


@pytest.mark.parametrize(("schema", "remote"), REMOTE)
def test_references_that_lead_out_are_found(
    schema: Any, remote: list[tuple[tuple[str | int, ...], str]]
) -> None:
    assert [(each.path, each.ref) for each in remote_refs(schema)] == remote


@pytest.mark.parametrize(
    ("value", "name"),
    [([], "array"), ({}, "object"), ("", "string"), (True, "boolean"), (1.5, "number"),
     (1, "number"), (None, "null")],
)  # fmt: skip
def test_a_value_has_its_json_type_name(value: Any, name: str) -> None:
    assert json_type(value) == name


KINDS: dict[str, Any] = {
    "properties": {
        "m": {
            "oneOf": [
                {
                    "type": "object",
                    "required": ["kind", name],
                    "properties": {"kind": {"const": name}, name: {"minLength": 1}},
                }
                for name in ("text", "link")
            ]
        },
        "n": {"anyOf": [{"type": "null"}, {"type": "object", "required": ["x"]}]},
        "o": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    }
}
MEANT = [
    ({"m": {"kind": "text"}}, ["/m/text: is required"]),
    ({"m": {"kind": "link", "link": ""}}, ['/m/link: "" is shorter than 1 character']),
    ({"m": {"kind": "sms"}}, ['/m/kind: must be one of: "text", "link"']),
    ({"m": {}}, ["/m/kind: is required"]),
    ({"m": 5}, ['/m: 5 is not of type "object"']),
    ({"n": {}}, ["/n/x: is required"]),
    ({"o": []}, ["/o: [] is not valid under any of the schemas listed in the 'anyOf' keyword"]),
]


@pytest.mark.parametrize(("value", "expected"), MEANT)
def test_the_problems_are_those_of_the_closest_schema(
    value: dict[str, Any], expected: list[str]
) -> None:
    assert [str(each) for each in Schema(KINDS).problems(value)] == expected
