"""The kind `conditional`: which branch a result leads to."""

import pytest

from penstock.models.scripted import ScriptedModel
from tests.kit.flows import (
    by_task,
    run_flow,
)

CONDITION = """
  - {id: web, agent: scout, task: web}
  - {id: found, check: CHECK, present: yes-step, absent: no-step}
  - {id: yes-step, agent: scout, task: y, end: true}
  - {id: no-step, agent: scout, task: n}
"""


@pytest.mark.parametrize(
    ("check", "ran"),
    [
        ("web", "no-step"),
        ("web.summary", "yes-step"),
        ("web.branch", "no-step"),
        ("web.nothing", "yes-step"),
        ("nobody.summary", "no-step"),
    ],
)
async def test_a_condition_looks_at_a_field_of_the_last_result(check: str, ran: str) -> None:
    """7.4: another field name gives the whole output text."""
    text = CONDITION.replace("CHECK", check)
    envelope = await run_flow(text, ScriptedModel(by_task({})))
    results = envelope.output["results"]
    done = [name for name in ("yes-step", "no-step") if results[name]["status"] == "complete"]
    assert done == [ran]


async def test_a_condition_reports_its_result_also_if_both_branches_are_equal() -> None:
    text = CONDITION.replace("CHECK", "web.branch").replace("yes-step", "no-step", 1)
    envelope = await run_flow(text, ScriptedModel(by_task({})))
    assert envelope.output["results"]["found"]["branch"] == "absent"
