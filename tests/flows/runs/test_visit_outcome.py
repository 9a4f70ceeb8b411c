"""How one visit of a step ended."""

import pytest

from penstock.core.events.flow_events import Outcome, StepStatus
from penstock.flows.runs.visit_outcome import failed


@pytest.mark.parametrize(("is_hard", "outcome"), [(False, Outcome.SOFT), (True, Outcome.HARD)])
def test_a_visit_without_a_result_leaves_why_it_failed(is_hard: bool, outcome: Outcome) -> None:
    ended = failed("budget", "the budget is used up", is_hard=is_hard)
    assert (ended.outcome, ended.source, ended.text) == (outcome, "budget", "the budget is used up")
    assert (ended.result.status, ended.result.full_output) == (StepStatus.ERROR, ended.text)
