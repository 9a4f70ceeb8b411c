"""Nested calls of a script, sleeps and timers."""

import asyncio
from typing import Any

import pytest

from penstock.core.call import Effect
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.limits import Limits
from penstock.testing.clock import FakeClock
from penstock.testing.invocation import open_workbench
from penstock.tools.policy import SCRIPT
from penstock.tools.scripts.bindings import Bindings
from penstock.tools.scripts.host import MAX_IN_FLIGHT
from penstock.tools.scripts.host_calls import wire
from tests.kit.hosts import Asking, asking, replace_spec
from tests.kit.tools import Act, Gate, echo

BAD_CALLS: list[dict[str, Any]] = [
    {"input": {}},
    {"tool_id": "", "input": {}},
    {"tool_id": 1, "input": {}},
    {"tool_id": ["look"], "input": {}},
    {"tool_id": "look", "input": {}, "wait": "no"},
    {"tool_id": "look", "input": {}, "wait": None},
]
BAD_TIMES: list[Any] = [None, "1", True, -1, 3_600_001, float("inf"), float("nan"), 10**400, {}, []]


@pytest.mark.parametrize("arguments", BAD_CALLS)
async def test_a_malformed_call_is_refused(arguments: dict[str, Any]) -> None:
    host = await asking(Act("look"))
    assert await host.refusal("callTool", arguments) == "TypeError"


@pytest.mark.parametrize("tool_id", ["nothing", "a/b", "look#1", "../look", "x" * 5000, "\ud800"])
async def test_an_unknown_tool_returns_an_envelope(tool_id: str) -> None:
    host = await asking(Act("look"))
    result = await host.value("callTool", tool_id=tool_id, input={})
    assert result["error"]["code"] in {"TOOL_NOT_FOUND", "NOT_PERMITTED"}


async def test_an_envelope_has_only_documented_members() -> None:
    host = await asking(Act("look"))
    result = await host.value("callTool", tool_id="look", input={})
    assert result == {"status": "success", "output": {"done": "look"}}
    missing = await host.value("callTool", tool_id="nothing", input={})
    assert missing.keys() == {"status", "error"}
    assert missing["error"].keys() == {"code", "message", "retryable", "continuable"}


@pytest.mark.parametrize(
    ("status", "details", "question_id"),
    [
        (Status.SUSPENDED, {"question_ids": ["q_1", "q_2"]}, "q_1"),
        (Status.SUSPENDED, {"question_ids": []}, None),
        (Status.SUSPENDED, None, None),
        (Status.FAILED, {"question_ids": ["q_1"]}, None),
    ],
)
def test_only_a_suspended_call_names_its_question(
    status: Status, details: Any, question_id: str | None
) -> None:
    error = ErrorDetail(code="X", message="m", suggestion="s", details=details)
    seen = wire(Envelope(status, error=error))
    assert seen.get("question_id") == question_id
    assert "suggestion" not in seen["error"]


async def test_a_recorded_call_is_not_made_again() -> None:
    host = await asking(look := Act("look", echo))
    first = await host.ask("callTool", {"tool_id": "look", "input": {"n": 1}})
    host.begin()
    again = await host.ask("callTool", {"tool_id": "look", "input": {"n": 1.0}})
    assert (again.value, again.at_ms) == (first.value, first.at_ms)
    assert (first.order, again.order is None) == (None, False)
    assert len(look.runs) == 1


async def test_nested_calls_are_bounded_over_all_entries_of_an_attempt() -> None:
    """`nested_calls` new calls per invocation (replayed ones do not count)."""
    host = await asking(look := Act("look", echo), bindings=Bindings(nested_calls=2))
    asked = [{"tool_id": "look", "input": {"n": n}} for n in range(5)]
    result = [await host.value("callTool", **each) for each in asked[:3]]
    assert [each["status"] for each in result] == ["success", "success", "failed"]
    assert result[2]["error"]["code"] == "BUDGET_EXCEEDED"
    host.begin()
    again = [await host.value("callTool", **each) for each in asked]
    assert again[:3] == result
    assert [each["error"]["code"] for each in again[3:]] == ["BUDGET_EXCEEDED"] * 2
    host.begin(attempt=2)
    later = await host.value("callTool", **asked[4])
    assert (later["status"], len(look.runs)) == ("success", 3)


async def test_further_calls_wait_their_turn() -> None:
    gate = Gate()
    tool = Act("script", kind=SCRIPT, is_frame=True)
    look = replace_spec(Act("look", gate))
    bench = await open_workbench(tool, look)
    host = Asking(bench, tool, Bindings())
    asked = [
        asyncio.ensure_future(host.ask("callTool", {"tool_id": "look", "input": {"n": n}}))
        for n in range(MAX_IN_FLIGHT + 2)
    ]
    await gate.reached()
    assert len(look.runs) == MAX_IN_FLIGHT
    gate.open()
    assert all(each.value["status"] == "success" for each in await asyncio.gather(*asked))
    assert len(look.runs) == MAX_IN_FLIGHT + 2


@pytest.mark.parametrize(
    ("own", "other", "warns"),
    [
        (Effect.READ, Effect.WRITE, True),
        (Effect.NONE, Effect.READ, True),
        (Effect.READ, Effect.READ, False),
        (Effect.WRITE, Effect.WRITE, False),
    ],
)
async def test_a_call_with_a_stronger_effect_is_reported_once(
    own: Effect, other: Effect, warns: bool
) -> None:
    """L3: "a nested call of stronger effect gives a warning event `script.effect`"."""
    host = await asking(Act("look", effect=other), effect=own)
    for _ in range(2):
        for _ in range(2):
            await host.value("callTool", tool_id="look", input={})
        host.begin()
    message = f'"look" has the effect {other}, "script" claims {own}'
    assert await host.notes("script.effect") == [message] * warns


@pytest.mark.parametrize("ms", BAD_TIMES)
@pytest.mark.parametrize("name", ["sleep", "timer"])
async def test_a_malformed_time_is_refused(name: str, ms: Any) -> None:
    host = await asking()
    assert await host.refusal(name, {"ms": ms}) == "TypeError"


async def test_a_recorded_sleep_returns_immediately() -> None:
    host = await asking()
    clock = host.bench.world.clock
    assert isinstance(clock, FakeClock)
    sleeping = asyncio.ensure_future(host.ask("sleep", {"ms": 1500}))
    await clock.elapse(2)
    settled = await sleeping
    assert settled.at_ms == host.host.begins_ms + 1500
    host.begin()
    again = await host.ask("sleep", {"ms": 1500})
    assert again.at_ms == settled.at_ms
    assert clock.sleepers == 0


async def test_an_unknown_id_with_a_secret_is_redacted() -> None:
    host = await asking()
    await host.value("vault.get", scope="profile", key="token")
    result = await host.value("callTool", tool_id="s3cr3t-value", input={"t": "s3cr3t-value"})
    assert result["error"]["message"] == "There is no tool '[secret:token]'."
    records = await host.bench.log.read(host.invocation.ledger.held.state.log_id)
    assert "s3cr3t-value" not in repr(records)


async def test_a_tool_whose_id_is_part_of_a_secret_is_called() -> None:
    host = await asking(Act("look"), secrets={"token": "look"})
    await host.value("vault.get", scope="profile", key="token")
    assert (await host.value("callTool", tool_id="look"))["status"] == "success"


async def test_the_project_limits_nested_calls() -> None:
    """§10: `nested_calls`; "per manifest" wins over "limits.*"."""
    tool, look = Act("script", kind=SCRIPT, is_frame=True), replace_spec(Act("look", echo))
    bench = await open_workbench(tool, look, limits=Limits(nested_calls=1))
    for bindings, most in ((Bindings(), 1), (Bindings(nested_calls=2), 2)):
        host = Asking(bench, tool, bindings)
        host.begin(attempt=most)
        asked = [{"tool_id": "look", "input": {"n": n}} for n in range(3)]
        result = [await host.value("callTool", **each) for each in asked]
        assert [each["status"] for each in result].count("success") == most


@pytest.mark.parametrize("passed", [None, [], [1], "x", 5, True])
async def test_an_input_that_is_not_an_object_fails_the_call(passed: Any) -> None:
    """`callTool` never rejects for the callee's failure; `TypeError`: `input` not JSON."""
    host = await asking(look := Act("look"))
    result = await host.value("callTool", tool_id="look", input=passed)
    assert (result["status"], result["error"]["code"]) == ("validation_error", "INVALID_INPUT")
    assert result["error"]["details"]["problems"] == [{"path": "", "message": "must be an object"}]
    assert look.runs == []
