"""Webhooks: the receivers of events. Settings read them, so this file imports no database."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from hashlib import sha256

from msgspec import Struct

TASK_ENDED = "task.ended"
QUESTION_ASKED = "question.asked"
EVENTS = (TASK_ENDED, QUESTION_ASKED)
"""The events that webhooks receive."""
_LETTERS_OF_WEBHOOK = 12


class Webhook(Struct, frozen=True, kw_only=True):
    """One receiver."""

    url: str
    events: tuple[str, ...]
    vault_key: str
    """The vault key of the secret that signs its deliveries."""
    agents: tuple[str, ...] = ("*",)
    """Patterns of agents."""
    kinds: tuple[str, ...] = ("*",)
    """Patterns of kinds of tasks."""
    has_content: bool = False
    """Whether deliveries contain answers, outputs and arguments of calls."""

    @property
    def webhook_id(self) -> str:
        """The id, derived from the URL: the same in every process."""
        return f"wh_{sha256(self.url.encode()).hexdigest()[:_LETTERS_OF_WEBHOOK]}"

    def wants(self, event: str, *, kind: str, agent: str) -> bool:
        """Whether it receives this event of tasks of this kind and agent."""
        return event in self.events and _fits(kind, self.kinds) and _fits(agent, self.agents)


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, each) for each in patterns)
