"""Settings in agent files: parsed strictly, with the ranges of the page."""

from typing import Any

import pytest

from penstock.agents.agent import ChatSettings
from penstock.agents.agent_file import KnownNames
from penstock.agents.agent_settings import ELSEWHERE, SETTINGS, parse_settings
from tests.kit.agent_texts import agent_of, said_of

RANGES = """
llm_temperature 0..2
llm_max_tokens 1..200000
max_iterations 1..50
max_parallel_tools 1..32
loop_window 1..100
loop_max_repeats 0..100
loop_no_progress 0..50
result_max_chars 500..200000
context_max_tokens 1000..2000000
budget_tool_calls 1..1000000
budget_model_calls 1..100000
budget_tokens 1000..1000000000
budget_cost_usd 0.001..10000
budget_seconds 1..86400
question_ttl_seconds 60..31536000
"""
"""Of chat.md, sections 5 and 12."""
NUMBERS = [(line.split()[0], *line.split()[1].split("..")) for line in RANGES.split("\n") if line]


HEAD = "---\nname: a\ndescription: d\ntools: []\nmax_turns: 3\n"


def text_of(settings: str) -> str:
    return f"{HEAD}settings: {settings}\n---\nBe kind."


def test_every_setting_is_in_the_table_or_elsewhere_in_the_file() -> None:
    known = set(ChatSettings.__struct_fields__)
    assert {each.key for each in SETTINGS} | ELSEWHERE.keys() == known
    assert {each.key for each in SETTINGS}.isdisjoint(ELSEWHERE)


@pytest.mark.parametrize(("key", "low", "high"), NUMBERS)
def test_a_number_is_accepted_only_in_its_range(key: str, low: str, high: str) -> None:
    for number in (low, high):
        given = getattr(agent_of(text_of(f"{{{key}: {number}}}")).settings, key)
        assert given == float(number)
    for number in (f"-{high}", f"1{high}", "many", "true", "[]"):
        (said,) = said_of(text_of(f"{{{key}: {number}}}"))
        assert f'"settings.{key}" must be a' in said
        assert f"from {low} to {high}" in said


def test_given_settings_extend_the_rest_of_the_file() -> None:
    text = text_of("{max_iterations: 7, tool_permissions: {mail: ask}, budget_tokens: null}")
    assert agent_of(text).settings == ChatSettings(
        enabled_tools=(), max_iterations=7, tool_permissions={"mail": "ask"}
    )


WRONG = [
    ("fast", 'wrong-type: "settings" must be a mapping, found string "fast"'),
    (
        "{max_iteration: 3}",
        'unknown-key: unknown key "max_iteration" in "settings"; did you mean "max_iterations"?',
    ),
    (
        "{llm_model: fast}",
        'unknown-key: "llm_model" is not a member of "settings": it is "model" in a file',
    ),
    (
        "{tool_permissions: {m: 3}}",
        'bad-value: "settings.tool_permissions.m" must be one of allow, ask, deny, found number 3',
    ),
    (
        "{tool_permissions: {mial: ask}}",
        'unknown-tool: unknown tool "mial"; did you mean "mail"?',
    ),
    (
        "{skills: 3}",
        'wrong-type: "settings.skills" must be a list of skill ids, found number 3',
    ),
    (
        "{loop_cycles: 1}",
        'wrong-type: "settings.loop_cycles" must be true or false, found number 1',
    ),
]


@pytest.mark.parametrize(("settings", "expected"), WRONG)
def test_an_invalid_setting_is_reported_with_its_line(settings: str, expected: str) -> None:
    assert said_of(text_of(settings), KnownNames(tools=("mail", "m"))) == [f"6 error {expected}"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("0.5", 0.5),
        ("true", True),
        ("null", None),
        ("many", "many"),
        ("9" * 99, "9" * 99),
    ],
)
def test_loosely_read_settings_are_converted(text: str, value: Any) -> None:
    assert parse_settings({"x": text, "y": {}}) == {"x": value, "y": {}}
