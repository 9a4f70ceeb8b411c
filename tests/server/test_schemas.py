"""The components of the OpenAPI document."""

import json

import pytest

from penstock.core.schema import Schema
from penstock.server.schemas import COMPONENTS, STRING, frame, listed, page_of, record, ref


@pytest.mark.parametrize("name", COMPONENTS)
def test_each_component_is_a_schema(name: str) -> None:
    whole = json.dumps(ref(name) | {"$defs": COMPONENTS})
    schema = Schema(json.loads(whole.replace("#/components/schemas/", "#/$defs/")))
    assert schema.problems(7)


def test_a_record_has_its_keys_and_no_others() -> None:
    schema = Schema(record({"a": STRING, "b": STRING}, "b"))
    assert schema.problems({"a": "x"}) == []
    assert len(schema.problems({"b": "x", "c": "x"})) == 2


def test_a_frame_has_its_type() -> None:
    schema = Schema(frame("error", {"message": STRING}))
    assert schema.problems({"type": "error", "message": "x"}) == []
    assert schema.problems({"type": "other", "message": "x"})


def test_a_page_has_its_items_and_what_it_is_a_part_of() -> None:
    page = page_of("agents", "Agent")
    assert page["properties"]["agents"] == listed(ref("Agent"))
    assert page["required"] == ["agents", "meta"]
