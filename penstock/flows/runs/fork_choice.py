"""What was chosen at a fork: as templates read it, and as the agent is told who works on it."""

from msgspec import Struct

A_PERSON = "a person"


class ForkAnswer(Struct, frozen=True):
    """What was chosen at a fork."""

    answer: str
    """An option, several joined, or free text."""
    notes: str = ""


class ForkChoice(Struct, frozen=True, kw_only=True):
    """The fork that led to a step, and what was chosen there."""

    fork_id: str
    question: str
    answer: str
    notes: str
    decided_by: str
    """`a person`, or the name of the agent that decided."""
