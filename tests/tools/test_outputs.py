"""Outputs of tools as JSON."""

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from msgspec import Struct
from pydantic import BaseModel, Field

from penstock.core.call_errors import InvalidOutput
from penstock.testing.invocation import open_workbench
from penstock.tools.outputs import encoded, plain_base64, to_json
from penstock.tools.python.function import tool

DEPTH = 200


class Level(IntEnum):
    """A number with a name."""

    LOW = 1


class Colour(Enum):
    """A text with a name."""

    RED = "red"


@dataclass
class Point:
    """Two numbers."""

    x: int
    y: "Point | None" = None


class Span(Struct):
    """Two points."""

    begin: Point
    end: Point | None = None


class Order(BaseModel):
    """A model with an alias and a time."""

    number: int = Field(alias="no")
    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    colour: Colour = Colour.RED


class Text(str):
    """A text of a kind of its own."""

    __slots__ = ()


class Number(int):
    """A number of a kind of its own."""


def converted() -> list[tuple[Any, Any]]:
    moment = datetime(2026, 11, 21, 9, tzinfo=UTC)
    return [
        (None, None),
        (True, True),
        (1.5, 1.5),
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
        ((1, 2), [1, 2]),
        ({3}, [3]),
        (Text("x"), "x"),
        (Number(7), 7),
        (Level.LOW, 1),
        ({Level.LOW: Colour.RED, False: 1}, {"1": "red", "false": 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (Point(1, Point(2)), {"x": 1, "y": {"x": 2, "y": None}}),
        (Span(Point(1)), {"begin": {"x": 1, "y": None}, "end": None}),
        (Order(no=1), {"no": 1, "at": "2026-01-01T00:00:00Z", "colour": "red"}),
        (moment, "2026-11-21T09:00:00Z"),
        ([date(2026, 1, 2)], ["2026-01-02"]),
        (timedelta(hours=1), "PT1H"),
        (Decimal("1.10"), "1.10"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (b"hi", {"data": "aGk=", "encoding": "base64", "mimeType": "application/octet-stream"}),
        (
            b"%PDF-1.7",
            {"data": "JVBERi0xLjc=", "encoding": "base64", "mimeType": "application/pdf"},
        ),
    ]


@pytest.mark.parametrize(("value", "expected"), converted())
def test_a_value_with_a_json_form_is_converted(value: Any, expected: Any) -> None:
    """JSON values, pydantic models, dataclasses, datetime, bytes as base64 with mime."""
    made = to_json(value, DEPTH)
    assert made == expected
    assert type(made) is type(expected)


class Wide(IntEnum):
    """A number that JSON can spell and no double can hold."""

    LARGE = 10**400


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, "the output at / is nan; return None or a text"),
        ({"a": [1, math.inf]}, "the output at /a/1 is inf"),
        (10**400, "the output at / has 1329 bits; return None or a text"),
        ({"a": [-(10**400)]}, "the output at /a/0 has 1329 bits"),
        (Wide.LARGE, "the output at / has 1329 bits"),
        ({"file": Path("x")}, "the output at /file is a path of this machine"),
        ([object()], "the output at /0 is an object; a tool returns JSON"),
        ({"a/b": {1, object}}, "the output at /a~1b/"),
        ({(1, 2): 3}, "the output at / has the key (1, 2); keys are texts"),
        ({None: 3}, "has the key None"),
        ({1: "a", "1": "b"}, "the output at / has two keys that are '1' as texts"),
        ({"a": {True: 1, "true": 2}}, "the output at /a has two keys that are 'true' as texts"),
        (len, "is a builtin_function_or_method"),
        (Point, "is a type"),
    ],
)
def test_a_value_without_a_json_form_is_refused_with_its_place(value: Any, message: str) -> None:
    """Not serialisable, NaN, depth: INVALID_OUTPUT, names the path."""
    with pytest.raises(InvalidOutput) as refused:
        to_json(value, DEPTH)
    assert message in str(refused.value)
    assert refused.value.details


@pytest.mark.parametrize(("levels", "fits"), [(200, True), (201, False)])
def test_an_output_over_its_depth_is_refused(levels: int, fits: bool) -> None:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    if fits:
        assert to_json(value, DEPTH) == value
        return
    with pytest.raises(InvalidOutput, match="at /0/0/0 is nested more than 200 levels deep"):
        to_json(value, DEPTH)


def test_a_value_that_contains_itself_is_too_deep() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(InvalidOutput, match="nested"):
        to_json(value, DEPTH)


@pytest.mark.parametrize("value", [{"a": 1}, [1], {"a": {"b": [1]}}])
def test_a_later_change_of_a_value_does_not_change_the_outcome(value: Any) -> None:
    outcome = to_json(value, DEPTH)
    assert outcome == value
    assert outcome is not value


class Page(BaseModel):
    """A page with a picture."""

    picture: bytes
    following: "Page | None" = None


@tool(effect="none")
async def echo(
    content: bytes,
    many: list[bytes] | None = None,
    named: dict[str, bytes] | None = None,
    page: Page | None = None,
    either: bytes | str = "",
) -> dict[str, Any]:
    """Say what came."""
    return {"types": [type(each).__name__ for each in (content, either)], "page": page is not None}


@tool(effect="none")
async def same(content: bytes, page: Page | None = None) -> tuple[bytes, Page | None]:
    """Return what came."""
    return content, page


@tool(effect="none")
async def same_or_words(content: bytes) -> bytes | str:
    """Return what came."""
    return content


@pytest.mark.parametrize("text", ["", "aGk=", "AP8QgA==", "aGkgdGhlcmUK"])
async def test_bytes_come_and_go_as_the_same_base64(text: str) -> None:
    page = {"picture": text, "following": {"picture": text, "following": None}}
    bench = await open_workbench(same, same_or_words)
    envelope = await bench.call("same", {"content": text, "page": page})
    assert envelope.output == [text, page]
    assert (await bench.call("same_or_words", {"content": text})).output == text


async def test_bytes_are_decoded_wherever_a_hint_has_them() -> None:
    given = {
        "content": "aGk=",
        "many": ["aGk="],
        "named": {"a": "aGk="},
        "page": {"picture": "aGk="},
        "either": "words",
    }
    envelope = await (await open_workbench(echo)).call("echo", given)
    assert envelope.output == {"types": ["bytes", "str"], "page": True}


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"content": "no base64!"}, "/content"),
        ({"content": "aGk"}, "/content"),
        ({"content": "", "many": ["", "ä"]}, "/many/1"),
        ({"content": "", "named": {"a/b": "ä"}}, "/named/a~1b"),
        (
            {"content": "", "page": {"picture": "", "following": {"picture": "x"}}},
            "/page/following",
        ),
    ],
)
async def test_invalid_base64_is_refused_with_its_place(given: Any, path: str) -> None:
    envelope = await (await open_workbench(echo)).call("echo", given)
    assert envelope.error
    assert envelope.error.code == "INVALID_INPUT"
    assert f'input of "echo" is not valid: {path}' in envelope.error.message
    assert "is not base64" in envelope.error.message


async def test_a_model_reads_a_placeholder_for_long_bytes() -> None:
    """Also of bytes of no known type, which nothing but the hint tells from words."""
    bench = await open_workbench(same)
    await bench.call("same", {"content": "AAEC" * 100})
    (settled,) = await bench.settled()
    assert settled.context == '["[base64 data: 300 bytes, application/octet-stream]",null]'


@pytest.mark.parametrize(("value", "kind"), [(Text("x"), str), (Number(7), int), (Level.LOW, int)])
def test_recorded_values_have_plain_types(value: Any, kind: type[Any]) -> None:
    assert type(to_json(value, 200)) is kind


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (encoded(b"hi"), "aGk="),
        ({"mimeType": "a/b"}, {"mimeType": "a/b"}),
        ("no data", "no data"),
        (["data"], ["data"]),
        (None, None),
    ],
)
def test_only_values_that_the_schema_declares_as_bytes_become_base64(
    value: Any, expected: Any
) -> None:
    assert plain_base64(value, ()) == expected
