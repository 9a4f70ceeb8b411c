"""The body of a child: its time, its dependencies, its rights."""

from typing import Any

import pytest

from penstock import ChildTask, ToolContext
from tests.kit.children import family


async def output_of(plan: Any, **limits: Any) -> Any:
    async with family(plan, **limits) as runtime:
        envelope = await runtime.call("plan", {})
    return envelope.output if envelope.ok else envelope.error


async def test_a_child_that_works_too_long_fails() -> None:
    async def plan(ctx: ToolContext) -> object:
        (result,) = await ctx.gather(await ctx.spawn("Hang"), settled=True)
        return [result.status, result.code]

    assert await output_of(plan, child_seconds=0) == ["failed", "TIMEOUT"]


ANY = {
    "all, and one failed": ({}, ["failed", "DEPENDENCY_FAILED"]),
    "any": ({"condition": "any"}, ["succeeded", ""]),
    "all, whatever became of them": ({"settled": True}, ["succeeded", ""]),
}


@pytest.mark.parametrize(("options", "expected"), ANY.values(), ids=ANY)
async def test_a_child_starts_when_its_dependencies_have_ended_as_it_needs(
    options: Any, expected: list[str]
) -> None:
    async def plan(ctx: ToolContext) -> object:
        good = await ctx.spawn("Find the apples", key="good")
        wrong = {"type": "object", "properties": {"euros": {"type": "number"}}}
        bad = await ctx.spawn("Answer badly", key="bad", output=wrong)
        after: dict[str, ChildTask | str] = {"bad": bad, "good": good}
        child = await ctx.spawn("Now add them", key="child", after=after, **options)
        (result,) = await ctx.gather(child, settled=True)
        return [result.status, result.code]

    assert await output_of(plan) == expected


async def test_a_child_is_offered_only_the_tools_that_it_may_have() -> None:
    async def plan(ctx: ToolContext) -> object:
        every = await ctx.spawn("Find the apples", key="every")
        none = await ctx.spawn("Find the apples", key="none", tools=[])
        return await ctx.gather(every, none)

    async with family(plan) as runtime:
        await runtime.call("plan", {})
        requests = runtime.parts.chat.models.get(None).requests  # type: ignore[attr-defined]
    offered = [[tool.name for tool in each.tools] for each in requests]
    assert sorted(offered) == [[], ["plan"]]
