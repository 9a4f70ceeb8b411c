"""The table of an agent file."""

from typing import Any

import pytest

from penstock.agents.agent_fields import ACCESS, CARD, FIELDS, PURPOSE, converted

PAGE = (
    "name description model thinking tools skills inputs outputs interactive output context_files "
    "context fork_session access card architect max_turns"
)
MORE = ("selected_skills", "labels", "handoffs", "settings", "model_settings")


def test_every_field_of_the_page_is_read() -> None:
    assert [each.key for each in FIELDS] == [*PAGE.split(), *MORE]
    assert [each.key for each in ACCESS] == ["read", "write", "bash"]
    assert [each.key for each in CARD] == ["type", "label", "metric", "role"]
    assert [each.key for each in PURPOSE] == ["use_when", "produces", "depends_on", "domain"]


def test_every_field_has_an_expected_value_and_a_meaning() -> None:
    assert all(each.kind.expected and each.meaning for each in (*FIELDS, *ACCESS, *CARD, *PURPOSE))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"interactive": "false", "max_turns": "3"}, {"interactive": False, "max_turns": 3}),
        ({"fork_session": "true"}, {"fork_session": True}),
        (
            {"outputs": ["a", {"name": "b", "required": "true"}]},
            {"outputs": ["a", {"name": "b", "required": True}]},
        ),
        (
            {"outputs": [{"name": "b"}, "required", 3]},
            {"outputs": [{"name": "b"}, "required", 3]},
        ),
        ({"description": "true", "name": "3"}, {"description": "true", "name": "3"}),
        ({"max_turns": "many", "interactive": "no"}, {"max_turns": "many", "interactive": "no"}),
        ({"max_turns": "999999"}, {"max_turns": 999_999}),
        ({"max_turns": "9999999"}, {"max_turns": "9999999"}),
        ({"max_turns": "٣"}, {"max_turns": "٣"}),
        ({"max_turns": "9" * 5_000}, {"max_turns": "9" * 5_000}),
        ({"max_turns": ["3"], "outputs": None}, {"max_turns": ["3"], "outputs": None}),
    ],
)
def test_texts_of_some_fields_are_converted(
    values: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Values read this way are strings and are converted by the field (`true`, `3`)."""
    assert converted(values) == expected
