"""What was chosen at a fork: as templates read it, and as the agent is told who works on it."""

from dataclasses import dataclass

A_PERSON = "a person"


@dataclass(frozen=True, slots=True)
class ForkAnswer:
    """What was chosen at a fork."""

    answer: str
    """An option, several joined, or free text."""
    notes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkChoice:
    """The fork that led to a step, and what was chosen there."""

    fork_id: str
    question: str
    answer: str
    notes: str
    decided_by: str
    """`a person`, or the name of the agent that decided."""
