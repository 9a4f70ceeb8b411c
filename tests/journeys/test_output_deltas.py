"""The typed output while a model streams it: what programs and readers of the stream see."""

import asyncio
import json
from typing import Any, Literal

import pytest
from msgspec.structs import replace
from pydantic import BaseModel

from penstock.agents.agent import Agent
from penstock.agents.output_contract import OutputMode
from penstock.chat.python.public_events import (
    Ended,
    Event,
    Notice,
    OutputDelta,
    Text,
    ToolReturned,
)
from penstock.chat.python.run import Run
from penstock.models.scripted import (
    SCRIPTED,
    Hold,
    ScriptedModel,
    ScriptedReply,
    call,
    fail,
    raw_call,
    say,
)
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.server import frames, served
from tests.kit.tools import Act

JSON_CARD = replace(SCRIPTED, json_schema=True)


class Ticket(BaseModel):
    """A report of a fault."""

    title: str
    severity: Literal["low", "high"]


class Spam(BaseModel):
    """No report."""

    reason: str


PIECES = ('{"ti', 'tle": "Fi', "re ", 'in", "severity": "lo', 'w"}')
SHOWN = [
    {},
    {"title": "Fi"},
    {"title": "Fire "},
    {"title": "Fire in", "severity": "lo"},
    {"title": "Fire in", "severity": "low"},
]
WHOLE = SHOWN[-1]


async def events_of(run: Run[Any]) -> list[Event]:
    return [event async for event in run]


def shown(events: list[Event]) -> list[Any]:
    return [event.partial for event in events if isinstance(event, OutputDelta)]


async def streamed(
    model: ScriptedModel, place: MemoryStorage | None = None, **options: Any
) -> tuple[list[Event], list[Event]]:
    """Return the events of a task for a reader that follows it, and for one that comes later."""
    agent: Agent[object, Any] = Agent("triage", model=model, **({"output": Ticket} | options))
    async with memory_runtime(agents=[agent], place=place) as runtime:
        run = await runtime.start("The printer burns", agent=agent)
        return await events_of(run), await events_of(run)


async def test_a_call_of_final_answer_shows_the_output_as_it_grows() -> None:
    """Each delta is whole JSON and replaces the one before; the last one is the output."""
    live, later = await streamed(ScriptedModel([raw_call("final_answer", *PIECES)]))
    assert shown(live) == [*SHOWN, WHOLE]
    assert shown(later) == [WHOLE]
    assert live[-2:] == later[-2:] == [OutputDelta(WHOLE), Ended("succeeded")]


@pytest.mark.parametrize("beside", ["", "Here it is. "])
async def test_the_text_beside_an_answer_is_shown_once(beside: str) -> None:
    """Without such a text the answer for people is the output as JSON, which no reply had."""
    script = [say(beside) + raw_call("final_answer", *PIECES)]
    live, later = await streamed(ScriptedModel(script))
    said = [beside] if beside else [json.dumps(WHOLE, separators=(",", ":"))]
    assert [each.text for each in live if isinstance(each, Text)] == said
    assert [each.text for each in later if isinstance(each, Text)] == said
    async with served(model=ScriptedModel(script)) as server:
        sent = await server.stream("It burns", outputSchema=Ticket.model_json_schema())
    deltas = [each for _, each in frames(sent.text) if each["type"] == "content_delta"]
    assert [each["delta"] for each in deltas] == said


async def test_an_answer_in_the_format_of_the_provider_shows_the_output_too() -> None:
    model = ScriptedModel([say(*PIECES)], card=JSON_CARD)
    live, later = await streamed(model, output_mode="native")
    assert shown(live) == [*SHOWN, WHOLE]
    assert shown(later) == [WHOLE]
    assert "".join(each.text for each in live if isinstance(each, Text)) == "".join(PIECES)


@pytest.mark.parametrize(
    ("output", "tool_id", "pieces", "partials"),
    [
        (list[int], "final_answer", ('{"value"', ": [1", ", 20", "]}"), [[1], [1, 20]]),
        (Ticket | None, "final_answer_None", ('{"value"', ": nu", "ll}"), [None]),
        (
            Ticket | Spam,
            "final_answer_Spam",
            ('{"reason": "a', 'd"}'),
            [{"reason": "a"}, {"reason": "ad"}],
        ),
    ],
)
async def test_the_wrapper_of_a_value_is_not_shown(
    output: Any, tool_id: str, pieces: tuple[str, ...], partials: list[Any]
) -> None:
    live, _ = await streamed(ScriptedModel([raw_call(tool_id, *pieces)]), output=output)
    assert shown(live) == [*partials, partials[-1]]


async def test_an_answer_that_is_corrected_is_shown_again_from_its_beginning() -> None:
    wrong = raw_call("final_answer", '{"title": "a"', ', "severity": "red"}')
    live, _ = await streamed(ScriptedModel([wrong, call("final_answer", **WHOLE)]))
    assert shown(live) == [{"title": "a"}, {"title": "a", "severity": "red"}, WHOLE, WHOLE]


async def test_a_reply_that_failed_is_shown_again_from_its_beginning() -> None:
    cut = raw_call("final_answer", *PIECES[:2]) + fail(503)
    model, clock = ScriptedModel([cut, raw_call("final_answer", *PIECES)]), FakeClock()
    following = asyncio.ensure_future(streamed(model, MemoryStorage(clock=clock)))
    await clock.elapse(1)
    live, _ = await following
    assert shown(live)[:2] == SHOWN[:2]
    assert shown(live)[2:] == [*SHOWN, WHOLE]
    assert not any(isinstance(each, Notice) for each in live)


@pytest.mark.parametrize(
    "reply",
    [
        raw_call("look", '{"title": "a"}'),
        say("I look. ") + raw_call("look", '{"a": "b"}'),
        raw_call("final_answer", "no JSON"),
    ],
)
async def test_only_answers_are_shown(reply: ScriptedReply) -> None:
    model = ScriptedModel([reply, call("final_answer", **WHOLE)])
    live, _ = await streamed(model, tools=[Act("look")])
    assert shown(live) == [WHOLE, WHOLE]


async def test_of_two_answers_in_one_reply_the_first_one_is_shown() -> None:
    two = raw_call("final_answer", '{"title": "a", "severity": "low"}') + call("final_answer")
    live, _ = await streamed(ScriptedModel([two]))
    assert shown(live) == [{"title": "a", "severity": "low"}] * 2


@pytest.mark.parametrize("mode", [OutputMode.TOOL, OutputMode.PROMPTED])
async def test_an_output_that_does_not_stream_is_shown_at_the_end(mode: OutputMode) -> None:
    def book(title: str) -> Ticket:
        """Book a repair."""
        return Ticket(title=title, severity="low")

    if mode is OutputMode.TOOL:
        live, _ = await streamed(ScriptedModel([call("final_answer", title="a")]), output=book)
    else:
        answer = say('{"title": "a", ', '"severity": "low"}')
        live, _ = await streamed(ScriptedModel([answer]), output_mode=mode)
    assert shown(live) == [{"title": "a", "severity": "low"}]


async def test_a_task_with_a_text_shows_no_output() -> None:
    live, later = await streamed(ScriptedModel([say('{"title": "a"}')]), output=str)
    assert shown(live) == shown(later) == []


async def test_the_output_of_an_agent_below_has_its_path() -> None:
    inner = ScriptedModel([raw_call("final_answer", *PIECES)])
    triage = Agent("triage", model=inner, output=Ticket, description="Makes tickets.")
    outer = ScriptedModel([call("triage", task="x"), say("Done.")])
    clerk = Agent("clerk", model=outer, tools=[triage])
    async with memory_runtime(agents=[clerk]) as runtime:
        events = await events_of(await runtime.start("Go", agent=clerk))
    below = [each for each in events if isinstance(each, OutputDelta)]
    assert [each.partial for each in below] == SHOWN
    assert {(each.depth, each.path) for each in below} == {(1, ("triage",))}
    (returned,) = [each for each in events if isinstance(each, ToolReturned) and not each.depth]
    assert returned.call.output == WHOLE


async def test_a_reader_that_comes_late_gets_the_output_so_far() -> None:
    hold = Hold()
    steps = raw_call("final_answer", *PIECES).steps
    model = ScriptedModel([ScriptedReply((*steps[:4], hold, *steps[4:]), calls=1)])
    triage = Agent("triage", model=model, output=Ticket)
    async with memory_runtime(agents=[triage]) as runtime:
        run = await runtime.start("It burns", agent=triage)
        early = run.events()
        while (await anext(early)) != OutputDelta(SHOWN[2]):
            pass
        late = run.events()
        assert await anext(late) == OutputDelta(SHOWN[2])
        hold.release()
        rest = [event async for event in late]
        assert shown(rest) == [*SHOWN[3:], WHOLE]


async def test_a_stream_sends_the_output_so_far_without_an_id() -> None:
    """A frame without an id is not sent again; the last frame of the task has the whole output."""
    schema = Ticket.model_json_schema()
    async with served(model=ScriptedModel([raw_call("final_answer", *PIECES)])) as server:
        live = await server.stream("The printer burns", outputSchema=schema)
        conversation = live.headers["x-conversation-id"]
        again = await server.follow(conversation)
        listed = (await server.client.get("/openapi.json")).json()
    sent = [json.loads(line[6:]) for line in live.text.split("\n") if line.startswith("data: ")]
    partials = [each["partial"] for each in sent if each["type"] == "output_delta"]
    assert partials == SHOWN
    assert sent[-1]["output"] == WHOLE
    assert "output_delta" not in again.text
    numbered = [each for each in frames(live.text) if each[0]]
    assert numbered == frames(again.text)
    assert "OutputDelta" in listed["components"]["schemas"]


async def test_the_cost_of_showing_grows_with_the_length_of_the_output() -> None:
    """However small the pieces are, what is sent is at most some 40 times the output."""
    items = json.dumps({"value": ["x" * 8] * 500})
    reply = raw_call("final_answer", *[items[at : at + 4] for at in range(0, len(items), 4)])
    live, _ = await streamed(ScriptedModel([reply]), output=list[str])
    sent = sum(len(json.dumps(partial)) for partial in shown(live))
    assert len(shown(live)) > 100
    assert sent < 40 * len(items)
