"""The arguments that the offline model finds in a message."""

import time
from typing import Any

import pytest

from penstock.models.offline_arguments import describe, fill

NUMBER = {"type": "number"}
INTEGER = {"type": "integer"}
STRING = {"type": "string"}


def parameters(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


ADD = parameters("a", "b", a=NUMBER, b=NUMBER)
PAY = parameters("order", "amount", order=STRING, amount=NUMBER)
MAIL = parameters("to", "subject", "body", to=STRING, subject=STRING, body=STRING)


@pytest.mark.parametrize(
    ("text", "schema", "arguments"),
    [
        (" 1 and -2.5", ADD, {"a": 1, "b": -2.5}),
        (' {"b": 5, "a": 4}', ADD, {"a": 4, "b": 5}),
        (" b=2 with a = 1", ADD, {"a": 1, "b": 2}),
        (" 1 with b=2", ADD, {"a": 1, "b": 2}),
        (" B: 2, A: 1", ADD, {"a": 1, "b": 2}),
        (" react hooks, please", parameters("query", query=STRING), {"query": "react hooks"}),
        (' for "two words" now', parameters("query", query=STRING), {"query": "two words"}),
        (" say it's late", parameters("text", text=STRING), {"text": "say it's late"}),
        (
            " see https://e.org/x?a=1.",
            parameters("url", url=STRING),
            {"url": "https://e.org/x?a=1"},
        ),
        (
            " ann@example.com subject: Hello there body: All is well, friend",
            MAIL,
            {"to": "ann@example.com", "subject": "Hello there", "body": "All is well, friend"},
        ),
        (
            " full https://e.org",
            parameters("url", url=STRING, mode={"enum": ["article", "full"]}),
            {"url": "https://e.org", "mode": "full"},
        ),
        (" on", parameters("lit", lit={"type": "boolean"}), {"lit": True}),
        (" lit=no", parameters("lit", lit={"type": "boolean"}), {"lit": False}),
        (" [1, 2]", parameters("n", n={"type": "array", "items": NUMBER}), {"n": [1, 2]}),
        (" 1, 2 and 3", parameters("n", n={"type": "array", "items": INTEGER}), {"n": [1, 2, 3]}),
        (" 'a' 'b'", parameters("n", n={"type": "array", "items": STRING}), {"n": ["a", "b"]}),
        (' o={"x": [1]}', parameters("o", o={"type": "object"}), {"o": {"x": [1]}}),
        (" on 2030-01-02", parameters("date", date=STRING), {"date": "2030-01-02"}),
        (" x=7", parameters("x", x={"anyOf": [{"type": "null"}, INTEGER]}), {"x": 7}),
        (" x=7", parameters("x", x=True), {"x": "7"}),
        (" 7", {"type": "object", "required": ["x"]}, {"x": "7"}),
        (" 7 and 8", parameters("q", q=STRING, limit=INTEGER), {"q": "7 and 8"}),
        (" 7 dice", parameters(count=INTEGER, sides=INTEGER), {"count": 7}),
        (" 7 with 20 sides", parameters(count=INTEGER, sides=INTEGER), {"count": 7, "sides": 20}),
        (" order A1 amount of 10", PAY, {"order": "A1", "amount": 10}),
        (" 10 back for order A1", PAY, {"order": "A1", "amount": 10}),
        (
            " in Oslo, in fahrenheit",
            parameters("city", city=STRING, unit={"enum": ["celsius", "fahrenheit"]}),
            {"city": "Oslo", "unit": "fahrenheit"},
        ),
        (' {"any": "thing"}', {"type": "object"}, {"any": "thing"}),
    ],
)
def test_arguments_are_found(text: str, schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    """Fills arguments from JSON, `key=value`, URLs, numbers and quoted strings in the message."""
    filled = fill(text, schema)
    assert (filled.arguments, filled.missing, filled.wrong) == (arguments, [], [])


def test_text_before_the_name_of_the_tool_has_lower_priority() -> None:
    assert fill(" them", ADD, "1 and 2:").arguments == {"a": 1, "b": 2}
    assert fill(" in Oslo", parameters("city", city=STRING), "so, the").arguments == {
        "city": "Oslo"
    }
    assert fill("", parameters("city", city=STRING), "Oslo").arguments == {"city": "Oslo"}


@pytest.mark.parametrize(
    ("text", "schema", "missing", "wrong"),
    [
        ("", ADD, ["a", "b"], []),
        (" 2", ADD, ["b"], []),
        (" a=x b=2", ADD, [], ["`a` must be a number, found 'x'"]),
        (" a=NaN b=true", ADD, [], ["`b` must be a number, found 'true'"]),
        (" ann@example.com", MAIL, ["subject", "body"], []),
        (" n=1.5", parameters("n", n=INTEGER), [], ["`n` must be an integer, found '1.5'"]),
        (" m=x", parameters(m={"enum": ["a", 1]}), [], ["`m` must be one of a, 1, found 'x'"]),
        (" {broken", parameters("o", o={"type": "object"}), ["o"], []),
        (" Rome", parameters("p", "m", p=STRING, m={"enum": ["a", "b"]}), ["m"], []),
        (" Rome", parameters("k", k={"const": "a"}), ["k"], []),
    ],
)
def test_missing_and_invalid_arguments_are_named(
    text: str, schema: dict[str, Any], missing: list[str], wrong: list[str]
) -> None:
    filled = fill(text, schema)
    assert filled.missing == missing
    assert set(wrong) <= set(filled.wrong)


@pytest.mark.parametrize(
    "text",
    ["{" * 4000, "a" * 4000, "- " * 2000, "=" * 4000, "[" * 4000, '"', "“" * 20_000],
    ids=range(7),
)
def test_hostile_text_is_read_quickly(text: str) -> None:
    started = time.process_time()
    fill(text, parameters("query", "n", query=STRING, n={"type": "array"}))
    assert time.process_time() - started < 0.3


def test_a_parameter_is_described_in_words() -> None:
    assert describe("a", {"type": "number", "description": "First."}) == "`a` (number: First)"
    assert describe("m", {"enum": ["x", "y"]}) == "`m` (one of x, y)"
    assert describe("z", None) == "`z`"
