"""An agent that a program declares: its settings, its options and its file."""

from pathlib import Path
from typing import Any

import pytest

from penstock.agents.agent import DEFAULTS, Agent, ChatSettings
from penstock.core.errors import ConfigError, DeclarationError
from penstock.engine.budget import Allowance
from penstock.tools.hooks.hooks import Hooks


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
        ("calendar_timezone", "UTC"),
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


class Watch(Hooks[object]):
    """A hook of an agent from a file."""


def test_an_agent_of_a_file_takes_what_a_file_cannot_say(tmp_path: Path) -> None:
    file = tmp_path / "clerk.md"
    file.write_text(CLERK)
    watch = Watch()
    clerk = Agent.from_file(
        file,
        output=int,
        output_mode="native",
        output_retries=5,
        history="summarise",
        summary_model="small",
        hooks=[watch],
    )
    assert clerk.contract
    assert (clerk.output_form.mode, clerk.contract.retries) == ("native", 5)
    assert (clerk.history.summarises, clerk.history.model) == (True, "small")
    assert (clerk.hooks, clerk.has_file) == ((watch,), True)
    # Also for the output of one message.
    assert Agent.from_file(file, output_mode="prompted").output_form.mode == "prompted"


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"output_mode": "json"}, ConfigError, "output_mode must be one of tool, native"),
        ({"hooks": Watch()}, ConfigError, "hooks of the agent 'clerk' are a list"),
        ({"model": "m"}, TypeError, "has no argument 'model': it takes output, output_mode, .*"),
        ({"tools": []}, TypeError, "hooks; its file says the rest"),
    ],
)
def test_a_wrong_option_beside_a_file_is_refused(
    tmp_path: Path, options: Any, error: type[Exception], said: str
) -> None:
    file = tmp_path / "clerk.md"
    file.write_text(CLERK)
    with pytest.raises(error, match=said):
        Agent.from_file(file, **options)


def test_a_file_without_a_working_agent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="there is no such file"):
        Agent.from_file(tmp_path / "clerk.md")
    file = tmp_path / "bad.md"
    file.write_text("---\ndescription: x\n---\n")
    with pytest.raises(DeclarationError, match='missing required field "name"'):
        Agent.from_file(file)
