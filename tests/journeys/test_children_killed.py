"""The process dies at every write of a chat with children; it always ends the same way."""

from collections import Counter
from typing import Any

import pytest

from penstock import ToolContext, tool
from penstock.chat.requests import TaskReply
from penstock.core.events.child_events import ChildrenSpawned
from penstock.core.events.events import CallSettled, TaskEnded
from penstock.core.ids import LogId
from penstock.core.task import TaskStatus
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.clock import FakeClock
from tests.kit.dying_log import DyingLog, outlived

pytestmark = pytest.mark.programs
WRITES = 17
"""How often the logs of the story below are written when no process dies."""
SCRIPT = {
    "Go": [call("plan"), say("All done.")],
    "the apples": [say("3")],
    "add them": [say("7")],
}


@tool(effect="none")
async def plan(ctx: ToolContext) -> list[Any]:
    """Plan."""
    first = await ctx.spawn("Find the apples", key="first")
    second = await ctx.spawn("Now add them", key="second", after={"apples": first})
    return await ctx.gather(first, second)


async def tell(log: DyingLog) -> TaskReply:
    """Run the story in as many processes as it takes."""
    return await outlived(log, "Go", model=ScriptedModel(SCRIPT), tools=[plan])


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(1, WRITES + 1))
async def test_a_story_killed_at_any_write_has_each_child_once(writes: int, before: bool) -> None:
    log = DyingLog(FakeClock(), writes=writes, before=before)
    reply = await tell(log)
    assert (reply.status, reply.content) == (TaskStatus.SUCCEEDED, "All done.")
    records = await log.read(LogId(reply.session_id))
    events = [each.event for each in records]
    outcomes = [each for each in events if isinstance(each, CallSettled)]
    (planned,) = (each for each in outcomes if each.tool_id == "plan")
    assert planned.envelope.output == ["3", "7"]
    paths = Counter(each.path for each in records if isinstance(each.event, CallSettled))
    assert set(paths.values()) == {1}
    spawned = [each.children for each in events if isinstance(each, ChildrenSpawned)]
    assert len(spawned) == 2
    for child in (task_id for children in spawned for task_id in children):
        ends = [each.event for each in await log.read(LogId(child))]
        assert sum(isinstance(each, TaskEnded) for each in ends) == 1
    assert await log.pending(limit=9) == []


async def test_every_write_of_the_story_is_tried() -> None:
    log = DyingLog(FakeClock(), writes=-1, before=False)
    await tell(log)
    assert log.writes == WRITES
