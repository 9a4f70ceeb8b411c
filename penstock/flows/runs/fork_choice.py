"""The choice made at a fork, for templates and for the agent of the chosen step."""

from msgspec import Struct

A_PERSON = "a person"


class ForkAnswer(Struct, frozen=True):
    """The answer at a fork, as templates read it."""

    answer: str
    """One option, several joined with ", ", or free text."""
    notes: str = ""


class ForkChoice(Struct, frozen=True, kw_only=True):
    """The fork that led to a step, and the choice made there."""

    fork_id: str
    question: str
    answer: str
    notes: str
    decided_by: str
    """`a person`, or the name of the agent that decided."""
