"""The assistant with settings of a test, and a check of the requests to its model."""

from collections.abc import Sequence
from typing import Any

from penstock.agents.agent import Agent, ChatSettings
from penstock.core.messages import AssistantMessage, ToolMessage
from penstock.models.model import ModelRequest


def agent(**settings: Any) -> Agent:
    """Return the assistant with these settings."""
    return Agent("assistant", settings=ChatSettings(**settings))


def assert_whole(request: ModelRequest) -> None:
    """Every call in what the model reads has exactly one tool message, right behind it."""
    messages: Sequence[Any] = list(request.messages)
    for index, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            count = len(message.calls)
            behind = messages[index + 1 : index + 1 + count]
            assert [each.call_id for each in behind] == [each.call_id for each in message.calls]
    made = sum(len(each.calls) for each in messages if isinstance(each, AssistantMessage))
    assert made == sum(isinstance(each, ToolMessage) for each in messages)
