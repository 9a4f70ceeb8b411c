"""The tools with which a model creates schedules and looks at them."""

from typing import Any

import pytest

from penstock.app.runtime import Runtime
from penstock.app.runtime_parts import DeclaredFlows
from penstock.builtins.schedule import TOOLS, CreateSchedule, ScheduleLookup
from penstock.core.envelope import Envelope
from penstock.core.events.events import CallSettled
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.core.profile import Profile
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import memory_runtime
from tests.kit.flows import WORKERS, flows_of, steps
from tests.kit.server import in_memory

Call = tuple[str, dict[str, Any]]
DAILY: dict[str, Any] = {"name": "Daily Report", "cron": "0 9 * * *", "workflowId": "report"}
FLOWS = DeclaredFlows(library=flows_of(report=steps("  - {id: one, agent: scout, task: look}")))


async def outcomes(
    *calls: Call, profile: Profile | None = None, **limits: int
) -> tuple[list[Envelope], list[dict[str, Any]]]:
    """Let a model make these calls; return their outcomes and the schedules after that."""
    replies = [call(name, **given) for name, given in calls]
    options: dict[str, Any] = {"clock": FakeClock(), "limits": Limits(**limits)}
    model = ScriptedModel([*replies, say("Done.")])
    async with in_memory(
        model=model, tools=TOOLS, agents=WORKERS, flows=FLOWS, **options
    ) as runtime:
        reply = await runtime.chat("Go", profile=profile)
        envelopes = await settled(runtime, reply.session)
        found, _ = await runtime.schedules.list(sort="name")
        return envelopes, [each.to_wire() | {"profile": each.profile_id} for each in found]


async def settled(runtime: Runtime, session: str) -> list[Envelope]:
    records = await runtime.parts.storage.log.read(LogId(session))
    return [each.event.envelope for each in records if isinstance(each.event, CallSettled)]


async def test_a_model_creates_a_schedule_of_a_workflow_and_reads_it() -> None:
    """14.9: the seed's object validates unchanged; the tasks run for the profile of the call."""
    given = DAILY | {"input": {"task": "look"}, "timezone": "Europe/Berlin"}
    ann = Profile.named("ann", "chat")
    calls: list[Call] = [("create_schedule", given), ("get_schedule_info", {})]
    (created, listed), (stored,) = await outcomes(*calls, profile=ann)
    assert created.output == {
        "id": stored["id"],
        "name": "Daily Report",
        "type": "cron",
        "cron": "0 9 * * *",
        "timezone": "Europe/Berlin",
        "workflowId": "report",
        "status": "active",
        "nextRun": "2026-11-22T08:00:00.000Z",
        "nextRuns": stored["next_runs"],
    }
    assert (stored["profile"], stored["input"]) == ("ann", {"task": "look"})
    (shown,) = listed.output["results"]
    assert shown == {
        **{key: value for key, value in created.output.items() if key != "nextRuns"},
        "lastRun": None,
        "lastStatus": None,
        "missed": 0,
    }
    assert CreateSchedule().preview(created.output) == (
        "Daily Report: next 2026-11-22T08:00:00.000Z"
    )
    assert ScheduleLookup().preview(listed.output) == "1 schedules"


async def test_a_message_goes_to_the_conversation_of_the_call() -> None:
    given = {"name": "News", "cron": "@daily", "message": "What is new?"}
    (created,), (stored,) = await outcomes(("create_schedule", given))
    assert created.ok
    assert created.output["workflowId"] is None
    assert stored["conversation_id"].startswith("conv_")
    assert stored["input"] == {
        "content": "What is new?",
        "conversation": stored["conversation_id"],
    }


@pytest.mark.parametrize(
    ("name", "given", "code", "part"),
    [
        ("create_schedule", DAILY | {"cron": "0 25 * * *"}, "INVALID_INPUT", "/cron: the hour"),
        ("create_schedule", DAILY | {"timezone": "Berln"}, "INVALID_INPUT", "/timezone: must be"),
        ("create_schedule", DAILY | {"workflowId": "reprt"}, "INVALID_INPUT", "'report'"),
        ("create_schedule", DAILY | {"message": "x"}, "INVALID_INPUT", "found both"),
        ("create_schedule", {"name": "x", "cron": "@daily"}, "INVALID_INPUT", "found neither"),
        ("create_schedule", {"name": "x"}, "INVALID_INPUT", "cron"),
        ("get_schedule_info", {"scheduleId": "sched_1"}, "NOT_FOUND", "There is none."),
    ],
)
async def test_a_wrong_call_is_answered_with_its_reason(
    name: str, given: dict[str, Any], code: str, part: str
) -> None:
    (envelope,), stored = await outcomes((name, given))
    assert envelope.error is not None
    assert envelope.error.code == code
    assert part in envelope.error.message
    assert stored == []


async def test_a_model_creates_only_so_many_active_schedules() -> None:
    calls = [("create_schedule", DAILY | {"name": str(number)}) for number in range(3)]
    envelopes, stored = await outcomes(*calls, agent_schedules=2)
    assert [each.ok for each in envelopes] == [True, True, False]
    assert envelopes[2].error is not None
    assert envelopes[2].error.code == "LIMIT_REACHED"
    assert len(stored) == 2


async def test_without_a_database_there_are_no_schedules() -> None:
    model = ScriptedModel([call("get_schedule_info"), say("Done.")])
    async with memory_runtime(model=model, tools=TOOLS) as runtime:
        reply = await runtime.chat("Go")
        (envelope,) = await settled(runtime, reply.session)
        assert envelope.error is not None
        assert envelope.error.code == "NOT_AVAILABLE"
