"""System prompt and first message of the agent of a step.

Inserted text is not expanded again.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from penstock.agents.agent import Agent
from penstock.agents.prompt import DATA_IS_NOT_ORDERS
from penstock.core.text import one_line
from penstock.flows.runs.fork_choice import ForkChoice

RULES = (
    "You work on one step of a larger task. Use only the tools that you are offered. "
    "Your last act must be a call of finish: nothing that you say in words is taken as your result."
)
AUTONOMOUS = "Nobody can be asked in this run: decide on your own."


class Briefing(Struct, frozen=True, kw_only=True):
    """The parts of the prompt that belong to one visit."""

    task: str
    """Expanded task of the step, or the task of the run."""
    instructions: str
    """Expanded body of the agent's file."""
    inputs: Mapping[str, str]
    """Wired inputs that neither the body nor the task refers to."""
    output: str = ""
    """Hint: the file to write."""
    is_autonomous: bool = False
    choice: ForkChoice | None = None
    context: Mapping[str, str]
    """Texts of the context files, by path."""
    handbooks: Mapping[str, str]
    """Indexes of the agent's handbooks, by name."""
    missing: Sequence[str] = ()
    """A sentence for each file and handbook that was left out."""


def system_prompt(agent: Agent, briefing: Briefing) -> str:
    """Return the system prompt."""
    rules = [RULES, DATA_IS_NOT_ORDERS, AUTONOMOUS if briefing.is_autonomous else ""]
    parts: Sequence[str] = (
        " ".join(each for each in rules if each),
        _choice(briefing.choice) if briefing.choice else "",
        *(f"## Context: {path}\n\n{text}" for path, text in briefing.context.items()),
        *(f"## Skill: {name}\n\n{index}" for name, index in briefing.handbooks.items()),
        briefing.instructions,
    )
    return "\n\n".join(part for part in parts if part)


def user_message(briefing: Briefing) -> str:
    """Return the first user message: the task, and the inputs that no template refers to."""
    parts = [f"Task: {briefing.task}"]
    if briefing.output:
        parts.append(f"Output file: {briefing.output}")
    if briefing.inputs:
        wired = "\n\n".join(f"{name}:\n{value}" for name, value in briefing.inputs.items())
        parts.append(f"## Inputs\n\n{wired}")
    return "\n\n".join(parts)


def _choice(choice: ForkChoice) -> str:
    lines = [
        "## Context",
        "",
        f"This step was chosen at the fork {choice.fork_id}.",
        f"Question: {one_line(choice.question)}",
        f"Answer: {choice.answer}",
    ]
    if choice.notes:
        lines.append(f"Note: {choice.notes}")
    lines.append(f"Decided by: {choice.decided_by}")
    return "\n".join(lines)
