"""Settings in agent files: parsed strictly, with the ranges of the page."""

from typing import Any

import pytest

from penstock.agents.agent import Agent, ChatSettings
from penstock.agents.agent_file import KnownNames
from penstock.agents.agent_settings import (
    ELSEWHERE,
    MODEL_SETTINGS,
    SETTINGS,
    parse_settings,
)
from penstock.core.errors import ConfigError
from penstock.models.settings import NOTHING_SET, ModelSettings
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


def test_a_time_zone_exists() -> None:
    given = agent_of(text_of("{calendar_timezone: Europe/Berlin}")).settings
    assert given.calendar_timezone == "Europe/Berlin"
    (said,) = said_of(text_of("{calendar_timezone: Europe/Berln}"))
    assert "did you mean 'Europe/Berlin'" in said
    with pytest.raises(ConfigError, match="calendar_timezone of ChatSettings must be an IANA"):
        Agent("a", settings=ChatSettings(calendar_timezone="Mars/Base"))


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


def model_text(settings: str, head: str = "") -> str:
    return f"{HEAD}{head}model_settings: {settings}\n---\nBe kind."


def test_every_setting_of_requests_has_a_row() -> None:
    rows = [each.key for each in MODEL_SETTINGS]
    assert rows == list(ModelSettings.__struct_fields__)


def test_a_file_sets_the_requests_of_its_agent() -> None:
    text = """
  temperature: 0.2
  max_tokens: 500
  stop: ["END, please", "x"]
  thinking: off
  parallel_calls: false
  tool_choice: required
  seed: -7
  timeout: 30
  cache_ttl: 1h
  top_p: null
  extra: { service_tier: flex, metadata: null }"""
    assert agent_of(model_text(text)).model_settings == ModelSettings(
        temperature=0.2,
        max_tokens=500,
        stop=("END, please", "x"),
        thinking="off",
        parallel_calls=False,
        tool_choice="required",
        seed=-7,
        timeout=30,
        cache_ttl="1h",
        extra={"service_tier": "flex", "metadata": None},
    )
    assert agent_of(model_text("{}")).model_settings is NOTHING_SET
    assert agent_of(text_of("{}")).model_settings is NOTHING_SET


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("high", 'wrong-type: "model_settings" must be a mapping, found string "high"'),
        (
            "{temprature: 1}",
            (
                'unknown-key: unknown key "temprature" in "model_settings"; '
                'did you mean "temperature"?'
            ),
        ),
        (
            "{temperature: 3}",
            'bad-value: "model_settings.temperature" must be a number from 0 to 2, found number 3',
        ),
        (
            "{temperature: true}",
            (
                'wrong-type: "model_settings.temperature" must be a number from 0 to 2, '
                "found boolean true"
            ),
        ),
        (
            "{max_tokens: 0.5}",
            (
                'wrong-type: "model_settings.max_tokens" must be a whole number from 1 to 1000000, '
                "found number 0.5"
            ),
        ),
        (
            "{thinking: hard}",
            (
                'bad-value: "model_settings.thinking" must be one of off, minimal, low, medium, '
                'high, xhigh, max, found string "hard"'
            ),
        ),
        (
            "{stop: END}",
            (
                'wrong-type: "model_settings.stop" must be a list of at most 16 texts, '
                'found string "END"'
            ),
        ),
        ('{stop: [""]}', 'bad-value: "model_settings.stop[0]" must be a text, found string ""'),
        (
            "{tool_choice: ''}",
            (
                'bad-value: "model_settings.tool_choice" must be auto, none, required or the id of '
                'a tool, found string ""'
            ),
        ),
        (
            "{extra: [1]}",
            'wrong-type: "model_settings.extra" must be a mapping, found array [1]',
        ),
    ],
)
def test_an_invalid_setting_of_requests_is_reported(settings: str, expected: str) -> None:
    assert said_of(model_text(settings)) == [f"6 error {expected}"]


def test_a_field_that_a_setting_of_requests_hides_is_reported() -> None:
    hidden = "thinking: low\nsettings: {llm_temperature: 1, llm_max_tokens: 9}\n"
    said = said_of(model_text("{thinking: high, temperature: 0, max_tokens: 8}", hidden))
    assert said == [
        '6 warning no-effect: "thinking" has no effect beside "model_settings.thinking"',
        (
            '7 warning no-effect: "settings.llm_temperature" has no effect beside '
            '"model_settings.temperature"'
        ),
        (
            '7 warning no-effect: "settings.llm_max_tokens" has no effect beside '
            '"model_settings.max_tokens"'
        ),
    ]
    assert said_of(model_text("{top_p: 1}", hidden)) == []


def test_loose_front_matter_sets_requests_too() -> None:
    text = "---\nname: a\ndescription: d\ntools: []\nmodel: @fast\nmodel_settings:\n"
    read = agent_of(f"{text}  temperature: 0.5\n  parallel_calls: false\n---\n")
    assert read.model_settings == ModelSettings(temperature=0.5, parallel_calls=False)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"max_iterations": 0}, "a whole number, 1 or more; found 0"),
        ({"max_iterations": "3"}, "a whole number, 1 or more; found '3'"),
        ({"max_iterations": True}, "a whole number, 1 or more; found True"),
        ({"loop_max_repeats": -1}, "a whole number, 0 or more; found -1"),
        ({"budget_tokens": -5}, "a whole number, 1 or more; found -5"),
        ({"budget_seconds": 0}, "a number above 0 to 86,400; found 0"),
        ({"budget_seconds": float("nan")}, "a number above 0 to 86,400; found nan"),
        ({"llm_temperature": 9}, "a number from 0 to 2; found 9"),
        ({"tool_images": "no"}, "True or False; found 'no'"),
        ({"tool_permissions": {"pay": "dney"}}, "a mapping of tools to 'allow', 'ask' or 'deny'"),
        ({"tool_permissions": ["pay"]}, "a mapping of tools to 'allow', 'ask' or 'deny'"),
        ({"enabled_tools": "pay"}, "a list of names; found 'pay'"),
        ({"selected_skills": (3,)}, r"a list of names; found \(3,\)"),
        ({"skills": "a"}, "a list of names; found 'a'"),
        ({"llm_model": 3}, "a text; found 3"),
    ],
)
def test_settings_of_a_program_that_cannot_work_are_refused(
    settings: dict[str, Any], problem: str
) -> None:
    (key,) = settings
    with pytest.raises(ConfigError, match=f"{key} of ChatSettings must be {problem}"):
        Agent("clerk", settings=ChatSettings(**settings))


def test_settings_of_a_program_may_be_smaller_than_those_of_a_file() -> None:
    small = ChatSettings(result_max_chars=1, budget_seconds=0.01, llm_temperature=0, skills=())
    assert Agent("clerk", settings=small).settings == small
