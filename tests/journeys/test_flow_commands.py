"""A flow started from a chat asks for missing inputs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from penstock.app.runtime import Runtime
from penstock.builtins import TOOLS
from penstock.core.events.flow_events import FlowStarted
from penstock.core.ids import LogId
from penstock.models.scripted import ScriptedModel
from penstock.store.projections import Page, TasksOf
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.asking import ask
from tests.kit.flows import WORKERS, by_task, flows_of

APPLY = "steps:\n  - {id: apply, agent: writer}\n"
NEEDY = f"task_required: true\n{APPLY}"


@asynccontextmanager
async def applying(steps: str) -> AsyncIterator[Runtime]:
    """Open a runtime where there is the flow `dom:apply`."""
    place = MemoryStorage(flows=flows_of(dom_apply=steps))
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, tools=TOOLS, place=place) as runtime:
        yield runtime


async def test_a_flow_asks_for_missing_inputs() -> None:
    """§21: `flows:edit` has "a flow input `flow` (required)": `/flows:edit TEXT` asks for it."""
    inputs = (
        "inputs:\n"
        "  job: {type: string, required: true, description: Which job}\n"
        "  n: {type: number, required: true}\n"
        "  more: {type: string}\n"
    )
    async with applying(inputs + NEEDY) as runtime:
        first = await ask(runtime, "/dom:apply For Ann")
        session = first.session_id
        second = await ask(runtime, "12", session=session)
        reply = await ask(runtime, "3", session=session)
        (run,), _ = await runtime.parts.storage.projections.tasks(
            of=TasksOf(kind="flow"), page=Page()
        )
        records = await runtime.parts.storage.log.read(LogId(run.task_id))
    asked = [each.questions[0].question.text for each in (first, second)]
    assert asked == ["job: Which job", "n (number): what is it to be?"]
    assert reply.content == "For Ann done"
    (started,) = [each.event for each in records if isinstance(each.event, FlowStarted)]
    assert (started.task, started.inputs) == ("For Ann", {"job": "12", "n": 3})


@pytest.mark.parametrize(("kind", "message"), [("string", "{cancel}"), ("number", "many")])
async def test_a_flow_without_its_inputs_is_not_started(kind: str, message: str) -> None:
    async with applying(f"inputs: {{n: {{type: {kind}, required: true}}}}\n{APPLY}") as runtime:
        asked = await ask(runtime, "/dom:apply")
        answer = {"cancel": True} if message == "{cancel}" else {"value": message}
        await runtime.requests.answer(asked.questions[0].question.question_id, answer)
        reply = await runtime.requests.wait(asked.task_id)
    assert reply
    result = "the flow needs 'n'." if kind == "string" else "must be number, found"
    assert result in reply.content
