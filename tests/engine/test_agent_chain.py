"""The agents of a conversation: the chain after hand-offs, and the way back."""

import pytest

from penstock.core.events.history_events import Summarised
from penstock.core.ids import TaskId
from penstock.core.messages import UserMessage
from penstock.engine.agent_chain import AgentChain, back_to
from penstock.engine.dialogue import MessageList


def test_a_hand_off_to_an_earlier_agent_gives_the_conversation_back() -> None:
    chain = AgentChain("a", "a")
    for agent in ("b", "c", "b"):
        chain.hand_off(agent)
    assert (chain.handed, chain.newest) == (("a", "b"), "b")
    chain.hand_back()
    assert (chain.handed, chain.newest) == ((), "a")


def said_in(*tasks: str) -> MessageList:
    """Return the messages of these tasks."""
    said = MessageList()
    for task in tasks:
        said.begin(TaskId(task))
        said.add(UserMessage(task), task)
    return said


@pytest.mark.parametrize(
    ("task", "kept", "past_left"),
    [("a", [], 0), ("b", ["a"], 0), ("c", [], 1), ("d", ["c"], 1), ("z", ["c", "d"], 1)],
)
def test_a_repeated_answer_reads_the_messages_before_it(
    task: str, kept: list[str], past_left: int
) -> None:
    """A fresh start lies between b and c; a task that is nowhere changes nothing."""
    past, now = [said_in("a", "b")], said_in("c", "d")
    found = back_to(TaskId(task), past, now, AgentChain())
    assert [each.content for each in found.entries] == kept
    assert len(past) == past_left


def test_a_message_that_replaces_one_that_was_left_out_keeps_the_agents() -> None:
    said, chain = said_in("a", "b"), AgentChain("x", "x")
    said.shorten(Summarised(tasks=(TaskId("a"),)))
    chain.hand_off("y")
    assert back_to(TaskId("a"), [], said, chain).entries == []
    assert chain.newest == "y"
