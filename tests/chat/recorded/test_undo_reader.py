"""Undos of a task with those that worked for it: children, theirs, and runs of flows."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock import ToolContext, tool
from penstock import open as open_project
from penstock.agents.agent import Agent
from penstock.app.runtime import Runtime
from penstock.builtins.workflow import TOOLS as WORKFLOW_TOOLS
from penstock.core.errors import InvalidRequest
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.core.task import TaskStatus
from penstock.models.scripted import Hold, ScriptedModel, call, say, wait
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.children import below, until
from tests.kit.flows import finish, flows_of, steps, worker

DONE: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()


@tool
def give_back(input: dict[str, str], output: str) -> str:
    """Give it back."""
    DONE.append(input["item"])
    return "given"


@tool(revert=give_back)
def take(item: str) -> str:
    """Take something."""
    return item


def replies(**more: Any) -> dict[str, Any]:
    return {
        "Go": [
            *(call("take", item="cup"), call("plan"), call("take", item="pot")),
            say("All done."),
        ],
        "the apples": [call("take", item="apples"), say("1")],
        "the pears": [call("take", item="pears"), call("deeper"), say("2")],
        "the stones": [call("take", item="stones"), say("3")],
        "Hang": [call("take", item="nail"), wait(Hold())],
        **more,
    }


@tool(effect="none")
async def deeper(ctx: ToolContext) -> None:
    """Let a child of the child work."""
    await ctx.gather(await ctx.spawn("Find the stones", key="s"))


async def plan(ctx: ToolContext) -> None:
    """Let two children work, one after the other."""
    await ctx.gather(await ctx.spawn("Find the apples", key="a"))
    await ctx.gather(await ctx.spawn("Find the pears", key="b"))


@asynccontextmanager
async def family(
    work: Callable[..., Any] = plan, *more: Any, **options: Any
) -> AsyncIterator[Runtime]:
    """Open a runtime whose tool `plan` requests children."""
    work.__name__ = "plan"
    planner = tool(**{"effect": "none", **options})(work)
    tools = [planner, deeper, take, give_back, *more]
    place = MemoryStorage(limits=Limits(shutdown_seconds=0))
    model = ScriptedModel(replies())
    async with memory_runtime(model=model, tools=tools, place=place) as runtime:
        yield runtime


async def test_what_children_did_is_taken_back_with_the_task_newest_first() -> None:
    """Over all logs, in the order of time."""
    async with family() as runtime:
        reply = await runtime.chat("Go")
        children = await below(runtime, reply.task_id)
        plan = await runtime.undo(reply.task_id, dry_run=True)
        assert [each.id.partition("@")[2] for each in plan.calls] == [
            "",
            children["s"].task_id,
            children["b"].task_id,
            children["a"].task_id,
            "",
        ]
        undo = await runtime.undo(reply.task_id)
        assert DONE == ["pot", "stones", "pears", "apples", "cup"]
        assert (undo.status, {each.status for each in undo.calls}) == ("succeeded", {"undone"})


async def test_a_child_is_undone_alone_and_then_its_parent_each_call_once() -> None:
    async with family() as runtime:
        reply = await runtime.chat("Go")
        child = (await below(runtime, reply.task_id))["b"].task_id
        first = await runtime.undo(child)
        assert DONE == ["stones", "pears"]
        assert [each.id.partition("@")[2] == "" for each in first.calls] == [False, True]
        assert first.undo_id == f"undo_{reply.task_id}"
        assert (await runtime.undo(child)).undo_id == first.undo_id
        rest = await runtime.undo(reply.task_id)
        assert rest.undo_id == f"undo_{reply.task_id}.2"
        assert DONE == ["stones", "pears", "pot", "apples", "cup"]
        assert {each.status for each in rest.calls} == {"undone"}
        again = await runtime.undo((await below(runtime, reply.task_id))["a"].task_id)
        assert (again.undo_id, len(DONE)) == (rest.undo_id, 5)


async def test_one_call_of_a_child_is_named_from_above() -> None:
    async with family() as runtime:
        reply = await runtime.chat("Go")
        plan = await runtime.undo(reply.task_id, dry_run=True)
        await runtime.undo(reply.task_id, call=plan.calls[3].id)
        assert DONE == ["apples"]


async def test_a_revert_covers_the_children_of_its_call() -> None:
    @tool
    def unplan(input: dict[str, Any], output: None) -> None:
        """Take all back at once."""
        DONE.append("all")

    async with family(plan, unplan, effect="write", revert=unplan) as runtime:
        reply = await runtime.chat("Go")
        undo = await runtime.undo(reply.task_id)
        assert DONE == ["pot", "all", "cup"]
        assert [each.tool for each in undo.calls] == ["take", "plan", "take"]


async def test_a_child_that_still_works_is_cancelled_first() -> None:
    """A child of `spawn` lives on after its parent ended well."""

    async def leave(ctx: ToolContext) -> None:
        """Request a child, and do not wait for it."""
        await ctx.spawn("Hang on", key="h")

    async with family(leave) as runtime:
        reply = await runtime.chat("Go")
        await until(runtime, reply.task_id, TaskStatus.RUNNING, 1)
        async with asyncio.timeout(10):
            while len((await runtime.undo(reply.task_id, dry_run=True)).calls) < 3:
                await runtime.parts.world.clock.sleep(0.001)
        undo = await runtime.undo(reply.task_id)
        assert (undo.status, sorted(DONE)) == ("succeeded", ["cup", "nail", "pot"])
        child = (await below(runtime, reply.task_id))["h"]
        assert child.status is TaskStatus.CANCELLED


async def test_a_child_that_was_erased_is_named(tmp_path: Path) -> None:
    planner = tool(id="plan", effect="none")(plan)
    tools: list[Any] = [planner, deeper, take, give_back]
    model = ScriptedModel(replies())
    async with open_project(tmp_path, model=model, tools=tools) as runtime:
        reply = await runtime.chat("Go")
        child = (await below(runtime, reply.task_id))["a"].task_id
        erasure = runtime.requests.known.erasure
        assert erasure is not None
        await erasure.erase_log(LogId(child))
        undo = await runtime.undo(reply.task_id)
        assert DONE == ["pot", "stones", "pears", "cup"]
        gone = [each for each in undo.calls if each.status == "impossible"]
        assert [(each.id, each.reason) for each in gone] == [
            (f"@{child}", "this task is gone, and with it what it did")
        ]


async def test_the_undo_of_a_child_is_no_task_to_undo() -> None:
    async with family() as runtime:
        reply = await runtime.chat("Go")
        child = (await below(runtime, reply.task_id))["a"].task_id
        undo = await runtime.undo(child)
        with pytest.raises(InvalidRequest, match="is itself an undo"):
            await runtime.undo(str(undo.undo_id))


async def test_what_a_run_of_a_flow_did_is_taken_back_with_the_chat_that_started_it() -> None:
    """And the run alone, by its own id."""
    flow = steps("  - {id: one, agent: scout, task: fetch}")
    place = MemoryStorage(flows=flows_of(fetch=flow), limits=Limits(shutdown_seconds=0))
    scout = worker("scout", tools=("take",))
    model = ScriptedModel(
        {
            "Go": [call("execute_workflow", workflowId="fetch"), say("All done.")],
            "fetch": [call("take", item="flour"), finish()],
        }
    )
    tools: list[Any] = [take, give_back, *WORKFLOW_TOOLS]
    agents: list[Agent[Any, Any]] = [scout]
    async with memory_runtime(model=model, tools=tools, place=place, agents=agents) as runtime:
        reply = await runtime.chat("Go")
        run = reply.calls[0].output["runId"]
        plan = await runtime.undo(reply.task_id, dry_run=True)
        assert [(each.tool, each.status) for each in plan.calls] == [("take", "ready")]
        assert plan.calls[0].id.endswith(f"@{run}")
        undo = await runtime.undo(run)
        assert (DONE, undo.undo_id) == (["flour"], f"undo_{reply.task_id}")
        again = await runtime.undo(reply.task_id)
        assert (DONE, again.undo_id) == (["flour"], undo.undo_id)
