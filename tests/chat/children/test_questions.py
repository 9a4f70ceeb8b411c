"""Questions of children in the log of their root: once each, also when they are reported again."""

from typing import Any

from penstock import ToolContext
from penstock.chat.children.questions import TreeQuestions
from penstock.chat.requests import NewCall
from penstock.core.events.child_events import TreeAsked
from penstock.core.ids import LogId, TaskId
from penstock.core.task import TaskStatus
from penstock.engine.cold_folds import ColdFolds
from penstock.engine.held_log import HeldLog
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.children import below, tools_of, until
from tests.kit.tools import Act, echo


async def test_a_question_is_reported_once_by_each_process_and_again_with_its_answer() -> None:
    async def plan(ctx: ToolContext) -> list[Any]:
        return await ctx.gather(await ctx.spawn("Count the apples", key="a"))

    place = MemoryStorage()
    script = {"apples": [call("send"), say("3")]}
    tools = [*tools_of(plan), Act("send", echo, requires_approval=True)]
    async with memory_runtime(model=ScriptedModel(script), tools=tools, place=place) as runtime:
        root = TaskId(await runtime.start_call(NewCall(tool_id="plan", input={})))
        await until(runtime, root, TaskStatus.SUSPENDED, 1)
        reply = await runtime.requests.wait(root)
        assert reply
        child = (await below(runtime, root))["a"]
        log, lists = place.log, runtime.parts.storage.projections

        async def noted() -> list[TreeAsked]:
            records = await log.read(LogId(root))
            return [each.event for each in records if isinstance(each.event, TreeAsked)]

        async def until_noted(count: int) -> None:
            while len(await noted()) < count:
                await runtime.parts.world.clock.sleep(0.005)

        await until_noted(2)
        question, waits = await noted()
        assert question.question
        assert (question.asker, question.question.tool_id) == (child.task_id, "send")
        question_id = question.question.question_id
        assert waits == TreeAsked(open=(question_id,))
        lease = await log.acquire(child.log_id, "other")
        assert lease
        state = await ColdFolds(log).folded(child.log_id, lease.head)
        held = HeldLog(log, lease, state, runtime.parts.world, since=0)
        again = TreeQuestions(log, lists)
        assert state.current
        for _ in range(2):
            await again.report(held, state.current)
        assert await noted() == [question, waits, question, waits]
        await log.surrender(lease)
        await runtime.requests.answer(question_id, {"decision": "approve"})
        await runtime.requests.wait(root)
        answers = [each for each in await noted() if each.answered]
        assert {each.answered for each in answers} == {question_id}
        assert all(each.answer == {"decision": "approve"} for each in answers)
