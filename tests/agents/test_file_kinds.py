"""What was read line by line becomes what it says."""

from typing import Any

import pytest

from penstock.agents.file_kinds import converted


@pytest.mark.parametrize(
    ("values", "wanted"),
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
def test_texts_of_some_fields_become_what_they_say(
    values: dict[str, Any], wanted: dict[str, Any]
) -> None:
    """Values read this way are strings and are converted by the field (`true`, `3`)."""
    assert converted(values) == wanted
