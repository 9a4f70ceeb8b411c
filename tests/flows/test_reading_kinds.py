"""Retries, and what may be a list or one text."""

import pytest

from penstock.flows.definition import Tries
from penstock.flows.reading_kinds import meant, named_items
from tests.flows.texts import read, said_of_step, step_of


@pytest.mark.parametrize(
    ("retry", "wanted"),
    [
        ("true", Tries(3, 60)),
        ("{}", Tries(3, 60)),
        ("{attempts: 10}", Tries(10, 60)),
        ("{attempts: 1, delay: 3600}", Tries(1, 3600)),
    ],
)
def test_a_step_is_tried_again(retry: str, wanted: Tries) -> None:
    """`true` = 3 and 60."""
    assert step_of(f"id: a, agent: b, retry: {retry}").retry == wanted


@pytest.mark.parametrize(
    ("retry", "wanted"),
    [
        (
            "3",
            ['error wrong-type: "steps.a.retry" must be true or {attempts, delay}, found number 3'],
        ),
        (
            "false",
            [
                (
                    'error bad-value: "steps.a.retry" must be true or {attempts, delay}, '
                    "found boolean false"
                )
            ],
        ),
        (
            "{attempts: 0}",
            [
                (
                    'error bad-value: "steps.a.retry.attempts" must be a whole number '
                    "from 1 to 10, found number 0"
                )
            ],
        ),
        (
            "{delay: 3601}",
            [
                (
                    'error bad-value: "steps.a.retry.delay" must be a whole number from '
                    "0 to 3600, found number 3601"
                )
            ],
        ),
        ("{tries: 3}", ['warning unknown-field: unknown field "tries" in retry']),
        (
            "{atempts: 3}",
            ['warning unknown-field: unknown field "atempts" in retry; did you mean "attempts"?'],
        ),
    ],
)
def test_tries_that_are_wrong(retry: str, wanted: list[str]) -> None:
    assert said_of_step(f"id: a, agent: b, retry: {retry}") == [f"4 {each}" for each in wanted]


@pytest.mark.parametrize(
    ("blocked_by", "wanted"),
    [
        ("a", [("a", 6)]),
        ("a, b ,, c", [("a", 6), ("b", 6), ("c", 6)]),
        ("\n  - a\n  - b", [("a", 7), ("b", 8)]),
        ("", []),
    ],
)
def test_a_list_may_be_one_text(blocked_by: str, wanted: list[tuple[str, int]]) -> None:
    """2.5: a list or one text split at commas. A line is that of the key, or the list item."""
    steps = read(f"- id: x\n  agent: y\n  blockedBy: {blocked_by}").steps
    found = named_items(steps[0].node.at("blockedBy"))
    assert [(text, place.line) for text, place in found] == wanted
    assert steps[0].step.blocked_by == tuple(text for text, _ in wanted)


def test_the_nearest_is_asked_for_only_if_there_is_one() -> None:
    assert (meant(None), meant("a")) == (None, 'did you mean "a"?')
