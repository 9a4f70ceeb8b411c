"""Undos at work: what happens between their plan and their last change."""

from typing import Any

from penstock import ToolContext, tool
from penstock.chat.recorded.stored_before import CHANGED
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing import memory_runtime


@tool(state="shop")
async def write(ctx: ToolContext, value: str | None) -> None:
    """Store a value, or delete it."""
    await ctx.state.profile.put("stock", value)


@tool(state="shop", direct_call=True, effect="read")
async def read(ctx: ToolContext) -> Any:
    """Return the value."""
    return await ctx.state.profile.get("stock", "nothing")


@tool(state="shop", direct_call=True)
async def meddle(ctx: ToolContext) -> None:
    """Change the value from another task."""
    await ctx.state.profile.put("stock", "of somebody else")


TOOLS = (write, read, meddle)


async def value(runtime: Any) -> Any:
    return (await runtime.call("read", {})).output


async def test_a_value_that_changes_during_the_undo_is_left_and_the_rest_is_taken_back() -> None:
    """The store compares in the transaction of the change, so no plan can be too old."""

    @tool(revert="give_back")
    def take() -> str:
        """Take something."""
        return "taken"

    @tool(state="shop")
    async def give_back(ctx: ToolContext, input: dict[str, Any], output: str) -> str:
        """Give it back, and change the value on the way."""
        await ctx.state.profile.put("stock", "of a revert")
        return "given"

    replies = (call("write", value="x"), call("take"), say(""))
    tools = (*TOOLS, take, give_back)
    async with memory_runtime(model=ScriptedModel(list(replies)), tools=tools) as runtime:
        reply = await runtime.chat("Go")
        undo = await runtime.undo(reply.task_id)
        found = {each.tool: (each.status, each.reason) for each in undo.calls}
        assert found["take"] == ("undone", "")
        assert found["state.profile.put"] == ("impossible", CHANGED)
        assert (undo.status, await value(runtime)) == ("succeeded", "of a revert")


async def test_a_crash_puts_nothing_back_twice() -> None:
    """A revert before it waits for a person; the process dies meanwhile."""

    @tool(revert="give_back")
    def take() -> str:
        """Take something."""
        return "taken"

    @tool(requires_approval=True)
    def give_back(input: dict[str, Any], output: str) -> str:
        """Give it back."""
        return "given"

    replies = (call("take"), call("write", value="x"), say(""))
    tools = (*TOOLS, take, give_back)
    async with memory_runtime(model=ScriptedModel(list(replies)), tools=tools) as runtime:
        reply = await runtime.chat("Go")
        waiting = await runtime.undo(reply.task_id)
        assert (waiting.status, await value(runtime)) == ("suspended", "nothing")
        await runtime.call("meddle", {})
        runtime.kill()
        await runtime.reopen()
        await runtime.approve(waiting.questions[0].id)
        undo = await runtime.undo(reply.task_id)
        assert (undo.status, await value(runtime)) == ("succeeded", "of somebody else")
        assert {each.tool: each.status for each in undo.calls}["state.profile.put"] == "undone"
