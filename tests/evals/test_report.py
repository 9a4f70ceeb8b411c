"""Reports of runs, and their comparison."""

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.core.errors import ConfigError
from penstock.core.json_values.json_text import parse_json
from penstock.core.messages import Usage
from penstock.evals.report import Attempt, Grade, Rate, Report
from tests.kit.eval_reports import report_of

RATES = {
    (0, 0): (0.0, 1.0),
    (3, 3): (0.4385, 1.0),
    (0, 3): (0.0, 0.5615),
    (50, 100): (0.4038, 0.5962),
}


@pytest.mark.parametrize("counts", RATES)
def test_a_rate_has_the_interval_of_wilson(counts: tuple[int, int]) -> None:
    assert Rate(*counts).interval == pytest.approx(RATES[counts], abs=1e-4)


def test_a_report_sums_its_attempts() -> None:
    report = report_of(("a", "", True, 0.5), ("a", "", False, 0.25), ("b", "", True, 0.25))
    assert (report.rate.passed, report.rate.attempts) == (2, 3)
    assert report.usage == Usage(input_tokens=30, output_tokens=6, model_calls=3, cost_usd=1.0)
    assert report.failed == ["a"]


def test_the_cost_of_a_report_is_unknown_if_that_of_one_attempt_is() -> None:
    assert report_of(("a", "", True, 0.5), ("b", "", True, None)).usage.cost_usd is None


def test_a_later_run_is_compared_case_by_case() -> None:
    same = ("same", "", True, 0.0)
    before = report_of(
        same, ("worse", "", True, 0), ("better", "", False, 0), ("gone", "", True, 0)
    )
    after = report_of(same, ("worse", "", False, 0), ("better", "", True, 0), ("new", "", True, 0))
    assert [str(each) for each in after.compare(before)] == [
        "worse  worse: 100% -> 0%",
        "better better: 0% -> 100%",
        "new    new",
        "gone   gone",
    ]


def test_runs_with_one_model_each_are_compared_across_the_models() -> None:
    before, after = report_of(("a", "m:1", True, 0)), report_of(("a", "m:2", False, 0))
    assert [str(each) for each in after.compare(before)] == ["worse  a [m:2]: 100% -> 0%"]


def test_a_report_survives_json() -> None:
    report = report_of(("a", "m:1", True, 0.5), ("a", "m:2", False, None))
    assert Report.from_json(report.to_json()) == report
    assert parse_json(report.to_json().decode())["unjudged"] == []
    passed = replace(report.attempts[0], grades=())
    bare = replace(report, attempts=(passed,))
    assert parse_json(bare.to_json().decode())["unjudged"] == ["a"]
    assert Report.from_json(bare.to_json()) == bare


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"run_id": 3}'])
def test_text_that_is_no_report_is_a_config_error(text: bytes) -> None:
    with pytest.raises(ConfigError, match="not a report"):
        Report.from_json(text)


def test_the_reasons_name_each_scorer_that_did_not_pass() -> None:
    grades = (
        Grade("Equal()", 1, passed=True),
        Grade("tone", 0.2, passed=False, reason="too\nrude"),
    )
    fields: dict[str, Any] = {"case": "a", "model": "", "number": 1, "status": "succeeded"}
    attempt = Attempt(**fields, passed=False, grades=grades)
    assert attempt.reasons == "tone: too rude"
