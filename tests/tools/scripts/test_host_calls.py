"""Calls that a script makes, and the time that it waits."""

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
async def test_a_call_of_no_form_is_a_mistake(arguments: dict[str, Any]) -> None:
    host = await asking(Act("look"))
    assert await host.refusal("callTool", arguments) == "TypeError"


@pytest.mark.parametrize("tool_id", ["nothing", "a/b", "look#1", "../look", "x" * 5000, "\ud800"])
async def test_a_tool_that_there_is_not_is_an_envelope(tool_id: str) -> None:
    host = await asking(Act("look"))
    found = await host.value("callTool", tool_id=tool_id, input={})
    assert found["error"]["code"] in {"TOOL_NOT_FOUND", "NOT_PERMITTED"}


async def test_an_envelope_has_no_other_members_than_the_page_says() -> None:
    host = await asking(Act("look"))
    found = await host.value("callTool", tool_id="look", input={})
    assert found == {"status": "success", "output": {"done": "look"}}
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
def test_only_a_call_that_waits_names_its_question(
    status: Status, details: Any, question_id: str | None
) -> None:
    error = ErrorDetail(code="X", message="m", suggestion="s", details=details)
    seen = wire(Envelope(status, error=error))
    assert seen.get("question_id") == question_id
    assert "suggestion" not in seen["error"]


async def test_what_is_recorded_is_not_called_again() -> None:
    host = await asking(look := Act("look", echo))
    first = await host.ask("callTool", {"tool_id": "look", "input": {"n": 1}})
    host.begin()
    again = await host.ask("callTool", {"tool_id": "look", "input": {"n": 1.0}})
    assert (again.value, again.at_ms) == (first.value, first.at_ms)
    assert (first.order, again.order is None) == (None, False)
    assert len(look.runs) == 1


async def test_no_more_calls_than_the_manifest_allows_in_all_entries_of_an_attempt() -> None:
    """`nested_calls` new calls per invocation (replayed ones do not count)."""
    host = await asking(look := Act("look", echo), bindings=Bindings(nested_calls=2))
    asked = [{"tool_id": "look", "input": {"n": n}} for n in range(5)]
    found = [await host.value("callTool", **each) for each in asked[:3]]
    assert [each["status"] for each in found] == ["success", "success", "failed"]
    assert found[2]["error"]["code"] == "BUDGET_EXCEEDED"
    host.begin()
    again = [await host.value("callTool", **each) for each in asked]
    assert again[:3] == found
    assert [each["error"]["code"] for each in again[3:]] == ["BUDGET_EXCEEDED"] * 2
    host.begin(attempt=2)
    later = await host.value("callTool", **asked[4])
    assert (later["status"], len(look.runs)) == ("success", 3)


async def test_further_calls_wait_their_turn() -> None:
    gate = Gate()
    tool = Act("script", kind=SCRIPT, is_frame=True)
    look = replace_spec(Act("look", gate))
    bench = await open_workbench(tool, look, limits=Limits(nested_in_flight=2))
    host = Asking(bench, tool, Bindings())
    asked = [
        asyncio.ensure_future(host.ask("callTool", {"tool_id": "look", "input": {"n": n}}))
        for n in range(4)
    ]
    await gate.reached()
    assert len(look.runs) == 2
    gate.open()
    assert all(each.value["status"] == "success" for each in await asyncio.gather(*asked))
    assert len(look.runs) == 4


@pytest.mark.parametrize(
    ("own", "other", "warns"),
    [
        (Effect.READ, Effect.WRITE, True),
        (Effect.NONE, Effect.READ, True),
        (Effect.READ, Effect.READ, False),
        (Effect.WRITE, Effect.WRITE, False),
    ],
)
async def test_a_call_that_does_more_than_is_claimed_is_told_once(
    own: Effect, other: Effect, warns: bool
) -> None:
    """L3: "a nested call of stronger effect gives a warning event `script.effect`"."""
    host = await asking(Act("look", effect=other), effect=own)
    for _ in range(2):
        for _ in range(2):
            await host.value("callTool", tool_id="look", input={})
        host.begin()
    said = f'"look" has the effect {other}, "script" claims {own}'
    assert await host.notes("script.effect") == [said] * warns


@pytest.mark.parametrize("ms", BAD_TIMES)
@pytest.mark.parametrize("name", ["sleep", "timer"])
async def test_a_time_of_no_form_is_a_mistake(name: str, ms: Any) -> None:
    host = await asking()
    assert await host.refusal(name, {"ms": ms}) == "TypeError"


async def test_a_sleep_that_ended_is_not_slept_again() -> None:
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


async def test_an_id_with_a_secret_is_unknown_and_told_without_it() -> None:
    host = await asking()
    await host.value("vault.get", scope="profile", key="token")
    found = await host.value("callTool", tool_id="s3cr3t-value", input={"t": "s3cr3t-value"})
    assert found["error"]["message"] == "There is no tool '[secret:token]'."
    records = await host.bench.log.read(host.invocation.ledger.held.state.log_id)
    assert "s3cr3t-value" not in repr(records)


async def test_a_tool_whose_id_is_in_a_secret_is_called_all_the_same() -> None:
    host = await asking(Act("look"), secrets={"token": "look"})
    await host.value("vault.get", scope="profile", key="token")
    assert (await host.value("callTool", tool_id="look"))["status"] == "success"


async def test_the_project_says_how_many_calls_a_script_may_make() -> None:
    """§10: `nested_calls`; "per manifest" wins over "limits.*"."""
    tool, look = Act("script", kind=SCRIPT, is_frame=True), replace_spec(Act("look", echo))
    bench = await open_workbench(tool, look, limits=Limits(nested_calls=1))
    for bindings, most in ((Bindings(), 1), (Bindings(nested_calls=2), 2)):
        host = Asking(bench, tool, bindings)
        host.begin(attempt=most)
        asked = [{"tool_id": "look", "input": {"n": n}} for n in range(3)]
        found = [await host.value("callTool", **each) for each in asked]
        assert [each["status"] for each in found].count("success") == most


@pytest.mark.parametrize("given", [None, [], [1], "x", 5, True])
async def test_an_input_that_is_no_object_is_a_failure_of_the_call(given: Any) -> None:
    """`callTool` never rejects for the callee's failure; `TypeError`: `input` not JSON."""
    host = await asking(look := Act("look"))
    found = await host.value("callTool", tool_id="look", input=given)
    assert (found["status"], found["error"]["code"]) == ("validation_error", "INVALID_INPUT")
    assert found["error"]["details"]["problems"] == [{"path": "", "message": "must be an object"}]
    assert look.runs == []
