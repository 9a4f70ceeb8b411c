"""A parent whose tool requests children, run in memory."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from penstock import tool
from penstock.app.runtime import Runtime
from penstock.core.ids import TaskId
from penstock.core.limits import Limits
from penstock.core.task import TaskRecord, TaskStatus
from penstock.models.scripted import Hold, ScriptedModel, call, say, wait
from penstock.store.projections import Page, TasksOf
from penstock.testing.runtime import MemoryStorage, memory_runtime


def script() -> dict[str, Any]:
    """Return the replies of the model, by a part of the message."""
    return {
        "Go": [call("plan"), say("All done.")],
        "the apples": [say("3 EUR")],
        "the pears": [say('{"price": 4}')],
        "add them": [say("7 EUR")],
        "Hang": [wait(Hold())],
        "badly": [call("final_answer", euros="x")] * 9,
    }


def tools_of(plan: Callable[..., Any]) -> list[Any]:
    """Return a function as the tool `plan`."""
    plan.__name__ = "plan"
    plan.__doc__ = "Plan."
    return [tool(effect="none", direct_call=True)(plan)]


@asynccontextmanager
async def family(
    plan: Callable[..., Any], more: Sequence[Any] = (), **limits: Any
) -> AsyncIterator[Runtime]:
    """Open a runtime with the tool `plan`."""
    here = MemoryStorage(limits=Limits(shutdown_seconds=0, **limits))
    tools = [*tools_of(plan), *more]
    async with memory_runtime(model=ScriptedModel(script()), tools=tools, place=here) as runtime:
        yield runtime


async def below(runtime: Runtime, root: str) -> dict[str, TaskRecord]:
    """Return the tasks below a root by their keys."""
    lists = runtime.parts.storage.projections
    tasks, _ = await lists.tasks(of=TasksOf(root_id=TaskId(root)), page=Page(limit=200))
    return {each.task_key or each.title: each for each in tasks}


async def until(runtime: Runtime, root: str, status: TaskStatus, count: int) -> None:
    """Wait until so many tasks below a root have a status."""
    clock = runtime.parts.world.clock
    async with asyncio.timeout(10):
        while True:
            tasks = await below(runtime, root)
            if sum(each.status is status for each in tasks.values()) >= count:
                return
            await clock.sleep(0.005)


async def until_it_is(runtime: Runtime, task_id: TaskId, status: TaskStatus) -> None:
    """Wait until a task has a status."""
    lists, clock = runtime.parts.storage.projections, runtime.parts.world.clock
    async with asyncio.timeout(10):
        while (record := await lists.find_task(task_id)) is None or record.status is not status:
            await clock.sleep(0.005)
