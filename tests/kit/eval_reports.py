"""Reports of evaluations."""

from penstock.core.messages import Usage
from penstock.evals.report import Attempt, Grade, Report


def report_of(*attempts: tuple[str, str, bool, float | None]) -> Report:
    """Return a report with attempts of a case, a model, whether it passed, and its cost."""
    return Report(
        run_id="eval_1",
        dataset="triage",
        agent="clerk",
        attempts=tuple(
            Attempt(
                case=case,
                model=model,
                number=1,
                status="succeeded",
                passed=passed,
                grades=(Grade("Equal()", float(passed), passed, "" if passed else "no | match"),),
                content="\x00\uffffbell",
                seconds=0.5,
                usage=Usage(input_tokens=10, output_tokens=2, model_calls=1, cost_usd=cost),
            )
            for case, model, passed, cost in attempts
        ),
    )
