"""Fields of steps: which attribute a key sets, and which fields a step must have."""

import pytest

from penstock.flows.definition import StepRetry
from penstock.flows.steps.fields import AGENT, END, needed, step_field
from tests.flows.texts import findings_of_step, step_of


def test_a_field_sets_the_attribute_of_its_name_unless_it_names_another() -> None:
    assert (AGENT.key, AGENT.attribute) == ("agent", "agent")
    assert (END.key, END.attribute) == ("end", "is_last")
    assert not step_field("reads", AGENT.value, "").attribute


def test_a_kind_can_require_a_field_that_others_leave_optional() -> None:
    assert needed(AGENT).is_needed
    assert not AGENT.is_needed


@pytest.mark.parametrize(
    ("retry", "wanted"),
    [
        ("true", StepRetry(3, 60)),
        ("{}", StepRetry(3, 60)),
        ("{attempts: 10}", StepRetry(10, 60)),
        ("{attempts: 1, delay: 3600}", StepRetry(1, 3600)),
    ],
)
def test_a_step_is_tried_again(retry: str, wanted: StepRetry) -> None:
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
    assert findings_of_step(f"id: a, agent: b, retry: {retry}") == [f"4 {each}" for each in wanted]
