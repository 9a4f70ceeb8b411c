"""An agent that a program declares: its settings, its options and its file."""

from pathlib import Path

import pytest

from penstock.agents.agent import DEFAULTS, Agent, ChatSettings
from penstock.core.errors import DeclarationError
from penstock.engine.budget import Allowance


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_iterations", 8),
        ("max_parallel_tools", 8),
        ("loop_window", 10),
        ("loop_max_repeats", 2),
        ("loop_cycles", True),
        ("loop_no_progress", 4),
        ("result_max_chars", 10_000),
        ("tool_images", False),
        ("llm_max_tokens", None),
        ("llm_temperature", None),
        ("tools_enabled", True),
        ("enabled_tools", None),
        ("question_ttl_seconds", None),
    ],
)
def test_the_defaults_are_those_of_the_seed_and_the_api(name: str, value: object) -> None:
    assert getattr(DEFAULTS, name) == value


def test_budgets_become_the_allowance_of_a_task() -> None:
    settings = ChatSettings(
        budget_tool_calls=1,
        budget_model_calls=2,
        budget_tokens=3,
        budget_cost_usd=4,
        budget_seconds=5,
    )
    expected = Allowance(tool_calls=1, model_calls=2, tokens=3, cost_usd=4, seconds=5)
    assert settings.allowance == expected
    assert DEFAULTS.allowance == Allowance()


def test_every_budget_has_its_part_in_the_allowance() -> None:
    budgets = {name for name in ChatSettings.__struct_fields__ if name.startswith("budget_")}
    assert {name.removeprefix("budget_") for name in budgets} == set(Allowance.__struct_fields__)


CLERK = """---
name: clerk
description: Sorts reports.
---
Sort the report.
"""


def test_an_agent_of_a_file_may_have_an_output(tmp_path: Path) -> None:
    file = tmp_path / "clerk.md"
    file.write_text(CLERK)
    clerk = Agent.from_file(file, output=list[int])
    assert (clerk.name, clerk.instructions, clerk.has_file) == ("clerk", "Sort the report.", True)
    assert clerk.contract
    assert clerk.contract.schema == {"type": "array", "items": {"type": "integer"}}
    assert Agent.from_file(str(file)).contract is None


def test_a_file_without_a_working_agent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="there is no such file"):
        Agent.from_file(tmp_path / "clerk.md")
    file = tmp_path / "bad.md"
    file.write_text("---\ndescription: x\n---\n")
    with pytest.raises(DeclarationError, match='missing required field "name"'):
        Agent.from_file(file)
