"""Items of a reply of the Responses API, and what the next request repeats of them."""

from typing import Any

import pytest

from penstock.models.wires.responses_items import (
    CALL,
    MESSAGE,
    REASONING,
    ReplyItem,
    carry_parts,
    contents_of,
)

THOUGHT = {"type": "reasoning", "id": "rs_1", "encrypted_content": "gA"}


def message(*pieces: str, **end: Any) -> ReplyItem:
    return ReplyItem(MESSAGE, list(pieces), end={"id": "msg_1", **end})


def call(arguments: str) -> ReplyItem:
    return ReplyItem(CALL, [arguments], call=0, call_id="c_1", end={"id": "fc_1"})


@pytest.mark.parametrize(
    ("item", "parts"),
    [
        (message("He", "llo"), ({"type": "text", "chars": 5, "id": "msg_1"},)),
        (
            message("Hello", phase="commentary"),
            ({"type": "text", "chars": 5, "id": "msg_1", "phase": "commentary"},),
        ),
        (message("Hello", id=7), ({"type": "text", "chars": 5},)),
        (message(), ()),
        (call('{"a":1}'), ({"type": "call", "index": 0, "id": "c_1", "item": "fc_1"},)),
        (
            call('{"a": 1}'),
            (
                {
                    "type": "call",
                    "index": 0,
                    "id": "c_1",
                    "item": "fc_1",
                    "arguments": '{"a": 1}',
                },
            ),
        ),
        (call("{"), ({"type": "call", "index": 0, "id": "c_1", "item": "fc_1"},)),
        (
            ReplyItem("new", end={"type": "new", "id": "n", "of": None}),
            ({"type": "new", "id": "n"},),
        ),
    ],
    ids=[
        "a text",
        "a text with a phase",
        "an id that is no text",
        "a message without a text",
        "a call as a request spells it",
        "a call with other spaces",
        "a call that is no JSON",
        "an unknown item",
    ],
)
def test_an_item_is_a_part_of_the_carry(item: ReplyItem, parts: tuple[dict[str, Any], ...]) -> None:
    assert carry_parts([item]) == parts


def test_reasoning_is_repeated_with_what_followed_it_only() -> None:
    thought = ReplyItem(REASONING, end=THOUGHT)
    assert [each["type"] for each in carry_parts([thought, message("a")])] == ["reasoning", "text"]
    assert [each["type"] for each in carry_parts([message("a"), thought])] == ["text"]
    assert carry_parts([thought, thought]) == ()


def test_nothing_is_repeated_by_its_id_if_the_provider_cannot_read_the_reasoning() -> None:
    """Nothing is stored at the provider, so it would not find the ids."""
    bare = ReplyItem(REASONING, end={"type": "reasoning", "id": "rs_1"})
    assert carry_parts([bare, message("a"), call("{}")]) == (
        {"type": "text", "chars": 1},
        {"type": "call", "index": 0, "id": "c_1"},
    )


@pytest.mark.parametrize("content", [None, "text", 3, {"type": "output_text"}])
def test_content_that_is_no_list_is_empty(content: Any) -> None:
    assert contents_of(content) == []
    assert contents_of([content, {"a": 1}])[-1] == {"a": 1}
