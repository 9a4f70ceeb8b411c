"""Agents that changed while a task waited: the task continues, and its log says so."""

from typing import Any

import pytest

from penstock import Agent, tool
from penstock.agents.agent import AnyAgent
from penstock.core.events.events import NoteEmitted, TaskStarted
from penstock.core.events.flow_events import HandedOff
from penstock.core.ids import LogId
from penstock.core.task import TaskStatus
from penstock.models.scripted import ScriptedModel, call, say
from penstock.models.settings import ModelSettings
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.asking import ask
from tests.kit.logs import events
from tests.kit.tools import Act


def pay() -> Act:
    return Act("pay", requires_approval=True)


@tool(effect="read")
def look(item: str) -> str:
    """Look up an item."""
    return item


def clerk(**changed: Any) -> AnyAgent:
    options: dict[str, Any] = {"instructions": "Be brief.", "tools": [pay(), look]}
    return Agent("clerk", **options | changed)


async def continued(second: AnyAgent) -> tuple[list[NoteEmitted], str, ScriptedModel]:
    """Have a task start with one agent and end with another; return its notes and first hash."""
    place = MemoryStorage()
    model = ScriptedModel({"Pay": [call("pay"), say("Paid.")]})
    async with memory_runtime(model=model, agents=[clerk()], place=place) as runtime:
        waiting = await ask(runtime, "Pay", agent="clerk")
    async with memory_runtime(model=model, agents=[second], place=place) as runtime:
        question = waiting.questions[0].question.question_id
        await runtime.requests.answer(question, {"decision": "approve"})
        reply = await runtime.requests.wait(waiting.task_id)
        assert reply
        assert (reply.status, reply.content) == (TaskStatus.SUCCEEDED, "Paid.")
        written = await events(runtime, reply.session_id)
    (started,) = [each for each in written if isinstance(each, TaskStarted)]
    return [n for n in written if isinstance(n, NoteEmitted)], started.agent_digest, model


CHANGES: dict[str, dict[str, Any]] = {
    "instructions": {"instructions": "Be kind."},
    "tools": {"tools": [pay()]},
    "hand-offs": {"handoffs": ["assistant"]},
    "settings of its model": {"model_settings": ModelSettings(temperature=1)},
}


@pytest.mark.parametrize("changed", CHANGES.values(), ids=list(CHANGES))
async def test_a_task_continues_with_the_changed_agent_and_the_log_has_both_hashes(
    changed: dict[str, Any],
) -> None:
    (note,), digest, model = await continued(clerk(**changed))
    payload: Any = note.payload
    assert note.event_type == "agent_changed"
    assert (payload["agent"], payload["started_with"]) == ("clerk", digest)
    assert payload["continues_with"] != digest
    assert note.message == (
        f"the agent 'clerk' was changed since the task started: {digest} is now "
        f"{payload['continues_with']}"
    )
    assert model.requests[-1].system.startswith(changed.get("instructions", "Be brief."))


async def test_the_same_agent_in_another_process_is_not_a_changed_one() -> None:
    notes, digest, _ = await continued(clerk())
    assert notes == []
    assert len(digest) == 16


@pytest.mark.parametrize(
    ("later", "noted"),
    [
        (["Be kind."] * 3, ["was changed"]),
        (["Be kind.", "Be kind.", "Be quick."], ["was changed", "was changed"]),
        (["Be kind.", "Be brief.", "Be brief."], ["was changed", "is again as it was"]),
        (["Be brief."] * 3, []),
    ],
)
async def test_a_change_is_noted_once_however_often_the_task_resumes(
    later: list[str], noted: list[str]
) -> None:
    place = MemoryStorage()
    model = ScriptedModel([*(call("pay", n=n) for n in range(3)), say("Paid.")])
    async with memory_runtime(model=model, agents=[clerk()], place=place) as runtime:
        reply = await runtime.chat("Pay", agent="clerk")
    for instructions in later:
        agents = [clerk(instructions=instructions)]
        async with memory_runtime(model=model, agents=agents, place=place) as runtime:
            reply = await runtime.approve(reply)
    async with memory_runtime(model=model, place=place) as runtime:
        written = await events(runtime, LogId(reply.session))
    assert reply.content == "Paid."
    messages = [str(each.message) for each in written if isinstance(each, NoteEmitted)]
    assert len(messages) == len(noted)
    assert all(each in message for each, message in zip(noted, messages, strict=True))


def pair(**changed: Any) -> list[AnyAgent]:
    """Return an agent that hands off to another one, which may be changed."""
    billing: AnyAgent = Agent(
        "billing", **{"instructions": "Be brief.", "tools": [pay()]} | changed
    )
    return [Agent("triage", handoffs=[billing])]


@pytest.mark.parametrize("changed", [{}, {"instructions": "Be kind."}], ids=["same", "changed"])
async def test_after_a_hand_off_the_agent_that_has_the_task_is_compared(
    changed: dict[str, Any],
) -> None:
    place = MemoryStorage()
    script = [call("transfer_to_billing"), call("pay"), say("Paid.")]
    model = ScriptedModel({"Pay": script})
    async with memory_runtime(model=model, agents=pair(), place=place) as runtime:
        reply = await runtime.chat("Pay", agent="triage")
    async with memory_runtime(model=model, agents=pair(**changed), place=place) as runtime:
        reply = await runtime.approve(reply)
        written = await events(runtime, LogId(reply.session))
    assert reply.content == "Paid."
    (handed,) = [each for each in written if isinstance(each, HandedOff)]
    notes: list[Any] = [each for each in written if isinstance(each, NoteEmitted)]
    assert len(notes) == len(changed)
    for note in notes:
        assert note.payload["agent"] == "billing"
        assert note.payload["started_with"] == handed.agent_digest
        assert note.payload["continues_with"] != handed.agent_digest
