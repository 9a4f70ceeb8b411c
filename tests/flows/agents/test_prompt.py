"""The prompt of an agent, in order."""

from typing import Any

from penstock.agents.agent import Agent
from penstock.flows.agents.prompt import AUTONOMOUS, Briefing, system_prompt, user_message
from penstock.flows.runs.fork_choice import ForkChoice

CHOICE = ForkChoice(
    fork_id="pick", question="How\ndeep?", answer="Deep", notes="soon", decided_by="a person"
)


def briefing(**more: Any) -> Briefing:
    given: dict[str, Any] = {
        "task": "Do it",
        "instructions": "You write.",
        "inputs": {},
        "context": {},
        "handbooks": {},
    }
    return Briefing(**given | more)


def test_the_parts_of_the_prompt_are_in_order_without_empty_ones() -> None:
    """4.1: rules, fork section, context files, handbooks, body; parted by a blank line."""
    told = system_prompt(
        Agent("writer"),
        briefing(
            choice=CHOICE,
            context={"a.md": "A"},
            handbooks={"docs": "# Docs\nfiles:\n- x.md"},
            is_autonomous=True,
        ),
    )
    places = [
        told.index(part)
        for part in (
            AUTONOMOUS,
            (
                "## Context\n\nThis step was chosen at the fork pick.\nQuestion: How deep?\n"
                "Answer: Deep\nNote: soon\nDecided by: a person"
            ),
            "## Context: a.md\n\nA",
            "## Skill: docs\n\n# Docs\nfiles:\n- x.md",
            "You write.",
        )
    ]
    assert places == sorted(places)
    assert "\n\n\n" not in told
    assert system_prompt(Agent("writer"), briefing()).count("##") == 0


def test_the_message_is_the_task_and_the_other_wired_inputs() -> None:
    told = user_message(briefing(output="out.md", inputs={"notes": "n", "more": "m"}))
    assert told == "Task: Do it\n\nOutput file: out.md\n\n## Inputs\n\nnotes:\nn\n\nmore:\nm"
    assert user_message(briefing()) == "Task: Do it"
