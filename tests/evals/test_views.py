"""Reports as a table, Markdown and JUnit XML."""

from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace

from penstock.core.messages import Usage
from penstock.evals.report import Grade, Report
from penstock.evals.views import print_report, to_junit, to_markdown
from tests.kit.eval_reports import report_of

TWO_MODELS = (
    ("burns", "m:1", True, 0.5),
    ("burns", "m:2", False, 0.25),
    ("slow", "m:1", True, 0.25),
    ("slow", "m:2", True, None),
)


def test_the_table_has_a_column_for_each_model_and_a_row_for_each_case(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_report(report_of(*TWO_MODELS))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0][:3] == ["case", "m:1", "m:2"]
    assert lines[1][:5] == ["burns", "1/1", "0/1", "24", "$0.7500"]
    assert lines[2][:5] == ["slow", "1/1", "1/1", "24", "?"]
    assert lines[4][:4] == ["m:1:", "2/2", "=", "100%"]


def test_the_cost_of_judges_has_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    report = report_of(*TWO_MODELS)
    assert (report.judging, "judges" in to_markdown(report)) == (None, False)
    for cost, said in (
        (0.125, "judges: 3,000 tokens, $0.5000"),
        (None, "3,000 tokens, cost unkno"),
    ):
        usage = Usage(input_tokens=700, output_tokens=50, cost_usd=cost)
        grades = (Grade("Judge", 1.0, passed=True, usage=usage), Grade("Equal()", 1.0, passed=True))
        judged = [replace(each, grades=grades) for each in report.attempts]
        again = Report.from_json(replace(report, attempts=tuple(judged)).to_json())
        print_report(again)
        assert said in capsys.readouterr().out
        assert said in to_markdown(again)


def test_the_table_names_the_differences_to_an_earlier_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    earlier = report_of(*((case, model, True, cost) for case, model, _, cost in TWO_MODELS))
    print_report(report_of(*TWO_MODELS), earlier)
    assert "worse  burns [m:2]: 100% -> 0%" in capsys.readouterr().out


def test_a_case_that_no_scorer_judged_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    report = report_of(*TWO_MODELS)
    bare = replace(report, attempts=tuple(replace(each, grades=()) for each in report.attempts))
    warning = "no scorer: 2 cases passed because the task succeeded: burns, slow"
    print_report(bare)
    assert warning in capsys.readouterr().out
    assert warning in to_markdown(bare)
    assert "no scorer" not in to_markdown(report)
    unjudged = ET.fromstring(to_junit(bare)).iter("system-out")  # noqa: S314  our own text
    assert [each.text for each in unjudged] == [
        "no scorer: it passed because the task succeeded" for each in bare.attempts if each.passed
    ]
    assert b"no scorer" not in to_junit(report)


def test_markdown_escapes_what_would_break_its_table() -> None:
    text = to_markdown(report_of(*TWO_MODELS))
    assert text.startswith("# triage: 3/4 = 75% (95 %: 30% to 95%)\n")
    assert "Equal(): no \\| match |" in text


def test_junit_has_a_suite_for_each_model_and_is_valid_xml_for_any_answer() -> None:
    root = ET.fromstring(to_junit(report_of(*TWO_MODELS)))  # noqa: S314  our own text
    suites = [(each.get("name"), each.get("tests"), each.get("failures")) for each in root]
    assert suites == [("triage m:1", "2", "0"), ("triage m:2", "2", "1")]
    (failure,) = root.iter("failure")
    assert (failure.get("message"), failure.text) == (
        "Equal(): no | match",
        "\ufffd\ufffdbell",
    )
