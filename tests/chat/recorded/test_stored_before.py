"""Undo of values and files: penstock puts back what was there, and leaves what others changed."""

from typing import Any

import pytest

from penstock import ToolContext, tool
from penstock.chat.recorded.stored_before import CHANGED, NOT_KEPT, TOO_LARGE
from penstock.core.limits import Limits
from penstock.core.stored.changes import UNDO_CHARACTERS
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing import MemoryStorage, memory_runtime

WHERE = "session://plan.txt"


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


@tool
async def store(ctx: ToolContext, text: str, path: str = WHERE) -> None:
    """Write a file."""
    await ctx.workspace.write(path, text.encode())


@tool(effect="read")
async def show(ctx: ToolContext, path: str = WHERE) -> str:
    """Return the content of a file."""
    return (await ctx.workspace.read(path)).decode()


TOOLS = (write, read, meddle, store, show)


def model(*replies: Any) -> ScriptedModel:
    return ScriptedModel(list(replies))


async def value(runtime: Any) -> Any:
    return (await runtime.call("read", {})).output


async def test_a_value_is_put_back_as_it_was_before_the_task() -> None:
    """Two writes of one task, newest first; the value of the task before is there again."""
    first = [call("write", value="tea"), say("1")]
    second = [call("write", value="cup"), call("write", value=None), say("2")]
    async with memory_runtime(model=model(*first, *second), tools=TOOLS) as runtime:
        await runtime.chat("Go")
        reply = await runtime.chat("Go on")
        assert await value(runtime) == "nothing"
        undo = await runtime.undo(reply.task_id)
        assert [(each.tool, each.status) for each in undo.calls if each.status != "impossible"] == [
            ("state.profile.put", "undone"),
            ("state.profile.put", "undone"),
        ]
        assert undo.calls[1].input == {"scope": "profile", "key": "shop:stock"}
        assert await value(runtime) == "tea"
        again = await runtime.undo(reply.task_id)
        assert (again.undo_id, await value(runtime)) == (undo.undo_id, "tea")


async def test_a_value_that_was_not_there_is_deleted() -> None:
    async with memory_runtime(model=model(call("write", value="x"), say("")), tools=TOOLS) as at:
        reply = await at.chat("Go")
        await at.undo(reply.task_id)
        assert await value(at) == "nothing"


async def test_a_value_that_was_changed_since_is_reported_and_left() -> None:
    """The plan says it, and so does the undo if the change comes after the plan."""
    async with memory_runtime(model=model(call("write", value="x"), say("")), tools=TOOLS) as at:
        reply = await at.chat("Go")
        before = await at.undo(reply.task_id, dry_run=True)
        assert {each.tool: each.status for each in before.calls}["state.profile.put"] == "ready"
        await at.call("meddle", {})
        plan = await at.undo(reply.task_id, dry_run=True)
        found = {each.tool: (each.status, each.reason) for each in plan.calls}
        assert found["state.profile.put"] == ("impossible", CHANGED)
        undo = await at.undo(reply.task_id)
        assert (undo.status, await value(at)) == ("nothing", "of somebody else")


async def test_a_value_that_is_too_large_for_the_log_cannot_be_put_back() -> None:
    large = "x" * UNDO_CHARACTERS
    replies = (call("write", value=large), say("1"), call("write", value="small"), say("2"))
    async with memory_runtime(model=model(*replies), tools=TOOLS) as runtime:
        await runtime.chat("Go")
        reply = await runtime.chat("Go on")
        plan = await runtime.undo(reply.task_id, dry_run=True)
        found = {each.tool: (each.status, each.reason) for each in plan.calls}
        assert found["state.profile.put"] == ("impossible", TOO_LARGE)


async def test_a_file_has_the_bytes_that_it_had_before_the_task() -> None:
    """Also after two writes; a file that was not there is removed."""
    first = [call("store", text="old"), say("1")]
    second = [
        call("store", text="new"),
        call("store", text="newer"),
        call("store", text="b", path="session://more/b.txt"),
        say("2"),
    ]
    third = [call("show"), say("3"), call("show", path="session://more/b.txt"), say("4")]
    replies = model(*first, *second, *third)
    async with memory_runtime(model=replies, tools=TOOLS) as runtime:
        first_reply = await runtime.chat("Go")
        talk = first_reply.session
        reply = await runtime.chat("Go on", session=talk)
        undo = await runtime.undo(reply.task_id)
        changed = [each for each in undo.calls if each.tool == "workspace.write"]
        assert [each.status for each in changed] == ["undone"] * 3
        assert changed[0].input == {"path": "session://more/b.txt"}
        shown = await runtime.chat("Show", session=talk)
        assert shown.calls[0].output == "old"
        gone = await runtime.chat("Look", session=talk)
        assert gone.calls[0].error is not None
        assert "there is no file 'session://more/b.txt'" in gone.calls[0].error


async def test_a_file_whose_old_bytes_are_not_kept_any_more_is_left() -> None:
    """Over `limits.undo_bytes` the oldest bytes are gone."""
    first = [call("store", text="old"), say("1")]
    second = [call("store", text="bytes"), call("store", text="third"), say("2")]
    place = MemoryStorage(limits=Limits(undo_bytes=5))
    replies = model(*first, *second)
    async with memory_runtime(model=replies, tools=TOOLS, place=place) as runtime:
        talk = (await runtime.chat("Go")).session
        reply = await runtime.chat("Go on", session=talk)
        undo = await runtime.undo(reply.task_id)
        changed = [each for each in undo.calls if each.tool == "workspace.write"]
        assert [(each.status, each.reason) for each in changed] == [
            ("undone", ""),
            ("impossible", NOT_KEPT),
        ]


@pytest.mark.parametrize(
    "made", [call("store", text="a", path="task://a.txt"), call("read")], ids=["file", "read"]
)
async def test_what_was_deleted_with_its_task_is_not_in_the_plan(made: Any) -> None:
    async with memory_runtime(model=model(made, say("")), tools=TOOLS) as runtime:
        reply = await runtime.chat("Go")
        plan = await runtime.undo(reply.task_id, dry_run=True)
        assert {each.tool for each in plan.calls} <= {"store"}
