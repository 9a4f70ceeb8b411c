"""Types of outputs: their schemas, the values that JSON becomes, and types without a schema."""

import dataclasses
import enum
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest
from pydantic import BaseModel, Field, field_validator

from penstock.core.call_errors import ModelRetry
from penstock.core.errors import ConfigError
from penstock.tools.python.output_type import OutputType, output_types, returned
from penstock.tools.python.signature import Misfit


class Ticket(BaseModel):
    """A report of a fault."""

    title: str
    severity: Literal["low", "high"]

    @field_validator("title")
    @classmethod
    def _short(cls, title: str) -> str:
        if len(title) > 10:
            raise ValueError("must be short")
        if title == "fire":
            raise ModelRetry("Name the burning thing.")
        return title


@dataclasses.dataclass
class Point:
    """A place."""

    x: int
    y: int = 0


class Row(msgspec.Struct):
    """A row."""

    x: int


class Entry(TypedDict):
    """An entry."""

    x: int


class Colour(enum.Enum):
    """A colour."""

    RED = "red"


VALUES: list[tuple[Any, dict[str, Any], Any]] = [
    (Ticket, {"title": "a", "severity": "low"}, Ticket(title="a", severity="low")),
    (Point, {"x": 1}, Point(1)),
    (Row, {"x": 1}, Row(1)),
    (Entry, {"x": 1}, {"x": 1}),
    (Colour, {"value": "red"}, Colour.RED),
    (int, {"value": 3}, 3),
    (bool, {"value": True}, True),
    (str, {"value": "a"}, "a"),
    (list[Entry], {"value": [{"x": 1}]}, [{"x": 1}]),
    (list[Row], {"value": [{"x": 1}]}, [Row(1)]),
    (list[Point], {"value": [{"x": 1, "y": 2}]}, [Point(1, 2)]),
    (tuple[int, str], {"value": [1, "a"]}, (1, "a")),
    (Literal["x", "y"], {"value": "y"}, "y"),
    (Annotated[int, Field(ge=2)], {"value": 2}, 2),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (type(None), {"value": None}, None),
]


@pytest.mark.parametrize(("hint", "arguments", "value"), VALUES)
def test_arguments_of_a_model_become_a_value_of_the_type(
    hint: Any, arguments: dict[str, Any], value: Any
) -> None:
    made = OutputType(hint)
    assert made.problems(arguments) == []
    assert made.parameters["type"] == "object"
    assert made.read(made.value(arguments)) == value


PROBLEMS: list[tuple[Any, dict[str, Any], str, str]] = [
    (Ticket, {"title": "a", "severity": "bad"}, "/severity", '"bad" is not one of'),
    (Ticket, {"title": "a"}, "/severity", "is required"),
    (Ticket, {"title": "much too long", "severity": "low"}, "/title", "must be short"),
    (Ticket, {"title": "fire", "severity": "low"}, "", "Name the burning thing."),
    (list[Point], {"value": [{"x": "1"}]}, "/value/0/x", "is not of type"),
    (Annotated[int, Field(ge=2)], {"value": 1}, "/value", "less than the minimum of 2"),
    (int, {"value": 3, "more": 1}, "", "Additional properties are not allowed"),
    (int, {}, "/value", "is required"),
]


@pytest.mark.parametrize(("hint", "arguments", "path", "message"), PROBLEMS)
def test_problems_of_the_schema_and_of_validators_have_paths(
    hint: Any, arguments: dict[str, Any], path: str, message: str
) -> None:
    (problem,) = OutputType(hint).problems(arguments)
    assert problem.path == path
    assert message in problem.message


def test_a_validator_that_fails_is_a_problem_and_no_crash() -> None:
    class Odd(BaseModel):
        x: int

        @field_validator("x")
        @classmethod
        def _broken(cls, x: int) -> int:
            raise KeyError(x)

    (problem,) = OutputType(Odd).problems({"x": 1})
    assert problem.message == "a validator failed: KeyError(1)"


def test_a_docstring_is_the_description_but_not_that_of_a_parent() -> None:
    class Plain(BaseModel):
        x: int

    @dataclasses.dataclass
    class Bare:
        x: int

    assert OutputType(Ticket).description == "A report of a fault."
    assert OutputType(Plain).description == ""
    assert OutputType(Bare).description == ""


@pytest.mark.parametrize(
    ("hint", "names"),
    [
        (Ticket | Point, ["Ticket", "Point"]),
        (Ticket | None, ["Ticket", "None"]),
        (int | str | list[int], ["int", "str", "list"]),
        (Literal["x", "y"], ["Literal"]),
        (Ticket, ["Ticket"]),
    ],
)
def test_each_member_of_a_union_is_a_type(hint: Any, names: list[str]) -> None:
    assert [each.name for each in output_types(hint)] == names


def test_a_changed_type_gives_a_misfit_with_the_problems() -> None:
    read = OutputType(Ticket).read({"title": "a"})
    assert isinstance(read, Misfit)
    assert [(each.path, each.message) for each in read.problems] == [
        ("/severity", "Field required")
    ]


class Empty(BaseModel):
    """Nothing."""


class Hook(BaseModel):
    """Holds a callable."""

    name: str
    action: Callable[[], int]


class Opaque:
    """No type of data."""


@dataclasses.dataclass
class Job:
    """Holds an object."""

    name: str
    opaque: Opaque


REFUSED: list[tuple[Any, str]] = [
    (Empty, "output Empty has no fields, so no model can give it"),
    (Hook, "the field 'action' of output Hook has no JSON Schema: "),
    (Job, "the field 'opaque' of output Job has no JSON Schema: "),
    (Opaque, "output Opaque has no "),
    (3, "output takes a type or a function, found 3"),
    ({"a": 1}, "output takes a type or a function, found {'a': 1}"),
    ("Ticket", "output takes a type or a function, found 'Ticket'"),
    ([Ticket, Point], "output takes a type, found a list; for one of several write Ticket | Point"),
]


@pytest.mark.parametrize(("hint", "message"), REFUSED)
def test_a_type_without_a_schema_is_refused_with_the_field(hint: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        output_types(hint)
    assert str(caught.value).startswith(message)


def test_a_recursive_type_keeps_its_definitions_when_it_is_wrapped() -> None:
    class Node(BaseModel):
        children: "list[Node]"

    Node.model_rebuild(_types_namespace={"Node": Node})
    made = OutputType(list[Node])
    assert made.problems({"value": [{"children": [{"children": []}]}]}) == []
    (problem,) = made.problems({"value": [{"children": [{"children": 3}]}]})
    assert problem.path == "/value/0/children/0/children"


def test_the_hint_of_what_a_function_returns_is_needed() -> None:
    def untyped(title: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
        return title

    def unknown(title: str) -> "Nowhere":  # type: ignore[name-defined]  # noqa: F821
        return title

    def typed(title: str) -> Ticket:
        return Ticket(title=title, severity="low")

    assert returned(typed) is Ticket
    with pytest.raises(ConfigError, match=r"write `def untyped\(\.\.\.\) -> Ticket:`"):
        returned(untyped)
    with pytest.raises(ConfigError, match="output function 'unknown': name 'Nowhere'"):
        returned(unknown)
