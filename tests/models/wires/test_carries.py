"""Which carries a model reads, and the words of a provider that refuses one."""

import pytest

from penstock.core.call import ToolCall
from penstock.core.ids import CallId
from penstock.core.messages import AssistantMessage, Carry, Message, UserMessage
from penstock.models.model import ModelRequest
from penstock.models.wires.carries import (
    carry_of,
    compact,
    has_carries,
    refuses_carry,
    spelled,
)

TEXT, CALL = {"type": "text", "chars": 2}, {"type": "call", "index": 0, "id": "x"}
THOUGHT = {"type": "reasoning", "id": "rs_1"}
CALLS = (ToolCall(CallId("tc_1"), "f", {}),)


@pytest.mark.parametrize(
    ("provider", "family", "parts", "is_read"),
    [
        ("a@h", "m", (THOUGHT, TEXT, CALL), True),
        ("b@h", "m", (THOUGHT, TEXT, CALL), False),
        ("a@h", "n", (THOUGHT, TEXT, CALL), False),
        ("a@h", "m", (THOUGHT, CALL), False),
        ("a@h", "m", (TEXT, TEXT, CALL), False),
        ("a@h", "m", (TEXT,), False),
        ("a@h", "m", (TEXT, CALL, CALL), False),
    ],
)
def test_a_carry_is_read_by_its_own_model_and_for_its_own_reply(
    provider: str, family: str, parts: tuple[dict[str, object], ...], is_read: bool
) -> None:
    carry = Carry(provider, family, "", parts)
    message = AssistantMessage("Hi", CALLS, carry)
    assert carry_of(message, "a@h", "m") is (carry if is_read else None)
    assert carry_of(AssistantMessage("Hi", CALLS), "a@h", "m") is None


def test_whether_a_request_has_carries() -> None:
    plain = AssistantMessage("Hi", CALLS)
    with_carry = AssistantMessage("Hi", (), Carry("a", "m", "", ()))
    rows: list[tuple[list[Message], bool]] = [
        ([UserMessage("hi"), plain], False),
        ([plain, with_carry], True),
    ]
    for messages, carries in rows:
        assert has_carries(ModelRequest(system="", messages=messages)) is carries


@pytest.mark.parametrize(
    ("words", "is_refusal"),
    [
        ("messages.1.content.0: Invalid `signature` in `thinking` block", True),
        ("thinking or redacted_thinking blocks cannot be modified", True),
        ("Expected `thinking` or `redacted_thinking`, but found `tool_use`", True),
        ("invalid_encrypted_content The content is wrong.", True),
        ("The encrypted content gAAA could not be verified.", True),
        ("Item 'rs_1' was provided without its required following item.", True),
        ("Item 'fc_1' was provided without its required 'reasoning' item: 'rs_1'.", True),
        ("Item with id 'rs_1' not found.", True),
        ("Function call is missing a thought_signature in functionCall parts", True),
        ("invalid_request_error Unknown parameter: 'foo'", False),
        ("prompt is too long", False),
        ("", False),
        ("expected " * 20_000, False),
        ("thinking " * 20_000, False),
    ],
)
def test_words_of_a_refused_carry(words: str, is_refusal: bool) -> None:
    assert refuses_carry(words) is is_refusal


def test_arguments_that_are_spelled_as_a_request_spells_them() -> None:
    assert compact({"a": [1, "ü"]}) == '{"a":[1,"\\u00fc"]}'
    assert spelled('{"a":1}', {"a": 1})
    assert not spelled('{"a": 1}', {"a": 1})
