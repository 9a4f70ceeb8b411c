"""Questions of the runs that a task started and waits for."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.app.runtime import Runtime
from penstock.chat.message import NewRun
from penstock.cli.arguments.project import opened
from penstock.cli.interaction.nested_questions import asked_below, with_questions
from penstock.core.errors import StoreCorrupt
from penstock.core.ids import TaskId
from penstock.core.task import QuestionRecord
from tests.kit.flow_server import ASKS, LOOK, laid
from tests.kit.flows import HEAD

pytestmark = pytest.mark.slow("opens a store, and runs flows in flows")
STARTS = HEAD + "steps:\n  - {id: inner, agent: starter, task: execute_workflow workflowId=NEXT}\n"
STARTER = "---\nname: starter\ndescription: d\ntools: execute_workflow\n---\nStart.\n"


@pytest.fixture
async def runtime(project: Path) -> AsyncIterator[Runtime]:
    """A project with a flow that asks, one that starts it, and one that starts that."""
    one, two = (STARTS.replace("NEXT", each) for each in ("asks", "one"))
    laid(project, {"look.yaml": LOOK, "asks.yaml": ASKS, "one.yaml": one, "two.yaml": two})
    (project / "agents/starter.md").write_text(STARTER)
    async with opened(project) as runtime:
        yield runtime


@pytest.mark.parametrize("command", ["one", "two"])
async def test_a_question_below_a_task_is_reported_once(runtime: Runtime, command: str) -> None:
    """At any depth. Questions of other tasks, and of the task itself, are not reported."""
    other, task_id = TaskId("task_other"), TaskId("task_mine")
    await runtime.start_flow(NewRun(command="one"), task_id=other)
    await runtime.wait(other)
    await runtime.start_flow(NewRun(command=command), task_id=task_id)
    questions = asked_below(runtime, task_id, poll_seconds=0.01)
    asked = await anext(questions)
    assert asked.question.text == "Go on?"
    (waiting,) = (await runtime.wait(task_id) or pytest.fail("it is gone")).questions
    assert asked.question.question_id == waiting.question.question_id
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await anext(questions)


async def nothing() -> AsyncIterator[QuestionRecord]:
    """Yield no question, and never end."""
    await asyncio.Event().wait()
    for question in tuple[QuestionRecord, ...]():
        yield question


async def numbers(*, fails: bool = False) -> AsyncIterator[int]:
    yield 1
    if fails:
        raise StoreCorrupt("it does not read back")
    yield 2


async def test_the_end_of_the_items_ends_the_wait_for_questions() -> None:
    assert [each async for each in with_questions(numbers(), nothing())] == [1, 2]


async def test_an_error_of_the_items_is_raised() -> None:
    with pytest.raises(StoreCorrupt):
        [each async for each in with_questions(numbers(fails=True), nothing())]


async def test_a_question_comes_between_items(runtime: Runtime) -> None:
    task_id = TaskId("task_mine")
    await runtime.start_flow(NewRun(command="one"), task_id=task_id)
    held = asyncio.Event()

    async def waits() -> AsyncIterator[int]:
        yield 1
        await held.wait()
        yield 2

    seen: list[int | str] = []
    questions = asked_below(runtime, task_id, poll_seconds=0.01)
    async for item in with_questions(waits(), questions):
        seen.append(item.question.text if isinstance(item, QuestionRecord) else item)
        if item != 1:
            held.set()
    assert seen == [1, "Go on?", 2]
