"""The scorers that come with penstock."""

import math
from typing import Any

import pytest

from penstock.chat.python.recorded_task import RecordedTask
from penstock.core.errors import ConfigError
from penstock.core.reply import Reply, ToolCall
from penstock.evals.case import Case, Score
from penstock.evals.scorers import (
    CalledTool,
    Contains,
    Judge,
    Matches,
    MaxCost,
    MaxSeconds,
    MaxTurns,
)

CASE: Case[Any] = Case("a", input="Hello", expected="Bye")
TEXTS: dict[str, tuple[Any, str]] = {
    "contains": (Contains("ell"), ""),
    "contains in other capitals": (Contains("HELLO", ignore_case=True), ""),
    "contains not": (Contains("HELLO"), 'expected a text with "HELLO", found "Hello"'),
    "contains what is expected": (Contains(), 'expected a text with "Bye", found "Hello"'),
    "matches": (Matches(regex="^H.*o$"), ""),
    "matches not": (Matches(regex="^h"), "expected a match of '^h', found \"Hello\""),
    "schema": (Matches(schema={"type": "string"}), ""),
    "schema not": (Matches(schema={"type": "string", "maxLength": 2}), "/: "),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_scored_with_a_reason(name: str) -> None:
    scorer, reason = TEXTS[name]
    score = scorer(CASE, reply("Hello"))
    assert score.has_passed == (not reason)
    assert score.reason.startswith(reason)


def test_a_text_to_contain_is_the_expected_value_as_json_or_nothing_at_all() -> None:
    """A case that expects nothing passes, as with Equal."""
    contains = Contains()
    assert contains(Case("a", input="b"), reply("Hello")).has_passed
    order: Case[Any] = Case("a", input="b", expected={"order": 7})
    assert contains(order, reply('found {"order":7}')).has_passed
    assert not contains(order, reply("{'order': 7}")).has_passed


INSIDE = ToolCall(id="1", tool="pay", input={"amount": 5})
CALLS = (
    ToolCall(id="tc_1", tool="look", input={"order": 7, "deep": True}, calls=(INSIDE,)),
    ToolCall(id="tc_2", tool="refund", input={"order": 7}),
)
FOUND = {
    CalledTool("look"): True,
    CalledTool("look", order=7): True,
    CalledTool("look", order=8): False,
    CalledTool("pay"): True,
    CalledTool("sell"): False,
    CalledTool.never("sell"): True,
    CalledTool.never("pay"): False,
    CalledTool.in_order("look", "pay", "refund"): True,
    CalledTool.in_order("refund", "look"): False,
}


@pytest.mark.parametrize("scorer", FOUND, ids=repr)
def test_calls_count_at_any_depth_and_by_a_part_of_their_input(scorer: CalledTool) -> None:
    answer = reply("Done", CALLS)
    score = scorer(CASE, answer)
    assert score.has_passed == FOUND[scorer]
    assert score.reason == (
        "" if FOUND[scorer] else f"expected {scorer!r}, found look, pay, refund"
    )


def test_a_score_says_itself_whether_it_passes_or_by_its_value() -> None:
    assert [Score(0.5).has_passed, Score(0.49).has_passed] == [True, False]
    assert not Score(1, passed=False).has_passed


def test_matches_needs_one_pattern_that_is_valid() -> None:
    for options in ({}, {"regex": "a", "schema": {}}):
        with pytest.raises(ConfigError, match="exactly one of regex and schema"):
            Matches(**options)  # type: ignore[arg-type]  # as a careless program does
    with pytest.raises(ConfigError, match="cannot use its pattern"):
        Matches(regex="(")
    with pytest.raises(ConfigError, match="cannot use its pattern"):
        Matches(schema={"type": "nothing"})


@pytest.mark.parametrize(
    ("kind", "given", "problem"),
    [
        (Judge, ("offline", "Names the cause."), "found 'offline', which follows a few rules"),
        (Judge, (5, "Names the cause."), "needs the name of a model, as a text; found 5"),
        (Judge, ("openai:gpt-5", " "), "needs a rubric, as a text; found ' '"),
        (MaxCost, (-1,), "MaxCost takes a limit in USD, from 0 on; found -1"),
        (MaxCost, ("1",), "MaxCost takes a limit in USD, from 0 on; found '1'"),
        (MaxTurns, (0,), "MaxTurns takes a limit in replies, from 1 on; found 0"),
        (MaxTurns, (True,), "MaxTurns takes a limit .*; found True"),
        (MaxSeconds, (math.nan,), "MaxSeconds takes a limit in seconds, from 0 on; found nan"),
    ],
)
def test_what_would_fail_every_case_is_refused_where_it_is_written(
    kind: Any, given: tuple[Any, ...], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        kind(*given)


def reply(content: str, calls: tuple[ToolCall, ...] = ()) -> Reply[Any]:
    """Return the reply of a task that succeeded."""
    made: Reply[Any] = Reply(
        status="succeeded",
        content=content,
        agent="clerk",
        session="conv_1",
        task_id="task_1",
        recorded=RecordedTask(()),
    )
    made.__dict__["calls"] = calls
    return made
