"""Replays of recorded tasks: what is the same, what differs, and what never runs."""

from typing import Any

import pytest

from penstock import Agent, ReplayChanges
from penstock.core.errors import ConfigError, InvalidRequest, NotFound, TaskRunning
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.replays import RUNS, TOOLS, found, look_up, one_task, pay, price, replayed


@pytest.fixture
async def place() -> MemoryStorage:
    """A storage with one task, in which tools succeed, fail and refuse their input."""
    place = MemoryStorage()
    await one_task(place)
    return place


CHANGES: dict[str, tuple[dict[str, Any], tuple[str, str]]] = {
    "another prompt": (
        {"changes": ReplayChanges(system_prompt="Be brief.")},
        ("prompt", "task/1"),
    ),
    "a tool more": ({"tools": (*TOOLS, look_up)}, ("tools", "task/1")),
    "a tool less": ({"tools": (price,)}, ("tools", "task/1")),
    "a call that asks a person": (
        {"changes": ReplayChanges(tools={"note_down": {"requires_approval": True}})},
        ("permission", "task/2/note_down#1"),
    ),
    "an output that does not fit": (
        {"changes": ReplayChanges(tools={"price": {"output_schema": {"type": "string"}}})},
        ("output_schema", "task/1/price#1"),
    ),
    "an input that does not fit": (
        {"changes": ReplayChanges(tools={"note_down": {"input_schema": {"maxProperties": 0}}})},
        ("tool_input", "task/2/note_down#1"),
    ),
    "an input that fits now": (
        {"changes": ReplayChanges(tools={"price": {"input_schema": {"type": "object"}}})},
        ("tool_input", "task/3/price#1"),
    ),
    "fewer turns": (
        {"changes": ReplayChanges(settings={"max_iterations": 1})},
        ("limit", "task/1"),
    ),
    "fewer calls": (
        {"changes": ReplayChanges(settings={"budget_tool_calls": 1})},
        ("limit", "task/1/price#1"),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_the_first_difference_is_named_with_its_place(
    place: MemoryStorage, name: str
) -> None:
    options, expected = CHANGES[name]
    report = await replayed(place, **options)
    assert (found(report), report.stopped) == (expected, "difference")
    assert RUNS == []


async def test_a_changed_prompt_shows_both_texts_and_where_they_differ(
    place: MemoryStorage,
) -> None:
    report = await replayed(place, changes=ReplayChanges(system_prompt="You are a hopeful clerk."))
    wire = report.to_wire()["difference"]
    assert wire["recorded"]["system"].startswith("You are a helpful assistant.")
    assert wire["now"]["system"].startswith("You are a hopeful clerk.")
    assert (wire["diff"][0]["pointer"], wire["diff"][0]["character"]) == ("/system", 11)


async def test_a_replay_ends_at_the_event_that_was_named(place: MemoryStorage) -> None:
    report = await replayed(place, until=4, changes=ReplayChanges(settings={"max_iterations": 1}))
    assert (report.equal, report.stopped, report.up_to_seq) == (True, "until", 4)


async def test_an_event_that_the_task_does_not_have_ends_no_replay(place: MemoryStorage) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await replayed(place, until=10_000)
    assert refused.value.problems[0]["field"] == "/until"


async def test_answers_of_people_are_given_again() -> None:
    place = MemoryStorage()
    model = ScriptedModel([call("pay", cents=250) + call("price", item="tea"), say("It is paid.")])
    async with memory_runtime(model=model, tools=[pay, price], place=place) as runtime:
        reply = await runtime.chat("Pay for tea")
        reply = await runtime.approve(reply)
        assert reply.content == "It is paid."
    RUNS.clear()
    assert (await replayed(place, tools=(pay, price))).equal
    changes = ReplayChanges(tools={"pay": {"requires_approval": False}})
    report = await replayed(place, tools=(pay, price), changes=changes)
    assert found(report) == ("permission", "task/1/pay#1")
    assert RUNS == []


async def test_an_agent_with_tools_of_its_own_and_an_agent_as_a_tool_are_replayed() -> None:
    place = MemoryStorage()
    inner = Agent(
        "inner", model=ScriptedModel([call("price", item="tea"), say("2.50")]), tools=[price]
    )
    outer_model = ScriptedModel([call("inner", task="Ask for tea"), say("It is 2.50.")])
    outer = Agent("outer", model=outer_model, tools=[inner])
    async with memory_runtime(agents=[outer], place=place) as runtime:
        assert (await runtime.chat("Tea?", agent=outer)).content == "It is 2.50."
    RUNS.clear()
    again = Agent("outer", model=ScriptedModel([]), tools=[inner])
    report = await replayed(place, agents=(again,))
    assert (report.equal, report.stopped, RUNS) == (True, "end", [])
    changed = Agent("inner", model=ScriptedModel([]), tools=[price], instructions="Be brief.")
    other = Agent("outer", model=ScriptedModel([]), tools=[changed])
    assert found(await replayed(place, agents=(other,)))[0] == "prompt"


async def test_a_changed_agent_is_found_by_its_digest() -> None:
    """The log has no text of its old instructions, and the report says so."""
    place = MemoryStorage()
    before = Agent("clerk", instructions="Sell.", model=ScriptedModel([say("Yes.")]), tools=[])
    async with memory_runtime(agents=[before], place=place) as runtime:
        await runtime.chat("Tea?", agent=before)
    after = Agent("clerk", instructions="Buy.", model=ScriptedModel([]), tools=[])
    report = await replayed(place, agents=(after,))
    assert found(report) == ("prompt", "task/1")
    assert "no text of system prompts" in report.warnings[0]


async def test_a_typed_output_is_replayed() -> None:
    place = MemoryStorage()
    model = ScriptedModel([call("final_answer", value="x"), call("final_answer", value=3)])
    counter = Agent("counter", model=model, output=int)
    async with memory_runtime(agents=[counter], place=place) as runtime:
        assert (await runtime.chat("How many?", agent=counter)).output == 3
    again = Agent("counter", model=ScriptedModel([]), output=int)
    report = await replayed(place, tools=(), agents=(again,))
    assert (report.equal, report.stopped) == (True, "end")


async def test_a_task_in_a_long_conversation_is_replayed_from_its_own_place() -> None:
    place = MemoryStorage()
    model = ScriptedModel([say("One."), call("price", item="tea"), say("Two."), say("Three.")])
    async with memory_runtime(model=model, tools=TOOLS, place=place) as runtime:
        first = await runtime.chat("1")
        second = await runtime.chat("2", session=first.session)
        await runtime.chat("3", session=first.session)
        report = await runtime.replay(second.task_id)
    assert (report.equal, report.stopped) == (True, "end")
    assert report.compared_events == report.total_events


async def test_what_cannot_be_replayed_is_refused(place: MemoryStorage) -> None:
    model = ScriptedModel([call("pay", cents=1)])
    async with memory_runtime(model=model, tools=[pay], place=place) as runtime:
        waiting = await runtime.chat("Pay")
        with pytest.raises(TaskRunning, match="is suspended: replay it when it has ended"):
            await runtime.replay(waiting.task_id)
        with pytest.raises(NotFound):
            await runtime.replay("task_other")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a model without live": ({"model": "fast"}, "asked only with live=True"),
    "an unknown setting": ({"settings": {"max_turn": 1}}, "no setting 'max_turn'"),
    "a wrong value": ({"settings": {"max_iterations": "x"}}, "the settings cannot be changed"),
    "an unknown tool": ({"tools": {"prize": {}}}, "the tool cannot be changed: .*prize"),
    "a time that is none": ({"tools": {"price": {"timeout_ms": "x"}}}, "Expected `int`"),
    "no time at all": ({"tools": {"price": {"timeout_ms": 0}}}, "`int` >= 1"),
    "no schema": ({"tools": {"price": {"input_schema": 5}}}, "cannot be changed like this"),
    "a wrong schema": (
        {"tools": {"price": {"output_schema": {"type": 3}}}},
        "cannot be changed like this",
    ),
    "no permissions": ({"tools": {"price": {"requires_permissions": [5]}}}, "Expected `str`"),
    "a part of a tool that is fixed": (
        {"tools": {"price": {"effect": "write"}}},
        "price: 'effect' cannot be changed; these can: description",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_changes_that_fit_nothing_are_refused(place: MemoryStorage, name: str) -> None:
    changes, message = REFUSED[name]
    with pytest.raises(ConfigError, match=message):
        await replayed(place, changes=ReplayChanges(**changes))
