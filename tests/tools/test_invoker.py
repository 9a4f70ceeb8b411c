"""The one door: every call comes back as an envelope, and is settled once."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from penstock.core.call import Origin
from penstock.core.call_errors import Rejected, UpstreamUnavailable
from penstock.core.envelope import Status
from penstock.core.errors import Suspend
from penstock.core.events.events import CallRetried, CallStarted, QuestionAsked
from penstock.core.json_values.schema import Schema
from penstock.core.limits import Limits
from penstock.core.profile import Profile
from penstock.core.task import QuestionKind
from penstock.engine.budget import Allowance, Budget
from penstock.testing.clock import FakeClock
from penstock.testing.invocation import open_workbench
from penstock.tools.policy import Action, Caller, Rule
from penstock.tools.python.context import ToolContext
from penstock.tools.python.function import tool
from penstock.tools.python.options import Retry
from tests.kit.counting_tools import Counted, code, killed
from tests.kit.tools import Act

# ---- replay --------------------------------------------------------------------------------------


async def test_a_settled_call_is_replayed_from_the_ledger(counted: Counted) -> None:
    bench = await open_workbench(counted.look)
    first = await bench.call("look", {"n": 1})
    bench.enter()
    assert await bench.call("look", {"n": 1}) == first
    assert counted.runs == 1


async def test_two_equal_calls_are_two(counted: Counted) -> None:
    bench = await open_workbench(counted.look)
    await bench.call("look", {"n": 1})
    await bench.call("look", {"n": 1})
    assert counted.runs == 2


async def test_a_replay_asks_no_person_again(counted: Counted) -> None:
    """A permission that was taken away later does not undo a settled call."""
    bench = await open_workbench(counted.look)
    await bench.call("look")
    bench.enter()
    stranger = Caller(origin=Origin.MODEL)
    assert (await bench.call("look", caller=stranger)).ok


# ---- resolve and permit --------------------------------------------------------------------------


@pytest.mark.parametrize("origin", list(Origin))
async def test_an_unknown_tool_is_not_found(counted: Counted, origin: Origin) -> None:
    """Row 17 of the visibility table."""
    bench = await open_workbench(counted.look)
    envelope = await bench.call("nothing_such", caller=Caller(origin=origin))
    assert code(envelope) == "TOOL_NOT_FOUND"


async def test_the_nearest_name_is_one_that_the_caller_can_see(counted: Counted) -> None:
    bench = await open_workbench(counted.look, counted.post)
    envelope = await bench.call("pots")
    assert envelope.error
    assert envelope.error.message == "There is no tool 'pots'. Did you mean 'post'?"
    blind = Caller(origin=Origin.MODEL, agent_tools=frozenset({"look"}))
    envelope = await bench.call("post", caller=blind)
    assert envelope.error
    assert envelope.error.message == "There is no tool 'post'."


async def test_a_denied_tool_is_not_permitted_although_it_exists(counted: Counted) -> None:
    bench = await open_workbench(counted.look, rules=[Rule(tool="lo*", action=Action.DENY)])
    envelope = await bench.call("look")
    assert envelope.error
    assert envelope.error.code == "NOT_PERMITTED"
    named = """a rule of this project forbids "look": [[rules]] 1, tool 'lo*'"""
    assert envelope.error.message == named


async def test_a_deny_with_when_refuses_only_matching_calls(counted: Counted) -> None:
    when = Schema({"properties": {"n": {"minimum": 5}}})
    rules = [Rule(tool="look", action=Action.DENY, when=when)]
    bench = await open_workbench(counted.look, rules=rules)
    assert code(await bench.call("look", {"n": 5})) == "NOT_PERMITTED"
    assert code(await bench.call("look", {"n": 4})) == "success"


async def test_a_missing_permission_refuses_every_origin() -> None:
    @tool(effect="none", direct_call=True, requires_permissions=["p.send"])
    def guarded() -> None:
        """Do something not everybody may do."""

    bench = await open_workbench(guarded)
    for origin in (Origin.MODEL, Origin.DIRECT, Origin.SCRIPT):
        caller = Caller(
            origin=origin, profile=Profile(), agent_tools=bench.model.agent_tools, calling_tool="x"
        )
        assert code(await bench.call("guarded", caller=caller)) == "NOT_PERMITTED"


# ---- validate ------------------------------------------------------------------------------------


async def test_every_problem_of_an_input_is_named_with_its_path(counted: Counted) -> None:
    bench = await open_workbench(counted.look)
    envelope = await bench.call("look", {"n": "1", "m": 2})
    assert envelope.status is Status.VALIDATION_ERROR
    assert envelope.error
    assert envelope.error.details
    paths = {each["path"] for each in envelope.error.details["problems"]}
    assert paths == {"/n", ""}
    assert envelope.error.message.startswith('input of "look" is not valid: ')
    assert counted.runs == 0


async def test_an_endless_input_is_refused_before_its_schema_recurses() -> None:
    inner: list[Any] = []
    for _ in range(300):
        inner = [inner]
    take = Act("take", input_schema={"type": "object", "additionalProperties": False})
    envelope = await (await open_workbench(take)).call("take", {"value": inner})
    assert envelope.error
    said = 'input of "take" is not valid: /value/0/0/…: is nested more than 200 levels deep'
    assert (envelope.error.message, take.runs) == (said, [])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (2**53, "is beyond ±(2^53-1); send it as a string"),
        (-(2**53), "is beyond"),
        (float("nan"), "is not a finite number"),
    ],
)
async def test_numbers_that_other_languages_change_are_refused(value: Any, message: str) -> None:
    @tool(effect="none")
    async def take(value: Any) -> None:
        """Take anything."""

    envelope = await (await open_workbench(take)).call("take", {"value": value})
    assert envelope.error
    assert message in envelope.error.message


async def test_a_bad_input_never_becomes_a_question(counted: Counted) -> None:
    bench = await open_workbench(counted.send)
    assert code(await bench.call("send", {"to": 5})) == "INVALID_INPUT"
    assert bench.questions == []


# ---- ask -----------------------------------------------------------------------------------------


async def test_an_approved_call_runs_once_with_the_input_that_was_shown(counted: Counted) -> None:
    bench = await open_workbench(counted.send)
    with pytest.raises(Suspend):
        await bench.call("send", {"to": "ann"})
    (question,) = bench.questions
    assert (question.kind, question.tool_id) == (QuestionKind.APPROVAL, "send")
    assert question.input == {"to": "ann"}
    assert question.text == 'Run "send"? Send something, if a person says yes.'
    await bench.answer({"decision": "approve"})
    bench.enter()
    assert (await bench.call("send", {"to": "ann"})).output == "ann"
    assert counted.runs == 1


async def test_a_call_runs_with_the_edited_input_and_keeps_its_path(counted: Counted) -> None:
    bench = await open_workbench(counted.send)
    with pytest.raises(Suspend):
        await bench.call("send", {"to": "ann"})
    await bench.answer({"decision": "approve", "input": {"to": "bob"}})
    bench.enter()
    assert (await bench.call("send", {"to": "ann"})).output == "bob"
    bench.enter()
    assert (await bench.call("send", {"to": "ann"})).output == "bob"
    assert counted.runs == 1


@pytest.mark.parametrize(
    ("note", "message"),
    [
        ({}, 'a person rejected this call of "send"'),
        ({"note": "not now"}, 'a person rejected this call of "send": not now'),
    ],
)
async def test_a_rejected_call_reports_the_reason(
    counted: Counted, note: dict[str, str], message: str
) -> None:
    bench = await open_workbench(counted.send)
    with pytest.raises(Suspend):
        await bench.call("send", {"to": "ann"})
    await bench.answer({"decision": "reject", **note})
    bench.enter()
    envelope = await bench.call("send", {"to": "ann"})
    assert envelope.error
    assert (envelope.error.code, envelope.error.message) == ("REJECTED", message)
    assert counted.runs == 0


async def test_a_repeated_call_asks_its_question_once(counted: Counted) -> None:
    bench = await open_workbench(counted.send)
    for _ in range(3):
        with pytest.raises(Suspend):
            await bench.call("send", {"to": "ann"})
        bench.enter()
    assert sum(isinstance(event, QuestionAsked) for event in await bench.events()) == 1


async def test_a_deny_that_was_added_meanwhile_refuses_an_approved_call(counted: Counted) -> None:
    """The approved call goes through the door again: a `deny` set meanwhile holds."""
    bench = await open_workbench(counted.send)
    with pytest.raises(Suspend):
        await bench.call("send", {"to": "ann"})
    await bench.answer({"decision": "approve"})
    bench.enter()
    denied = Caller(
        origin=Origin.MODEL,
        agent_tools=bench.model.agent_tools,
        permissions={"send": "deny"},
    )
    assert code(await bench.call("send", {"to": "ann"}, caller=denied)) == "NOT_PERMITTED"
    assert counted.runs == 0


# ---- reserve -------------------------------------------------------------------------------------


async def test_a_call_over_the_budget_is_refused(counted: Counted) -> None:
    bench = await open_workbench(counted.look)
    ledger = bench.ledger
    ledger.budget = Budget(Allowance(tool_calls=1), ledger.task.spent, bench.world.clock)
    assert code(await bench.call("look")) == "success"
    envelope = await bench.call("look")
    assert envelope.error
    assert envelope.error.code == "BUDGET_EXCEEDED"
    assert not envelope.error.continuable
    assert counted.runs == 1


# ---- run -----------------------------------------------------------------------------------------


async def test_a_tool_past_its_timeout_is_cancelled_and_may_be_retried() -> None:
    ended = asyncio.Event()

    @tool(effect="none", timeout=0.01)
    async def hang(*, ctx: ToolContext) -> None:
        """Wait for ever."""
        try:
            await ctx.wait_cancelled()
        finally:
            ended.set()

    envelope = await (await open_workbench(hang)).call("hang")
    assert envelope.status is Status.TIMEOUT
    assert envelope.error
    assert (envelope.error.code, envelope.error.retryable) == ("TIMEOUT", True)
    assert ended.is_set()


async def test_a_timeout_of_the_tool_s_own_is_a_failure_like_any_other() -> None:
    @tool(effect="none")
    async def impatient() -> None:
        """Run out of patience."""
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    envelope = await (await open_workbench(impatient)).call("impatient")
    assert (envelope.status, code(envelope)) == (Status.FAILED, "TOOL_FAILED")


async def test_a_retryable_error_is_retried_after_longer_and_longer_waits() -> None:
    clock, attempts = FakeClock(), list[tuple[int, float, str]]()

    @tool(effect="none", retry=Retry(attempts=3, initial=1, multiplier=5, maximum=3))
    async def flaky(*, ctx: ToolContext) -> int:
        """Work at the third attempt."""
        attempts.append((ctx.attempt, clock.monotonic(), ctx.idempotency_key))
        if ctx.attempt < 3:
            raise UpstreamUnavailable("no answer")
        return ctx.attempt

    bench = await open_workbench(flaky, clock=clock)
    work = asyncio.create_task(bench.call("flaky"))
    await clock.elapse(10)
    assert (await work).output == 3
    assert [(number, at) for number, at, _ in attempts] == [(1, 0), (2, 1), (3, 4)]
    assert len({key for _, _, key in attempts}) == 1
    retried = [event for event in await bench.events() if isinstance(event, CallRetried)]
    assert [event.attempt for event in retried] == [1, 2]


async def test_a_permanent_error_is_not_retried() -> None:
    runs = 0

    @tool(effect="none", retry=Retry(attempts=3))
    async def broken() -> None:
        """Fail for good."""
        nonlocal runs
        runs += 1
        raise Rejected("no")

    assert code(await (await open_workbench(broken)).call("broken")) == "REJECTED"
    assert runs == 1


async def test_a_write_is_on_disk_as_started_before_it_runs() -> None:
    started: list[CallStarted] = []

    @tool(effect="write")
    async def writes(*, ctx: ToolContext) -> str:
        """Look into the log while running."""
        started.extend(each for each in await bench.events() if isinstance(each, CallStarted))
        return ctx.idempotency_key

    bench = await open_workbench(writes)
    envelope = await bench.call("writes")
    assert [each.idempotency_key for each in started] == [envelope.output]


@pytest.mark.parametrize(
    ("effect", "idempotent", "outcome", "runs"),
    [
        ("write", False, "INTERRUPTED", 1),
        ("write", True, "success", 2),
        ("read", False, "success", 2),
        ("none", False, "success", 2),
    ],
)
async def test_a_crash_repeats_a_call_unless_it_writes(
    effect: Any, idempotent: bool, outcome: str, runs: int
) -> None:
    """Killed in a `write` tool / `idempotent=True`: INTERRUPTED / runs again with the same key."""
    keys: list[str] = []
    entered, stuck = asyncio.Event(), asyncio.Event()

    @tool(effect=effect, idempotent=idempotent)
    async def act(*, ctx: ToolContext) -> None:
        """Act, and the first time never end."""
        keys.append(ctx.idempotency_key)
        entered.set()
        if len(keys) == 1:
            await stuck.wait()

    bench = await open_workbench(act)
    dying = asyncio.create_task(bench.call("act"))
    await entered.wait()
    await killed(bench)
    assert code(await bench.call("act")) == outcome
    assert len(keys) == runs
    assert len(set(keys)) == 1
    dying.cancel()
    with suppress(asyncio.CancelledError):
        await dying


# ---- check and settle ----------------------------------------------------------------------------


async def test_a_failure_to_keep_an_output_is_the_call_s_failure() -> None:
    @tool(effect="none")
    async def chatty() -> str:
        """Say too much."""
        return "x" * 100

    bench = await open_workbench(chatty, limits=Limits(output_bytes=50))
    envelope = await bench.call("chatty")
    assert envelope.error
    assert envelope.error.code == "OUTPUT_TOO_LARGE"
    (settled,) = await bench.settled()
    assert settled.envelope == envelope
    assert settled.preview is None


async def test_a_call_is_settled_once_and_counts_once(counted: Counted) -> None:
    bench = await open_workbench(counted.look)
    await bench.call("look", {"n": 1})
    (settled,) = await bench.settled()
    assert (settled.tool_id, settled.context, settled.preview) == ("look", '{"n":1}', "1 field: n")
    assert settled.ran
    assert bench.ledger.task.spent.tool_calls == 1
    await bench.call("nothing_such")
    assert bench.ledger.task.spent.tool_calls == 1


async def test_a_refused_call_is_settled_without_a_run(counted: Counted) -> None:
    bench = await open_workbench(counted.look)
    call = bench.next_call("look")
    settled = bench.invoker.refuse(call, bench.ledger, Rejected("no"), "")
    assert settled.context == '{"error":"no","code":"REJECTED"}'
    assert bench.ledger.find(call.path) == settled
    assert not settled.ran
