"""The order desk of examples/: a skill, nested scripts, state, a secret, files and an approval."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock import open as open_project
from penstock.app.runtime import Runtime
from penstock.core.envelope import Envelope, Status
from penstock.core.ids import LogId, TaskId, new_id
from penstock.core.scopes import Scope, ScopeKind

EXAMPLES = Path(__file__).parents[2] / "examples"
SEAL = "a secret of its own"


@pytest.fixture
async def desk(tmp_path: Path, machine_code: Path) -> AsyncIterator[Runtime]:
    """Open a copy of the example."""
    for folder in ("orders", "tools"):
        shutil.copytree(EXAMPLES / folder, tmp_path / folder)
    async with open_project(tmp_path, settings={"cache_dir": str(machine_code)}) as runtime:
        yield runtime


async def order(desk: Runtime, **input: Any) -> Envelope:
    """Take an order."""
    return await desk.call("take_order", input)


async def test_an_order_is_priced_numbered_and_shipped(desk: Runtime) -> None:
    outputs = [(await order(desk, item="tea", quantity=2)).output for _ in range(2)]
    assert [each["order"] for each in outputs] == ["A1", "A2"]
    assert outputs[0]["total"] == 5
    assert outputs[0]["receipt"] == "session://receipts/A1.txt"


async def test_the_input_is_checked_before_the_script_runs(desk: Runtime) -> None:
    envelope = await order(desk, item="beer")
    assert envelope.status is Status.VALIDATION_ERROR


async def test_a_large_order_is_shipped_after_an_approval(desk: Runtime) -> None:
    parked = await order(desk, item="cocoa", quantity=100)
    assert parked.status is Status.SUSPENDED
    assert parked.error
    assert parked.error.details
    (question,) = parked.error.details["question_ids"]
    await desk.requests.answer(question, {"decision": "approve"})
    reply = await desk.requests.wait(parked.error.details["task_id"])
    assert reply
    assert reply.envelope
    assert reply.envelope.output["order"] == "A1"
    assert (await order(desk, item="tea")).output["order"] == "A2"


async def test_a_rejected_large_order_is_not_shipped(desk: Runtime) -> None:
    parked = await order(desk, item="cocoa", quantity=100)
    assert parked.error
    assert parked.error.details
    (question,) = parked.error.details["question_ids"]
    await desk.requests.answer(question, {"decision": "reject", "note": "too much"})
    reply = await desk.requests.wait(parked.error.details["task_id"])
    assert reply
    assert reply.error
    assert reply.error.code == "NOT_SHIPPED"
    assert "too much" in reply.error.message


async def test_the_seal_uses_a_secret_that_appears_nowhere(desk: Runtime) -> None:
    database_parts = desk.parts.storage.database_parts
    assert database_parts
    await database_parts.vault.set(Scope(ScopeKind.PROFILE, "local"), "seal", SEAL)
    task_id = TaskId(new_id("task"))
    envelope = await desk.call("take_order", {"item": "tea"}, task_id=task_id)
    events = repr(await desk.parts.storage.log.read(LogId(task_id)))
    assert envelope.ok
    assert "sealed" in events
    assert SEAL not in events
