"""The event of hooks: what the code of a program decided about the work of an agent."""

from enum import StrEnum
from typing import Any

from msgspec import Struct


class Verdict(StrEnum):
    """The kinds of decisions of hooks."""

    PASS = "pass"  # noqa: S105  no password
    """It changed nothing."""
    EDIT = "edit"
    REFUSE = "refuse"
    ASK = "ask"
    """A person decides."""
    RETRY = "retry"
    """The model is asked again."""


class HookDecided(Struct, frozen=True, kw_only=True, gc=False):
    """A hook decided. A later activation uses the decision, and does not ask the hook again."""

    hook: str
    """Its name."""
    method: str
    """The method that decided, such as `before_call`."""
    verdict: Verdict = Verdict.PASS
    turn: int = 0
    """The iteration of a request or a reply; 1 for a call that is shown again because a person
    changed its input."""
    text: str = ""
    """The reason of a refusal, the question for a person, or the message for the model."""
    value: Any = None
    """The part that it changed, as JSON."""
