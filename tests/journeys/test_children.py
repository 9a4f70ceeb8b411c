"""A tool requests child tasks and waits for them: in order, at once, with types, with failures."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import ChildResult, ChildTask, ToolContext, tool
from penstock.core.events.child_events import ChildrenSpawned, ChildRequested
from penstock.core.events.events import TaskStarted
from penstock.core.ids import LogId, TaskId
from penstock.core.limits import Limits
from penstock.models.scripted import ScriptedModel, call, say
from penstock.store.projections import Page, TasksOf
from penstock.testing.runtime import MemoryStorage, memory_runtime

SCRIPT = {
    "Go": [call("plan"), say("All done.")],
    "the apples": [say("3 EUR")],
    "the pears": [say('{"price": 4}')],
    "add them": [say("7 EUR")],
    "a ticket": [call("final_answer", price=4)],
    "a wrong ticket": [call("final_answer", price="four")] * 9,
}


@dataclass
class Price:
    """A price."""

    price: int


def tools_that(plan: Any) -> Any:
    """Return a function as the tool `plan`."""
    plan.__name__ = "plan"
    return [tool(effect="write", direct_call=True)(plan)]


def model() -> ScriptedModel:
    return ScriptedModel(SCRIPT)


async def output_of(plan: Any, **limits: Any) -> Any:
    """Run the tool in a direct call; return its output, or its error."""
    here = MemoryStorage(limits=Limits(shutdown_seconds=0, **limits))
    async with memory_runtime(model=model(), tools=tools_that(plan), place=here) as runtime:
        envelope = await runtime.call("plan", {})
    return envelope.output if envelope.ok else envelope.error


async def test_children_of_a_chat_answer_in_the_order_in_which_they_are_gathered() -> None:
    async def plan(ctx: ToolContext) -> list[Any]:
        """Plan."""
        first = await ctx.spawn("Find the apples", key="a")
        second = await ctx.spawn("Find the pears", key="b", input={"kind": "pear"})
        return await ctx.gather(second, first)

    async with memory_runtime(model=(scripted := model()), tools=tools_that(plan)) as runtime:
        reply = await runtime.chat("Go")
        parts = runtime.parts.storage
        _, total = await parts.projections.tasks(page=Page())
        root = TaskId(reply.task_id)
        below, _ = await parts.projections.tasks(of=TasksOf(root_id=root), page=Page())
        pears = next(each for each in below if each.task_key == "b")
        (asked, started, *_) = await parts.log.read(LogId(pears.task_id))
    assert reply.content == "All done."
    assert (total, {each.task_key for each in below}) == (3, {"a", "b"})
    assert {each.parent_id for each in below} == {root}
    results = [each.messages[-1] for each in scripted.requests if len(each.messages) > 2]
    assert '[{"price":4},"3 EUR"]' in str(results[-1])
    assert isinstance(asked.event, ChildRequested)
    assert asked.event.session == reply.session
    assert isinstance(started.event, TaskStarted)
    assert (
        started.event.brief == 'Find the pears\n\nFind the pears\n\nInput (JSON):\n{"kind":"pear"}'
    )


async def test_the_tool_of_the_page_finds_the_cheapest_shop() -> None:
    page = (Path(penstock.__file__).parents[1] / "docs/tasks.md").read_text("utf-8")
    source, names = page.partition("```python\n")[2].partition("```")[0], dict[str, Any]()
    exec(compile(source, "tasks.md", "exec"), names)  # noqa: S102  what the page says
    prices = {"Nord": 12.5, "Ost": 9.0, "West": 11.0}
    script: dict[str, Any] = {
        f"the price of tea at {shop}.": [call("final_answer", shop=shop, euros=euros)]
        for shop, euros in prices.items()
    }
    script["Where is tea cheap?"] = [call("cheapest", article="tea"), say("At Ost.")]
    scripted = ScriptedModel(script)
    async with memory_runtime(model=scripted, tools=[names["cheapest"]]) as runtime:
        assert (await runtime.chat("Where is tea cheap?")).content == "At Ost."
    assert "Ost: 9.00 EUR" in str(scripted.requests[-1].messages[-1])


async def test_the_prompt_of_a_child_says_what_its_result_is() -> None:
    async def plan(ctx: ToolContext) -> Any:
        """Plan."""
        return await ctx.gather(await ctx.spawn("Find the apples"))

    async with memory_runtime(model=(scripted := model()), tools=tools_that(plan)) as runtime:
        await runtime.call("plan", {})
    assert "Your last message is the result of this task" in scripted.requests[0].system


async def test_the_output_of_a_child_is_a_value_of_its_type() -> None:
    async def plan(ctx: ToolContext) -> int:
        """Plan."""
        child = await ctx.spawn("Find a ticket", output=Price)
        (price,) = await ctx.gather(child)
        assert isinstance(price, Price)
        return price.price

    assert await output_of(plan) == 4


@dataclass
class Trip:
    """A trip."""

    city: str
    nights: int


FITTING: list[tuple[Any, Any]] = [
    (Trip("Rome", 2), Trip),
    ({"city": "Rome", "nights": 2}, Trip),
    ({"city": "Rome", "nights": 2}, {"type": "object", "required": ["city"]}),
    (Trip("Rome", 2), None),
]


@pytest.mark.parametrize(("given", "hint"), FITTING)
async def test_a_child_reads_an_input_that_fits_its_type(given: Any, hint: Any) -> None:
    async def plan(ctx: ToolContext) -> Any:
        """Plan."""
        child = await ctx.spawn("Find the apples", input=given, input_type=hint)
        return await ctx.gather(child)

    async with memory_runtime(model=(scripted := model()), tools=tools_that(plan)) as runtime:
        assert (await runtime.call("plan", {})).output == ["3 EUR"]
    assert '{"city":"Rome","nights":2}' in str(scripted.requests[0].messages[0].content)


MISFITS: list[tuple[Any, Any, str]] = [
    ({"city": "Rome"}, Trip, "input is not valid: "),
    ({"city": "Rome", "nights": "two"}, Trip, "/nights"),
    (None, Trip, "input is not valid: "),
    ([1, "x"], list[int], "/1"),
    ({}, {"type": "object", "required": ["city"]}, "city"),
    ({}, {"type": 3}, "input_type is not a JSON Schema"),
    (object(), Trip, "input"),
]


@pytest.mark.parametrize(("given", "hint", "message"), MISFITS)
async def test_an_input_that_does_not_fit_creates_no_child(
    given: Any, hint: Any, message: str
) -> None:
    async def plan(ctx: ToolContext) -> str:
        """Plan."""
        with pytest.raises(TypeError) as refused:
            await ctx.spawn("Find the apples", key="a", input=given, input_type=hint)
        return str(refused.value)

    async with memory_runtime(model=model(), tools=tools_that(plan)) as runtime:
        envelope = await runtime.call("plan", {})
        _, total = await runtime.parts.storage.projections.tasks(page=Page())
    assert message in envelope.output
    assert total == 1


async def test_a_bad_output_is_corrected_twice_at_most() -> None:
    async def plan(ctx: ToolContext) -> Any:
        """Plan."""
        child = await ctx.spawn("Find a wrong ticket", output=Price)
        (result,) = await ctx.gather(child, settled=True)
        return [result.code, "/price" in result.error]

    async with memory_runtime(model=(scripted := model()), tools=tools_that(plan)) as runtime:
        assert (await runtime.call("plan", {})).output == ["INVALID_OUTPUT", True]
    assert len(scripted.requests) == 3


async def test_an_output_that_breaks_its_schema_fails_the_child_alone() -> None:
    async def plan(ctx: ToolContext) -> Any:
        """Plan."""
        bad = await ctx.spawn("Find a wrong ticket", output=Price)
        good = await ctx.spawn("Find the apples")
        results: list[ChildResult] = await ctx.gather(bad, good, settled=True)
        return [[each.status, each.code, each.output] for each in results]

    assert await output_of(plan) == [["failed", "INVALID_OUTPUT", None], ["succeeded", "", "3 EUR"]]


async def test_a_child_that_failed_fails_the_gather_with_its_reason() -> None:
    async def plan(ctx: ToolContext) -> Any:
        """Plan."""
        return await ctx.gather(await ctx.spawn("Find a wrong ticket", output=Price))

    error = await output_of(plan)
    assert (error.code, error.details["reason"]) == ("TOOL_FAILED", "dependency_failed")
    assert (error.details["status"], error.details["code"]) == ("failed", "INVALID_OUTPUT")


async def test_a_child_starts_after_the_tasks_that_it_needs_and_reads_their_outputs() -> None:
    async def plan(ctx: ToolContext) -> Any:
        """Plan."""
        first = await ctx.spawn("Find the apples", key="first")
        after: dict[str, ChildTask | str] = {"apples": first}
        second = await ctx.spawn("Now add them", key="second", after=after)
        return await ctx.gather(second)

    async with memory_runtime(model=(scripted := model()), tools=tools_that(plan)) as runtime:
        envelope = await runtime.call("plan", {})
    assert envelope.output == ["7 EUR"]
    last = str(scripted.requests[-1].messages[0])
    assert 'Results of earlier tasks (JSON):\\n{"apples":"3 EUR"}' in last


async def test_a_child_whose_dependency_failed_never_starts() -> None:
    async def plan(ctx: ToolContext) -> Any:
        """Plan."""
        bad = await ctx.spawn("Find a wrong ticket", output=Price)
        child = await ctx.spawn("Now add them", after={"bad": bad})
        (result,) = await ctx.gather(child, settled=True)
        return [result.status, result.code]

    async with memory_runtime(model=model(), tools=tools_that(plan)) as runtime:
        assert (await runtime.call("plan", {})).output == ["failed", "DEPENDENCY_FAILED"]
        tasks, _ = await runtime.parts.storage.projections.tasks(page=Page())
    assert [each.started_at for each in tasks if each.title == "Now add them"] == [None]


async def test_the_same_key_is_the_same_child_also_in_another_call() -> None:
    async def plan(ctx: ToolContext) -> Any:
        """Plan."""
        child = await ctx.spawn("Find the apples", key="a")
        again = await ctx.spawn("Find the apples", key="a")
        assert child.task_id == again.task_id
        return await ctx.gather(again)

    script = {**SCRIPT, "Go": [call("plan"), call("plan"), say("Done.")]}
    place = MemoryStorage()
    tools = tools_that(plan)
    async with memory_runtime(model=ScriptedModel(script), tools=tools, place=place) as runtime:
        reply = await runtime.chat("Go")
        _, total = await runtime.parts.storage.projections.tasks(page=Page())
        records = await runtime.parts.storage.log.read(LogId(reply.session))
    assert (reply.content, total) == ("Done.", 2)
    assert sum(isinstance(each.event, ChildrenSpawned) for each in records) == 1


WRONG = {
    "another objective": ('ctx.spawn("Find the pears", key="a")', "other arguments"),
    "no text": ("ctx.spawn(3)", "objective must be a text"),
    "blank": ('ctx.spawn(" ")', "objective must be a text of 1 to 16384 bytes"),
    "unknown option": ('ctx.spawn("x", agent="y")', "spawn has no option agent"),
    "long key": ('ctx.spawn("x", key="k" * 129)', "key must have at most 128 characters"),
    "turns": ('ctx.spawn("x", max_turns=51)', "max_turns must be a number from 1 to 50"),
    "schema": ('ctx.spawn("x", output={"type": 3})', "output_schema is not a JSON Schema"),
    "skill": ('ctx.spawn("x", skills=["nope"])', "there is no skill 'nope'"),
    "tool": ('ctx.spawn("x", tools=["nope"])', "may not have the tools nope"),
    "unknown dependency": ('ctx.spawn("x", after={"a": "task_9"})', "there is no task 'task_9'"),
    "itself": ('ctx.spawn("x", after={"a": ctx.task_id})', "would wait for each other"),
    "unknown child": ('ctx.gather(ChildTask(task_id="task_9", key=""))', "no task 'task_9'"),
    "its own task": ('ctx.gather(ChildTask(task_id=ctx.task_id, key=""))', "wait for each other"),
    "no task": ("ctx.gather(3)", "expected a ChildTask"),
}


@pytest.mark.parametrize(("code", "message"), WRONG.values(), ids=WRONG)
async def test_what_no_child_can_be_is_refused_where_it_is_said(code: str, message: str) -> None:
    async def plan(ctx: ToolContext) -> Any:
        """Plan."""
        await ctx.spawn("Find the apples", key="a")
        return await eval(code, {"ctx": ctx, "ChildTask": ChildTask})  # noqa: S307  our own text

    error = await output_of(plan)
    assert message in error.message


async def test_tasks_are_not_below_each_other_without_end() -> None:
    async def plan(ctx: ToolContext) -> Any:
        """Plan."""
        return await ctx.gather(await ctx.spawn("Go", tools=["plan"]))

    error = await output_of(plan, child_depth=0)
    assert error.code == "DEPTH_EXCEEDED"


async def test_a_tree_has_room_for_so_many_tasks() -> None:
    async def plan(ctx: ToolContext) -> Any:
        """Plan."""
        children = [await ctx.spawn("Find the apples", key=str(number)) for number in range(3)]
        return await ctx.gather(*children)

    error = await output_of(plan, child_tasks=2)
    assert error.details == {"reason": "too_many_children"}


async def test_children_wait_for_a_place_in_their_tree() -> None:
    async def plan(ctx: ToolContext) -> Any:
        """Plan."""
        children = [await ctx.spawn("Find the apples", key=str(number)) for number in range(4)]
        return await ctx.gather(*children)

    assert await output_of(plan, child_parallel=1) == ["3 EUR"] * 4
