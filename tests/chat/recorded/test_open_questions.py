"""The open questions of a tree are listed once nothing in it continues."""

from typing import Any

from penstock import ToolContext
from penstock.chat.recorded.open_questions import asked_in_tree
from penstock.chat.requests import NewCall
from penstock.core.ids import TaskId
from penstock.core.task import TaskStatus
from penstock.models.scripted import Hold, ScriptedModel, call, say, wait
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.children import below, tools_of, until, until_it_is
from tests.kit.tools import Act, echo


async def test_nothing_is_listed_while_one_task_works() -> None:
    async def plan(ctx: ToolContext) -> list[Any]:
        children = [await ctx.spawn(f"Count the {each}", key=each) for each in ("apples", "pears")]
        return await ctx.gather(*children)

    hold = Hold()
    script = {"apples": [call("send"), say("3")], "pears": [wait(hold) + say("4")]}
    tools = [*tools_of(plan), Act("send", echo, requires_approval=True)]
    async with memory_runtime(
        model=ScriptedModel(script), tools=tools, place=MemoryStorage()
    ) as runtime:
        lists = runtime.parts.storage.projections
        root = TaskId(await runtime.start_call(NewCall(tool_id="plan", input={})))
        await until(runtime, root, TaskStatus.SUSPENDED, 1)
        await hold.reached()
        assert await asked_in_tree(lists, root) == []
        hold.release()
        await until(runtime, root, TaskStatus.SUCCEEDED, 1)
        await until_it_is(runtime, root, TaskStatus.BLOCKED)
        (asked,) = await asked_in_tree(lists, root)
        assert asked.task_id == (await below(runtime, root))["apples"].task_id
        await runtime.requests.answer(asked.question.question_id, {"decision": "approve"})
        await runtime.requests.wait(root)
        assert await asked_in_tree(lists, root) == []
    assert await asked_in_tree(lists, TaskId("task_none")) == []
