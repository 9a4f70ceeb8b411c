"""The tool that follows from a function's hints and docstring."""

from collections.abc import Callable
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from msgspec import Struct
from pydantic import BaseModel, Field

from penstock.tools.python.context import ToolContext
from penstock.tools.python.function import tool
from penstock.tools.python.hints import read_signature


class Colour(Enum):
    """A closed set."""

    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    """A model of its own."""

    sku: str
    count: int = Field(default=1, ge=1)


class Tree(BaseModel):
    """A model that holds itself."""

    title: str
    children: "list[Tree]" = []


def everything(  # noqa: PLR0913
    order: int,
    note: str | None,
    size: Literal["s", "m"],
    items: list[Item],
    *,
    colour: Colour = Colour.RED,
    when: Annotated[datetime, Field(description="Wins over Args.")] | None = None,
    weight: Annotated[float, Field(gt=0)] = 1.5,
    ctx: ToolContext,
) -> dict[str, int]:
    """Do everything.

    A second paragraph.

    Args:
        order: The number of the order,
            as printed.
        size (str): How large.
        weight: In kilograms.

    Returns:
        Nothing of interest.
    """
    raise NotImplementedError


ITEM = {
    "type": "object",
    "description": "A model of its own.",
    "properties": {
        "sku": {"type": "string"},
        "count": {"type": "integer", "minimum": 1, "default": 1},
    },
    "required": ["sku"],
}
GOLDEN = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "order": {"type": "integer", "description": "The number of the order, as printed."},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "size": {"type": "string", "enum": ["s", "m"], "description": "How large."},
        "items": {"type": "array", "items": ITEM},
        "colour": {"type": "string", "enum": ["red", "blue"], "description": "A closed set."},
        "when": {
            "anyOf": [
                {"type": "string", "format": "date-time", "description": "Wins over Args."},
                {"type": "null"},
            ],
            "default": None,
        },
        "weight": {
            "type": "number",
            "exclusiveMinimum": 0,
            "description": "In kilograms.",
            "default": 1.5,
        },
    },
    "required": ["order", "note", "size", "items"],
}


def test_the_schema_of_a_function_with_everything() -> None:
    """Schema equals the golden file: references inlined, texts from Args, Annotated wins."""
    signature = read_signature(everything)
    assert signature.findings == []
    assert signature.input_schema == GOLDEN
    said = "Do everything.\n\nA second paragraph.\n\nReturns:\n    Nothing of interest."
    assert signature.description == said
    assert signature.contexts == ("ctx",)
    assert signature.output_schema == {
        "type": "object",
        "additionalProperties": {"type": "integer"},
    }


def test_a_description_in_annotated_wins_over_args() -> None:
    def f(x: Annotated[int, Field(description="Mine.")]) -> None:
        """Do it.

        Args:
            x: Theirs.
        """

    assert read_signature(f).input_schema["properties"]["x"]["description"] == "Mine."


def test_a_recursive_model_keeps_its_definition() -> None:
    def grow(tree: Tree) -> None:
        """Grow."""

    schema = read_signature(grow).input_schema
    tree = schema["properties"]["tree"]
    assert tree["properties"]["title"] == {"type": "string"}
    assert tree["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert list(schema["$defs"]) == ["Tree"]


class Span(Struct):
    """From when, for how long."""

    begin: datetime
    end: int = 0


SPAN = {
    "description": "From when, for how long.",
    "type": "object",
    "properties": {"begin": {"type": "string"}, "end": {"type": "integer", "default": 0}},
    "required": ["begin"],
}


BASE64 = {"type": "string", "contentEncoding": "base64"}


class Blob(Struct):
    """Bytes of a kind."""

    content: bytes


BLOB = {
    "description": "Bytes of a kind.",
    "type": "object",
    "properties": {"content": BASE64},
    "required": ["content"],
}


def outputs() -> dict[str, tuple[Any, Any]]:
    return {
        "dict": (dict, None),
        "anything": (Any, None),
        "nothing": (None, None),
        "bytes": (bytes, BASE64),
        "bytes inside": (list[bytes], {"type": "array", "items": BASE64}),
        "bytes in a struct": (Blob, BLOB),
        "text": (str, {"type": "string"}),
        "model": (Item, ITEM | {"required": ["sku"]}),
        "struct": (list[Span], {"type": "array", "items": SPAN}),
        "times are checked by shape": (datetime, {"type": "string"}),
        "list": (list[int], {"type": "array", "items": {"type": "integer"}}),
    }


@pytest.mark.parametrize(("hint", "expected"), outputs().values(), ids=outputs())
def test_the_output_schema_is_that_of_the_return_hint(hint: Any, expected: Any) -> None:
    def f() -> None:
        """Do it."""

    f.__annotations__["return"] = hint
    assert read_signature(f).output_schema == expected


def no_hint(x) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """Lack a hint."""


def many(*values: int) -> None:
    """Take many."""


def any_name(**values: int) -> None:
    """Take any name."""


def by_place(x: int, /) -> None:
    """Take by place."""


def unknown_hint(x: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821
    """Hint at nothing."""


def no_json(x: Callable[[], int]) -> None:
    """Want a function."""


def no_json_out() -> Callable[[], int]:
    """Give a function."""
    raise NotImplementedError


async def yields() -> Any:
    """Yield."""
    yield 1


class Raises:
    """A type whose own code fails, whatever it is asked."""

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> Any:
        """Fail."""
        raise RuntimeError("no schema today")


def no_pattern(x: Annotated[str, Field(pattern=r"^(?=a)\w+$")]) -> None:
    """Take a pattern that nothing here knows."""


def raising_hint(x: Raises) -> None:
    """Take it."""


def raising_text(x: "1 / 0") -> None:  # type: ignore[valid-type]
    """Take what is no type."""


def raising_out() -> Raises:  # type: ignore[empty-body]
    """Return it."""


def field_default(x: int = Field(5, ge=1)) -> None:
    """Take a default as models write it."""


def test_a_default_that_is_not_json_is_not_shown() -> None:
    def f(x: float = float("inf"), y: int = 2**80, z: float = 1.5) -> None:
        """Take numbers."""

    shown = read_signature(f).input_schema["properties"]
    assert shown == {
        "x": {"type": "number"},
        "y": {"type": "integer"},
        "z": {"type": "number", "default": 1.5},
    }


@pytest.mark.parametrize(
    ("function", "code", "message"),
    [
        (no_hint, "python-hint", "the parameter 'x' has no type hint; add one, such as x: str"),
        (many, "python-parameter", "'values' takes any number of values; take a list"),
        (any_name, "python-parameter", "'values' takes any name"),
        (by_place, "python-parameter", "'x' is positional-only; remove the /"),
        (unknown_hint, "python-hint", "a hint cannot be read: name 'Nowhere' is not defined"),
        (no_json, "python-hint", "the parameter 'x': "),
        (no_json_out, "python-hint", "what it returns"),
        (yields, "python-hint", "it yields values; a tool returns one"),
        (
            no_pattern,
            "python-hint",
            "the parameter 'x': Annotated has no JSON form: Error building",
        ),
        (
            raising_hint,
            "python-hint",
            "the parameter 'x': Raises has no JSON form: no schema today",
        ),
        (raising_text, "python-hint", "a hint cannot be read: division by zero"),
        (raising_out, "python-hint", "what it returns, Raises, has no JSON form: no schema today"),
        (field_default, "python-parameter", "write x: Annotated[…, Field(…)] = …"),
    ],
)
def test_an_invalid_signature_is_reported_by_line(
    function: Callable[..., Any], code: str, message: str
) -> None:
    (found,) = read_signature(function).findings
    assert found.code == code
    assert message in found.message
    assert found.file == "test_hints.py"
    assert found.line == function.__code__.co_firstlineno


def test_each_parameter_is_reported_on_its_own_line() -> None:
    def several(
        good: int,
        *args: int,
        **kwargs: int,
    ) -> None:
        """Take too much."""

    first = several.__code__.co_firstlineno
    findings = read_signature(several).findings
    assert [found.line - first for found in findings] == [2, 3]


def test_of_a_function_without_a_source_the_first_line_is_named() -> None:
    made: dict[str, Any] = {}
    exec("def f(x): ...", made)  # noqa: S102  its source is nowhere
    assert {each.line for each in tool(made["f"]).check()} == {1}
