"""A recorded task, and its replay by another runtime on the same storage."""

from typing import Any

from penstock import Agent, Difference, ReplayReport, tool
from penstock.models.scripted import ScriptedModel, call, say
from penstock.store.projections import Page
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.python.given_tools import ToolLike

RUNS: list[Any] = []


@tool(effect="read")
def price(item: str) -> dict[str, Any]:
    """Return the price of an item."""
    RUNS.append(item)
    if item == "gold":
        raise ValueError("no gold is sold")
    return {"item": item, "cents": 250}


@tool(effect="write", requires_approval=True)
def pay(cents: int) -> str:
    """Pay."""
    RUNS.append(cents)
    return "paid"


@tool(effect="write")
def note_down(text: str) -> str:
    """Write a note."""
    RUNS.append(text)
    return "noted"


@tool(effect="read")
def look_up(word: str) -> str:
    """Look a word up."""
    RUNS.append(word)
    return "a word"


ASKED = [call("price", item="tea") + call("price", item="gold"), call("note_down", text="tea")]
SCRIPT = [*ASKED, call("price", item=7), say("Tea is 2.50.")]
TOOLS: tuple[ToolLike, ...] = (price, note_down)


async def one_task(place: MemoryStorage) -> None:
    """Run a task in which tools succeed, fail and refuse their input."""
    async with memory_runtime(model=ScriptedModel(SCRIPT), tools=TOOLS, place=place) as runtime:
        assert (await runtime.chat("What is tea?")).content == "Tea is 2.50."
    RUNS.clear()


async def replayed(
    place: MemoryStorage,
    *,
    model: ScriptedModel | None = None,
    tools: tuple[ToolLike, ...] = TOOLS,
    agents: tuple[Agent[Any, Any], ...] = (),
    **options: Any,
) -> ReplayReport:
    """The report on the first task of a storage, by another runtime."""
    model = model or ScriptedModel([])
    async with memory_runtime(model=model, tools=tools, agents=agents, place=place) as runtime:
        (task,), _ = await runtime.parts.storage.projections.tasks(page=Page(limit=1))
        return await runtime.replay(task.task_id, **options)


def found(report: ReplayReport) -> tuple[str, str]:
    """The kind and the place of the first difference."""
    assert isinstance(report.difference, Difference)
    return report.difference.kind, report.difference.path


async def test_the_same_project_comes_out_the_same_and_runs_nothing(place: MemoryStorage) -> None:
    report = await replayed(place)
    assert (report.equal, report.stopped, report.warnings) == (True, "end", ())
    assert report.compared_events == report.total_events > 8
    assert (RUNS, report.usage.model_calls) == ([], 0)
