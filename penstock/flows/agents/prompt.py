"""What the agent of a step is told: the rules, its handbooks, its task.

Nothing that was inserted is expanded again.
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
    """What one visit adds to what its agent is told always."""

    task: str
    """The task of the step, expanded; or that of the run."""
    instructions: str
    """The agent's body, expanded."""
    inputs: Mapping[str, str]
    """The wired inputs that neither body nor task refers to."""
    output: str = ""
    """A hint at the file that is to be written."""
    is_autonomous: bool = False
    choice: ForkChoice | None = None
    context: Mapping[str, str]
    """The texts of the context files, by path."""
    handbooks: Mapping[str, str]
    """The indexes of the agent's handbooks, by name."""
    missing: Sequence[str] = ()
    """A sentence for each file and handbook that was left out."""


def system_prompt(agent: Agent, briefing: Briefing) -> str:
    """Return what the model is told before anything else."""
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
    """Return the task, and what the step wires besides."""
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
