"""Settings of requests: their ranges, and which level wins."""

from collections.abc import Callable
from datetime import date
from typing import Any

import msgspec
import pytest

from penstock.core.ids import CallId
from penstock.core.messages import Message, ToolMessage, UserMessage
from penstock.models.model import ModelRequest
from penstock.models.settings import NOTHING_SET, ModelSettings, completed, overridden

REQUEST = ModelRequest(system="", messages=())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"temperature": -0.1}, "temperature must be from 0 to 2, found -0.1"),
        ({"temperature": float("nan")}, "temperature must be from 0 to 2, found nan"),
        ({"top_p": 1.5}, "top_p must be from 0 to 1, found 1.5"),
        ({"max_tokens": 0}, "max_tokens must be a whole number from 1 to 1,000,000, found 0"),
        ({"max_tokens": True}, "max_tokens must be a whole number .* found True"),
        ({"max_tokens": 1.5}, "max_tokens must be a whole number .* found 1.5"),
        ({"stop": (1,)}, "stop must be at most 16 texts of 1 to 200 characters"),
        ({"stop": 5}, "stop must be at most 16 texts of 1 to 200 characters"),
        ({"tool_choice": 5}, "tool_choice must be auto, .* or the id of a tool, found 5"),
        ({"parallel_calls": "yes"}, "parallel_calls must be True or False, found 'yes'"),
        ({"parallel_calls": 1}, "parallel_calls must be True or False, found 1"),
        ({"extra": [1]}, r"extra must be a dict of members of a request, found \[1\]"),
        ({"timeout": 0}, "timeout must be from 0.001 to 86,400, found 0"),
        ({"thinking": "hard"}, "thinking must be off, .* or max, found 'hard'"),
        ({"cache_ttl": "2h"}, "cache_ttl must be 5m or 1h, found '2h'"),
        ({"temperature": "hot"}, "temperature must be from 0 to 2, found 'hot'"),
        ({"stop": "END"}, "stop must be at most 16 texts of 1 to 200 characters"),
        ({"stop": ("",)}, "stop must be at most 16 texts of 1 to 200 characters"),
        ({"stop": ("x",) * 17}, "stop must be at most 16 texts of 1 to 200 characters"),
        ({"tool_choice": ""}, "tool_choice must be auto, none, required or the id of a tool"),
        ({"extra": {"a": object()}}, "extra must be JSON"),
        ({"extra": {"a": date(2026, 1, 1)}}, "extra must be JSON"),
        ({"extra": {"a": float("nan")}}, "extra must be JSON"),
        ({"extra": {"a": "\ud800"}}, "extra must be JSON"),
    ],
)
def test_a_value_out_of_range_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ModelSettings(**given)


def test_each_level_completes_the_one_above() -> None:
    message = ModelSettings(temperature=0.0, extra={"a": 1})
    agent = ModelSettings(temperature=1.0, seed=7, extra={"a": 2, "b": 2})
    assert message.over(agent) == ModelSettings(temperature=0.0, seed=7, extra={"a": 1, "b": 2})
    assert message.over(ModelSettings()) == message
    assert ModelSettings(seed=7, extra={}).over(message).extra == {"a": 1}
    assert NOTHING_SET.over(agent) is agent
    assert agent.over(NOTHING_SET) == agent


def test_they_survive_the_log() -> None:
    settings = ModelSettings(temperature=0.0, stop=("END",), parallel_calls=False)
    stored = msgspec.to_builtins(settings)
    assert stored == {"temperature": 0.0, "stop": ("END",), "parallel_calls": False}
    assert msgspec.convert(stored, ModelSettings) == settings


RESULT = (UserMessage("Look"), ToolMessage(CallId("tc_1"), "look", "seen"))


@pytest.mark.parametrize(
    ("choice", "messages", "sent"),
    [
        ("required", RESULT[:1], "required"),
        ("required", RESULT, None),
        ("look", RESULT, None),
        ("required", (*RESULT, UserMessage("You repeat it", is_note=True)), None),
        ("look", (*RESULT, UserMessage("Again")), "look"),
        ("none", RESULT, "none"),
        ("auto", RESULT, "auto"),
    ],
)
@pytest.mark.parametrize("merged", [completed, overridden])
def test_a_forced_call_is_forced_once(
    merged: Callable[[ModelRequest, ModelSettings], ModelRequest],
    choice: str,
    messages: tuple[Message, ...],
    sent: str | None,
) -> None:
    """A model that must call a tool in each request would never answer."""
    request = ModelRequest(system="", messages=messages)
    assert merged(request, ModelSettings(tool_choice=choice)).tool_choice == sent


SETTINGS = ModelSettings(
    temperature=0.5, top_p=0.9, max_tokens=9, stop=("END",), seed=3, extra={"a": 1, "b": 1}
)


def test_an_entry_completes_a_request() -> None:
    asked = ModelRequest(system="", messages=(), temperature=0.0, stop=("X",), extra={"a": 2})
    found = completed(asked, SETTINGS)
    assert (found.temperature, found.top_p, found.max_tokens, found.seed) == (0.0, 0.9, 9, 3)
    assert (found.stop, found.extra) == (("X",), {"a": 2, "b": 1})
    assert completed(asked, NOTHING_SET) is asked


def test_a_message_overrides_a_request() -> None:
    asked = ModelRequest(system="", messages=(), temperature=0.0, stop=("X",), extra={"a": 2})
    found = overridden(asked, SETTINGS)
    assert (found.temperature, found.stop, found.extra) == (0.5, ("END",), {"a": 1, "b": 1})
