"""The agents that a conversation was handed off to, and the way back when a message is replaced.

All state follows from events, so a restart rebuilds the same chain. Shown by
tests/engine/test_agent_chain.py and tests/journeys/test_handoffs.py.
"""

from collections.abc import Sequence

from msgspec import Struct

from penstock.core.events.child_events import ChildRequested
from penstock.core.events.events import SessionOpened
from penstock.core.ids import ASSISTANT, TaskId
from penstock.engine.dialogue import MessageList


class AgentChain(Struct):
    """The agents of a conversation: the one that has it, and those that handed it off.

    A hand-off to an agent that had the conversation before gives it back to that one. So no agent
    is in the chain twice.
    """

    first: str = ASSISTANT
    """The agent that the conversation started with."""
    newest: str = ASSISTANT
    """The agent that has it now."""
    handed: tuple[str, ...] = ()
    """All of them, the newest last; empty without a hand-off."""

    def hand_off(self, agent: str) -> None:
        """Give the conversation to an agent."""
        agents = self.handed or (self.first,)
        if agent in agents:
            agents = agents[: agents.index(agent)]
        self.restore((*agents, agent))

    def hand_back(self) -> None:
        """Give the conversation to the agent that handed it off; no effect without a hand-off."""
        self.restore(self.handed[:-1])

    def at_start(
        self, replaced: TaskId, past: Sequence[MessageList], newest: MessageList
    ) -> tuple[str, ...]:
        """Return the agents of a task that replaces another one: it starts where that one did."""
        for messages in (newest, *reversed(past)):
            handed = _agents_at(replaced, messages)
            if handed is not None:
                return handed or (self.first,)
        return self.handed or (self.newest,)

    def restore(self, handed: tuple[str, ...]) -> None:
        """Set the chain; empty means the first agent."""
        self.handed = handed if len(handed) > 1 else ()
        self.newest = handed[-1] if handed else self.first


def back_to(
    task_id: TaskId, past: list[MessageList], newest: MessageList, agents: AgentChain
) -> MessageList:
    """Return the messages before a task that is superseded, and restore its agents.

    If the task is older than a fresh start, `past` is cut to that point, too.
    """
    for depth, messages in reversed(list(enumerate([*past, newest]))):
        had = _agents_at(task_id, messages)
        if messages.forget(task_id):
            if had is not None:  # otherwise the history was cut, and nothing says who had it
                agents.restore(had)
            del past[depth:]
            return messages
    return newest


def _agents_at(task_id: TaskId, messages: MessageList) -> tuple[str, ...] | None:
    for boundary in messages.boundaries:
        if boundary.task_id == task_id:
            return boundary.agents
    return None


def opened_by(child: ChildRequested) -> SessionOpened:
    """Return a child as the opening of its own log."""
    return SessionOpened(profile_id=child.profile_id, agent=child.agent, title=child.title)
