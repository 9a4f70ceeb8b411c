"""Events as JSON and back."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import fields

from penstock.core.envelope import Envelope
from penstock.core.events.codec import decode, encode, from_wire, kind_of, to_wire
from penstock.core.events.events import (
    CallSettled,
    Event,
    NoteEmitted,
    TaskStarted,
)
from penstock.core.events.flow_events import StepStarted
from tests.core.stored_events import STORED
from tests.kit.json_values import FEW, json_values

NAMES = [f"{kind}-{number}" for number, (_, kind, _) in enumerate(STORED)]


@pytest.mark.parametrize(("event", "kind", "text"), STORED, ids=NAMES)
def test_earlier_stored_events_stay_readable(event: Event, kind: str, text: str) -> None:
    assert decode(kind, text) == event
    assert from_wire(kind, json.loads(text)) == event


@pytest.mark.parametrize(("event", "kind", "text"), STORED, ids=NAMES)
def test_an_event_reads_back_as_it_was(event: Event, kind: str, text: str) -> None:
    assert kind_of(event) == kind
    assert json.loads(encode(event)) == json.loads(text)
    assert to_wire(event) == json.loads(text)
    assert decode(kind, encode(event)) == event
    body = to_wire(event)
    assert from_wire(kind, body) == event
    assert body == to_wire(event), "reading must not change what it reads"


def parts_of(value: Any) -> Iterator[Any]:
    """Yield the value and every struct inside it."""
    if isinstance(value, tuple):
        for each in value:
            yield from parts_of(each)
    elif isinstance(value, Struct):
        yield value
        for name in value.__struct_fields__:
            yield from parts_of(getattr(value, name))


def test_every_kind_of_event_is_in_the_table_with_every_field_set() -> None:
    parts = [part for event, *_ in STORED for part in parts_of(event)]
    kinds = {type(part) for part in parts}
    assert set(get_args(Event)) <= kinds
    for kind in kinds:
        for each in fields(kind):
            values = [getattr(part, each.name) for part in parts if type(part) is kind]
            named = f"{kind.__name__}.{each.name} is nowhere set"
            assert any(value is not each.default for value in values), named


def test_the_json_is_compact_and_its_letters_are_not_escaped() -> None:
    event = NoteEmitted(event_type="t", payload={"é": [1, "\u2028"]})
    assert encode(event) == '{"event_type":"t","payload":{"é":[1,"\u2028"]}}'


HOSTILE: list[tuple[Any, Any]] = [
    ("a\ud800b", "a\ufffdb"),
    ({"\udfff": 1}, {"\ufffd": 1}),
    ("\ud83d\ude00", "\U0001f600"),
    ([float("nan"), float("inf"), 1.5], [None, None, 1.5]),
    ({"a": {"b": -float("inf")}}, {"a": {"b": None}}),
    (10**400, 10**400),
    ("\x00\x1f\x7f", "\x00\x1f\x7f"),
]


@pytest.mark.parametrize(("given", "read"), HOSTILE)
def test_values_that_json_cannot_hold_are_replaced(given: Any, read: Any) -> None:
    event = NoteEmitted(event_type="t", payload=given)
    assert decode("note_emitted", encode(event)) == NoteEmitted(event_type="t", payload=read)


@FEW
@given(output=json_values, tool_id=st.text(), preview=st.none() | st.text())
def test_the_context_of_the_model_is_derived_instead_of_stored(
    output: Any, tool_id: str, preview: str | None
) -> None:
    bare = CallSettled(tool_id=tool_id, envelope=Envelope.success(output), preview=preview)
    context = json.dumps(output, ensure_ascii=False, separators=(",", ":"))
    event = CallSettled(
        tool_id=tool_id, envelope=Envelope.success(output), preview=preview, context=context
    )
    assert decode("call_settled", encode(event)) == event
    assert decode("call_settled", json.dumps(to_wire(event))) == event
    assert decode("call_settled", encode(bare)) == bare
    assert "context" not in to_wire(event)


@pytest.mark.parametrize("output", ["", "a", '"a"', '{"a": 1}', "\u2028", "1"])
def test_a_text_that_a_model_read_as_it_is_is_stored_once(output: str) -> None:
    """Events of older versions, in which a model read it as JSON, keep what it read."""
    success = Envelope.success(output)
    event = CallSettled(tool_id="t", envelope=success, context=output, is_text=True)
    older = CallSettled(tool_id="t", envelope=success, context=json.dumps(output))
    assert "context" not in to_wire(event)
    assert encode(event).count("output") == 1
    for each in (event, older):
        assert decode("call_settled", encode(each)) == each
        assert decode("call_settled", json.dumps(to_wire(each))) == each
    assert '"context"' not in encode(event)


def test_an_output_that_looks_like_a_body_does_not_mislead() -> None:
    output = {"envelope": {"status": "success", "output": 1}, "t": '"envelope":{"status":"success"'}
    context = json.dumps(output, separators=(",", ":"))
    event = CallSettled(
        tool_id="t",
        envelope=Envelope.success(output),
        preview='"envelope":{"status":"success","output":2}}',
        context=context,
    )
    assert decode("call_settled", encode(event)) == event


@pytest.mark.parametrize(("event", "kind", "text"), STORED, ids=NAMES)
def test_a_field_of_a_newer_version_is_skipped(event: Event, kind: str, text: str) -> None:
    newer = {**json.loads(text), "of_tomorrow": {"a": 1}}
    assert decode(kind, json.dumps(newer)) == event
    assert from_wire(kind, newer) == event


@pytest.mark.parametrize(
    ("event", "kind", "gone"),
    [
        (TaskStarted(model="m"), "task_started", {"history_from": 7}),
        (StepStarted(step_id="a", visit=1), "step_started", {"agent_hash": "ab", "inputs": {}}),
    ],
)
def test_a_removed_field_is_ignored(event: Event, kind: str, gone: dict[str, Any]) -> None:
    assert decode(kind, json.dumps(to_wire(event) | gone)) == event


BROKEN = [
    (
        "call_began",
        "{}",
        "unknown kind of event 'call_began'; a newer penstock may have written it",
    ),
    ("erased", "", "a body of 'erased' is one JSON object, found '': Expecting value"),
    ("erased", "[]", "a body of 'erased' is one JSON object, found '\\[\\]': it is none"),
    ("erased", "{} {}", "found '{} {}': more follows at 2"),
    ("erased", "[" * 100_000, "maximum recursion depth exceeded"),
    ("call_started", "{}", "call_started lacks tool_id, idempotency_key"),
    ("call_settled", "{}", "call_settled lacks tool_id, envelope"),
    ("call_settled", '{"tool_id":"t","envelope":null}', "envelope cannot be None"),
    ("call_settled", '{"tool_id":"t","envelope":{}}', "envelope cannot be {}: 'status'"),
    (
        "call_settled",
        '{"tool_id":"t","envelope":{"status":"fine"}}',
        "envelope cannot be {'status': 'fine'}: 'fine' is not a valid Status",
    ),
    (
        "task_ended",
        '{"status":"over"}',
        "status cannot be 'over': 'over' is not a valid TaskStatus",
    ),
    ("task_started", '{"offered":"ab"}', "offered cannot be 'ab': expected an array"),
    ("reply_received", '{"calls":[{}]}', "calls cannot be .*tool_call lacks call_id, name, arg"),
    ("question_asked", '{"question":{"kind":"fork"}}', "question lacks question_id, text, path"),
]


@pytest.mark.parametrize(("kind", "text", "expected"), BROKEN)
def test_an_invalid_event_is_refused_with_a_reason(kind: str, text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        decode(kind, text)


@FEW
@given(kind=st.sampled_from([kind for _, kind, _ in STORED]), body=json_values)
def test_an_invalid_body_raises_no_other_error(kind: str, body: Any) -> None:
    with suppress(ValueError):
        assert isinstance(decode(kind, json.dumps(body)), get_args(Event))
