"""The offline model: its texts and calls, as complete replies."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.core.ids import CallId
from penstock.core.messages import AssistantMessage, Message, ToolMessage, UserMessage
from penstock.models.model import (
    CallDelta,
    Finished,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolDefinition,
)
from penstock.models.offline import NOTICE, OfflineModel, RuleReply, decide


def tool(name: str, description: str, *required: str, **properties: Any) -> ToolDefinition:
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return ToolDefinition(name=name, description=description, parameters=parameters)


NUMBER = {"type": "number"}
ADD = tool("add", "Add two numbers. Slowly.", "a", "b", a=NUMBER, b=NUMBER)
TIMES = tool("multiply", "Multiply two numbers.", "a", "b", a=NUMBER, b=NUMBER)
MOON = tool("moon", "Tell the phase of the moon.")
FINISH = tool(
    "finish",
    "Hand over the result.",
    "status",
    status={"enum": ["complete", "error"]},
    summary={"type": "string"},
    files={"type": "array"},
    branch={"enum": ["left", "right"]},
    title={"type": "string"},
    count=NUMBER,
)


def answer(
    *messages: Message | str, tools: tuple[ToolDefinition, ...] = (ADD, TIMES, MOON), **more: Any
) -> RuleReply:
    said = [UserMessage(each) if isinstance(each, str) else each for each in messages]
    return decide(ModelRequest(system="", messages=said, tools=tools, **more))


def gave(name: str, content: str, *, ok: bool = True) -> ToolMessage:
    return ToolMessage(CallId("c"), name, content, ok=ok)


@pytest.mark.parametrize(
    ("message", "calls"),
    [
        ("add 1 and 2", [("add", {"a": 1, "b": 2})]),
        (
            "add 1 and 2, then multiply 3 by 4",
            [("add", {"a": 1, "b": 2}), ("multiply", {"a": 3, "b": 4})],
        ),
        ("3 plus 4, two numbers", [("add", {"a": 3, "b": 4})]),
        ("which phase has the moon?", [("moon", {})]),
        ("try a tool", [("moon", {})]),
        ("what can you do?", [("moon", {})]),
    ],
)
def test_tools_are_called(message: str, calls: list[Any]) -> None:
    """Picks tools by name/description match; several tools named are called together."""
    assert list(answer(message).calls) == calls


def test_a_question_about_its_abilities_lists_the_tools_and_tries_one() -> None:
    """Asked what it can do, it lists them and calls one that needs no input."""
    assert answer("what can you do?").text == (
        "I am the offline model: a handful of rules, not a language model. "
        "I can call these tools when you name them:\n\n"
        "- `add`: Add two numbers.\n- `multiply`: Multiply two numbers.\n"
        "- `moon`: Tell the phase of the moon.\n\nI try `moon`, which needs no input.\n\n"
    )


def test_without_a_harmless_tool_it_shows_how_to_call_one() -> None:
    shown = answer("try a tool", tools=(ADD,))
    assert shown.calls == ()
    assert shown.text.endswith("Write, for example: add a=… b=…")


def test_any_other_message_gets_the_truth() -> None:
    """Says clearly that it is not a language model."""
    text = answer("hello", tools=()).text
    assert text == (
        "I am the offline model: a handful of rules, not a language model. For real answers, name "
        "a model in penstock.toml under [models].\n\nNo tools are offered here."
    )


def test_missing_arguments_are_asked_for_by_name_and_the_answer_is_put_together() -> None:
    asked = answer("add 2")
    assert asked.text == "I cannot call `add` yet: I need `b` (number). Write, for example: b=…"
    said = AssistantMessage(asked.text)
    assert answer("add 2", said, "3").calls == (("add", {"a": 2, "b": 3}),)
    assert answer("add 2", said, "multiply 3 4").calls == (("multiply", {"a": 3, "b": 4}),)


def test_wrong_arguments_are_asked_for_by_name() -> None:
    asked = answer("add a=x b=2")
    assert asked.text == (
        "I cannot call `add` yet: `a` must be a number, found 'x'. Write, for example: a=…"
    )
    assert answer("add a=x b=2", AssistantMessage(asked.text), "a=7").calls == (
        ("add", {"a": 7, "b": 2}),
    )


def test_results_are_reported_and_the_notice_is_sent_once() -> None:
    turn = (UserMessage("add 1 2"), AssistantMessage(""), gave("add", "3"))
    first = answer(*turn)
    assert first.text == f"`add` returned: 3.\n\n({NOTICE})"
    assert first.calls == ()
    assert answer(*turn, AssistantMessage(first.text), *turn).text == "`add` returned: 3."


def test_failures_are_reported() -> None:
    content = '{"error": "too big", "code": "INVALID_INPUT", "suggestion": "Use less."}'
    text = answer("add 1 2", AssistantMessage(""), gave("add", content, ok=False)).text
    assert text.startswith("`add` failed: too big (INVALID_INPUT). Use less.")


def test_a_closing_request_always_gets_text() -> None:
    closed = answer("add 1 2", closing=True)
    assert closed.calls == ()
    assert closed.text.startswith("I have no results to report.")
    assert "returned: 3" in answer("add 1 2", gave("add", "3"), closing=True).text


def test_in_a_flow_it_calls_the_named_tools_and_hands_over_their_results() -> None:
    assert answer("Task: add 1 2", tools=(ADD, FINISH)).calls == (("add", {"a": 1, "b": 2}),)
    done = answer("Task: add 1 2", AssistantMessage(""), gave("add", "3"), tools=(ADD, FINISH))
    ((name, arguments),) = done.calls
    assert (name, done.text) == ("finish", "")
    assert arguments == {
        "status": "complete",
        "summary": "3",
        "files": [],
        "branch": "left",
        "title": "3",
        "count": 1,
    }


def test_a_conversation_without_a_message_is_survived() -> None:
    assert NOTICE in answer().text


DICE = tool(
    "dice", "Roll dice.", count={"type": "integer", "default": 1}, sides={"type": "integer"}
)
WEATHER = tool(
    "weather",
    "Return the weather of a city.",
    "city",
    city={"type": "string"},
    unit={"enum": ["celsius", "fahrenheit"]},
)
REFUND = tool(
    "refund", "Pay money back.", "order", "amount", order={"type": "string"}, amount=NUMBER
)


@pytest.mark.parametrize(
    ("message", "name", "arguments"),
    [
        ("Roll the dice", "dice", {}),
        ("roll 3 dice with 20 sides", "dice", {"count": 3, "sides": 20}),
        ("weather in Atlantis", "weather", {"city": "Atlantis"}),
        (
            "what is the weather in Oslo, in fahrenheit?",
            "weather",
            {"city": "Oslo", "unit": "fahrenheit"},
        ),
        ("refund order A1 amount 10", "refund", {"order": "A1", "amount": 10}),
        ("pay back 10 of order A1", "refund", {"order": "A1", "amount": 10}),
    ],
)
def test_people_write_as_they_like(message: str, name: str, arguments: dict[str, Any]) -> None:
    found = answer(message, tools=(DICE, WEATHER, REFUND))
    assert list(found.calls) == [(name, arguments)]


ODD = tool(
    "odd",
    "Odd.",
    "missing",
    "a",
    a=True,
    b={"type": ["null", "integer"]},
    c={"enum": []},
    d={"anyOf": [{"$ref": "#/x"}]},
    e={"type": "array", "items": False},
    f={},
)


@given(text=st.text(), joined=st.lists(st.sampled_from(["add", "odd", "a=", "{", "1", '"', "e ["])))
def test_no_message_is_too_odd(text: str, joined: list[str]) -> None:
    for message in (text, " ".join(joined), f"odd {text}", f"odd a={text} f: {text}"):
        found = answer(message, tools=(ADD, ODD, FINISH))
        for name, arguments in found.calls:
            assert name in {"add", "odd", "finish"}
            assert json.loads(json.dumps(arguments, allow_nan=False)) == arguments


class PatientClock:
    """Notes how long it was asked to sleep, and does not."""

    def __init__(self) -> None:
        self.slept = 0.0

    def now(self) -> Any:
        return 0

    def monotonic(self) -> float:
        return 0

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds


async def test_it_streams_word_by_word_at_the_given_speed() -> None:
    clock = PatientClock()
    model = OfflineModel(clock=clock, seconds_per_word=1)
    request = ModelRequest(system="", messages=[UserMessage("add 1 2")], tools=[ADD])
    events = [event async for event in model.stream(request)]
    thoughts = [event for event in events if isinstance(event, ReasoningDelta)]
    assert "".join(thought.text for thought in thoughts) == "The message names add. Calling it."
    assert clock.slept == len(thoughts) == 6
    assert events[6:8] == [CallDelta(0, "add"), CallDelta(0, "", '{"a": 1, "b": 2}')]
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "tool_calls"
    assert not [event for event in events if isinstance(event, TextDelta)]


HELPER = replace(tool("helper", "Help."), is_builtin=True)


def test_the_tools_of_a_project_come_before_those_that_are_built_in() -> None:
    shown = answer("try a tool", tools=(HELPER, MOON))
    assert shown.calls == (("moon", {}),)
    assert "- `moon`: Tell the phase of the moon.\n- … and 1 that are built in\n" in shown.text
    assert "helper" not in shown.text
    assert answer("try a tool", tools=(HELPER, ADD)).calls == (("helper", {}),)
    assert answer("hello", tools=(HELPER, ADD)).text.endswith("Write, for example: add a=… b=…")


def test_where_nothing_else_is_there_the_built_in_tools_are_listed() -> None:
    assert "- `helper`: Help." in answer("what can you do?", tools=(HELPER,)).text
