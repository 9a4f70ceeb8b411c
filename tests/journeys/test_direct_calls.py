"""Direct calls: one tool, its own task, the same path as all calls."""

import asyncio
from typing import Any

import pytest

from penstock.agents.agent import Agent, ChatSettings
from penstock.core.call import Effect
from penstock.core.call_errors import ToolFailed
from penstock.core.envelope import Status
from penstock.core.events.events import TaskEnded
from penstock.core.ids import ProfileId
from penstock.core.limits import Limits
from penstock.core.profile import CHAT, Profile
from penstock.core.task import TaskStatus
from penstock.store.projections import Page
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.logs import events, kinds, settled
from tests.kit.tools import Act, Gate, calling, echo, raising

CLERK = Profile(profile_id=ProfileId("clerk"), permissions=frozenset({CHAT}))
STRICT = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


async def test_the_log_of_a_call_is_its_own() -> None:
    async with memory_runtime(tools=[Act("look", echo, direct_call=True)]) as runtime:
        assert (await runtime.call("look", {"at": 1})).output == {"at": 1}
        (task,), _ = await runtime.parts.storage.projections.tasks(page=Page())
        assert await kinds(runtime, task.log_id) == [
            "CallRequested",
            "TaskStarted",
            "CallSettled",
            "TaskEnded",
        ]
        assert (task.kind, task.status) == ("call", TaskStatus.SUCCEEDED)
        last = (await events(runtime, task.log_id))[-1]
    assert isinstance(last, TaskEnded)
    assert last.envelope
    assert last.envelope.output == {"at": 1}


@pytest.mark.parametrize(
    ("tool_id", "value", "status", "code"),
    [
        ("look", {}, Status.SUCCESS, None),
        ("strict", {"n": "1"}, Status.VALIDATION_ERROR, "INVALID_INPUT"),
        ("hidden", {}, Status.FAILED, "TOOL_NOT_FOUND"),
        ("locked", {}, Status.FAILED, "NOT_PERMITTED"),
        ("broken", {}, Status.FAILED, "OUT_OF_ORDER"),
        ("hangs", {}, Status.TIMEOUT, "TIMEOUT"),
    ],
)
async def test_every_end_of_a_call_is_an_envelope(
    tool_id: str, value: dict[str, Any], status: Status, code: str | None
) -> None:
    tools = [
        Act("look", direct_call=True),
        Act("strict", direct_call=True, input_schema=STRICT),
        Act("hidden"),
        Act("locked", direct_call=True, requires_permissions=frozenset({"root"})),
        Act("broken", raising(ToolFailed("no", "OUT_OF_ORDER")), direct_call=True),
        Act("hangs", Gate(), direct_call=True, timeout_ms=20),
    ]
    async with memory_runtime(tools=tools) as runtime:
        envelope = await runtime.call(tool_id, value, profile=CLERK)
    assert envelope.status is status
    assert (envelope.error.code if envelope.error else None) == code


@pytest.mark.parametrize("value", ["x" * 2**20, ["é" * 1000] * 600, {"k" * 2**20: 1}])
async def test_an_input_over_a_mebibyte_is_refused(value: Any) -> None:
    look = Act("look", direct_call=True)
    async with memory_runtime(tools=[look]) as runtime:
        envelope = await runtime.call("look", {"value": value})
        assert envelope.error
        text = 'input of "look" is not valid: /: is over 1 MiB'
        assert (envelope.error.code, envelope.error.message) == ("INVALID_INPUT", text)
        assert (await runtime.call("look", {"value": "x" * (2**20 - 20)})).ok
    assert len(look.runs) == 1


async def test_a_call_keeps_the_permissions_of_its_request() -> None:
    locked = Act("locked", direct_call=True, requires_permissions=frozenset({"chat"}))
    async with memory_runtime(tools=[locked]) as runtime:
        assert (await runtime.call("locked", {}, profile=CLERK)).ok
        assert (await runtime.call("locked", {})).ok


async def test_a_call_cut_by_a_stop_does_not_run_again() -> None:
    place, gate = MemoryStorage(limits=Limits(shutdown_seconds=0)), Gate()
    write = Act("write", gate, effect=Effect.WRITE, direct_call=True)
    async with memory_runtime(tools=[write], place=place) as first:
        calling_it = first.call("write", {})
        await _until_reached(calling_it, gate)
        (task,), _ = await first.parts.storage.projections.tasks(page=Page())
    async with memory_runtime(tools=[write], place=place) as second:
        reply = await second.requests.wait(task.task_id)
    assert reply
    assert reply.error
    assert (reply.error.code, len(write.runs)) == ("INTERRUPTED", 1)


async def _until_reached(work: Any, gate: Gate) -> None:
    """Start the work, and leave it where it blocks."""
    task = asyncio.ensure_future(work)
    await gate.reached()
    task.cancel()
    await asyncio.wait({task})


async def test_a_tool_can_call_itself_and_its_script_tools() -> None:
    inner = Act("inner")
    outer = Act(
        "outer", calling("inner", "other"), direct_call=True, script_tools=frozenset({"inner"})
    )
    async with memory_runtime(tools=[inner, outer, Act("other")]) as runtime:
        envelope = await runtime.call("outer", {})
    assert envelope.output == ["success", "failed"]


@pytest.mark.parametrize(("most", "is_clipped"), [(500, True), (10_000, False)])
async def test_a_call_in_a_chat_is_clipped_for_the_agent_of_the_chat(
    most: int, is_clipped: bool
) -> None:
    """`result_max_chars` is of the agent: it reads the outcome in its next turn."""
    tools = [Act("look", echo, direct_call=True)]
    agents = [Agent("assistant", settings=ChatSettings(result_max_chars=most))]
    async with memory_runtime(tools=tools, agents=agents) as runtime:
        reply = await runtime.chat(f"/call look text={'x' * 5_000}")
        (outcome,) = await settled(runtime, reply.session)
    assert (len(outcome.context or "") < 1_000, outcome.artifact_id is not None) == (
        is_clipped,
        is_clipped,
    )
