"""The host: its calls, refusals, console lines, warnings and timestamps."""

import asyncio
from typing import Any

import pytest

from penstock.core.errors import Suspend
from penstock.core.events.events import NoteEmitted
from penstock.core.limits import Limits
from penstock.sandbox.bridge import HostCallResult
from penstock.testing.invocation import open_workbench
from penstock.tools.scripts.bindings import Bindings
from penstock.tools.scripts.host import format_timestamp
from tests.kit.hosts import Asking, asking
from tests.kit.tools import Act

NO_OBJECT = [None, 1, "x", [], [1], True]
LATER = [
    "task.other",
    "browser.startRequestCapture",
    "browser.run",
    "toString",
    "",
    "__class__",
]
ALL = [
    "callTool",
    "fetch",
    "fs.readBytes",
    "getRuntimeConfig",
    "sleep",
    "state.append",
    "state.delete",
    "state.get",
    "state.list",
    "state.patch",
    "state.put",
    "task.emitEvent",
    "task.getState",
    "task.getToolState",
    "task.putState",
    "task.putToolState",
    "task.step.settle",
    "task.step.start",
    "task.waitForUserMessage",
    "timer",
    "vault.get",
    "vault.handle",
]


HOUR_MS, YEAR = 3_600_000, 365 * 24 * 3600
STEP: dict[str, Any] = {"key": "k", "version": 1}
WAIT: dict[str, Any] = {"user_message": "?"}
PUT: dict[str, Any] = {"key": "k", "value": 1}
NOTE: dict[str, Any] = {"event_type": "a"}
BOUNDS: list[tuple[str, dict[str, Any], str, list[Any], list[Any]]] = [
    ("sleep", {}, "ms", [0, 0.5, HOUR_MS], [-1, HOUR_MS + 1, True, "1", None]),
    ("timer", {}, "ms", [0, 0.5, HOUR_MS], [-1, HOUR_MS + 1, True, "1", None]),
    ("task.putState", PUT, "ttl_seconds", [1, YEAR, None], [0, 0.5, YEAR + 1, True]),
    ("task.putToolState", PUT, "ttl_seconds", [1, YEAR, None], [0, 0.5, YEAR + 1, True]),
    ("task.putState", PUT, "key", ["k" * 512, "\N{SNOWMAN}" * 170], ["", "k" * 513]),
    ("task.emitEvent", NOTE, "event_type", ["a", "x" * 128], ["", "x" * 129]),
    ("task.emitEvent", NOTE, "title", [None, "", "x" * 200], ["x" * 201]),
    ("task.emitEvent", NOTE, "message", [None, "", "x" * 4_000], ["x" * 4_001]),
    ("task.emitEvent", NOTE, "payload", [None, "x" * 32_766], ["x" * 32_767]),
    ("task.step.start", STEP, "key", ["k", "k" * 128], ["", "k" * 129]),
    ("task.step.start", STEP, "version", [1, 2**53, "1", "v"], [0, -1, 1.5, "", True, None]),
    (
        "task.waitForUserMessage",
        WAIT,
        "user_message",
        ["?", "x" * 1_000_000],
        ["", "x" * 1_000_001],
    ),
    (
        "task.waitForUserMessage",
        WAIT,
        "timeout",
        [{}, *({"seconds": each, "resume_prompt": "x"} for each in (1, YEAR))],
        [{"seconds": each, "resume_prompt": "x"} for each in (0, 0.5, YEAR + 1, True)],
    ),
    ("getRuntimeConfig", {}, "key", ["k", "x" * 1_000_000], ["", " ", "x" * 1_000_001]),
    ("callTool", {}, "tool_id", ["x"], ["", 1, None]),
    ("callTool", {"tool_id": "x"}, "wait", [True, False], [None, 0, "yes"]),
]
RETRY: list[tuple[str, list[float], list[float]]] = [
    ("max_attempts", [1, 10], [0, 11]),
    ("initial_backoff_ms", [0, 600_000], [-1, 600_001]),
    ("multiplier", [1, 10], [0.9, 10.1]),
    ("max_backoff_ms", [0, 600_000], [-1, 600_001]),
]
BOUNDS += [
    (
        "task.step.start",
        STEP,
        "retry",
        [{name: each} for each in taken],
        [{name: each} for each in refused],
    )
    for name, taken, refused in RETRY
]


async def refusal_of(name: str, arguments: dict[str, Any]) -> str | None:
    """Ask a host that was asked for nothing before; returns the refusal, without any wait."""
    host = await asking()
    answer = host.host.ask(name, arguments)
    if isinstance(answer, HostCallResult):
        return None if answer.refusal is None else answer.refusal.name
    at_work = asyncio.ensure_future(answer)
    await asyncio.wait({at_work}, timeout=0)
    at_work.cancel()
    await asyncio.gather(at_work, return_exceptions=True)
    return None


@pytest.mark.parametrize(
    ("name", "others", "member", "taken", "refused"),
    BOUNDS,
    ids=[f"{name} {member} {number}" for number, (name, _, member, *_) in enumerate(BOUNDS)],
)
async def test_arguments_at_their_limits_are_accepted_and_beyond_them_refused(
    name: str, others: dict[str, Any], member: str, taken: list[Any], refused: list[Any]
) -> None:
    for value in taken:
        assert await refusal_of(name, others | {member: value}) is None, repr(value)[:40]
    for value in refused:
        result = await refusal_of(name, others | {member: value})
        assert result == "TypeError", repr(value)[:40]


@pytest.mark.parametrize("arguments", NO_OBJECT)
async def test_arguments_that_are_not_an_object_are_refused(arguments: Any) -> None:
    host = await asking()
    for name in ALL:
        result = await host.refusal(name, arguments)
        assert result in {"TypeError", "NOT_AVAILABLE"}, name


async def test_missing_arguments_are_refused() -> None:
    host = await asking()
    for name in ALL:
        assert await host.refusal(name, {}) in {"TypeError", "NOT_AVAILABLE"}, name


@pytest.mark.parametrize("name", LATER)
async def test_an_unknown_host_call_is_not_available(name: str) -> None:
    host = await asking()
    assert await host.refusal(name, {}) == "NOT_AVAILABLE"
    settled = host.host.answer(name, {})
    assert settled.refusal
    assert settled.refusal.detail.message == f"flo.{name} is not available in this version"


async def test_host_calls_beyond_the_limit_are_refused() -> None:
    bench = await open_workbench(tool := Act("script"), limits=Limits(host_calls=2))
    host = Asking(bench, tool, Bindings())
    assert await host.value("task.getContext")
    assert await host.value("task.getContext")
    assert await host.refusal("task.getContext", {}) == "BUDGET_EXCEEDED"
    assert await host.refusal("nothing", {}) == "BUDGET_EXCEEDED"


async def test_recorded_host_calls_count_once_over_all_entries() -> None:
    """`host_calls` of all kinds per invocation: throws `BUDGET_EXCEEDED`."""
    bench = await open_workbench(tool := Act("script"), limits=Limits(host_calls=2))
    host = Asking(bench, tool, Bindings())
    for name in "ab":
        await host.value("getRuntimeConfig", key=name)
    host.begin()
    for name in "ab":
        assert await host.value("getRuntimeConfig", key=name) is None
    assert await host.refusal("getRuntimeConfig", {"key": "c"}) == "BUDGET_EXCEEDED"


async def test_refused_arguments_reject_and_tool_calls_get_an_envelope() -> None:
    """INVALID_INPUT: input … deeper than 200; `callTool` never rejects for the callee's failure."""
    host = await asking()
    called = host.host.refuse("callTool", "too deep")
    assert called.value["status"] == "validation_error"
    assert called.value["error"]["code"] == "INVALID_INPUT"
    put = host.host.refuse("task.putState", "too deep").refusal
    assert put is not None
    assert (put.name, put.detail.message) == ("TypeError", "too deep")


async def test_a_printed_line_is_not_printed_again() -> None:
    """L13: "no line appears twice"."""
    host = await asking(Act("look"))
    host.host.print("info", "one")
    await host.value("callTool", tool_id="look", input={})
    host.host.print("warning", "two")
    host.begin()
    host.host.print("info", "one")
    await host.value("callTool", tool_id="look", input={})
    for line in ("two", "three"):
        host.host.print("info", line)
    printed = [each for each in await host.bench.events() if isinstance(each, NoteEmitted)]
    assert [each.payload["text"] for each in printed] == ["one", "two", "three"]
    assert [each.level for each in printed] == ["info", "warning", "info"]


async def test_a_further_attempt_prints_only_new_lines() -> None:
    """L13: what was printed is dropped while nothing new is asked; what was not printed is new."""
    host = await asking(Act("look"))
    for attempt in (1, 2, 1, 2, 3):
        host.begin(attempt)
        for line in ("start", f"attempt {attempt}", f"attempt {attempt}"):
            host.host.print("info", line)
    await host.value("callTool", tool_id="look", input={})
    host.host.print("info", "start")
    printed = [each for each in await host.bench.events() if isinstance(each, NoteEmitted)]
    message = [each.payload["text"] for each in printed]
    assert message == ["start", *(f"attempt {each}" for each in (1, 1, 2, 2, 3, 3)), "start"]


async def test_secrets_are_redacted_in_lines_and_warnings() -> None:
    host = await asking()
    await host.value("vault.get", scope="profile", key="token")
    host.host.print("info", "it is s3cr3t-value")
    host.host.warn("script.unhandled_rejection", "Error: s3cr3t-value")
    assert "s3cr3t-value" not in repr(await host.bench.events())
    assert await host.notes("script.unhandled_rejection") == ["Error: [secret:token]"]


async def test_an_ended_script_leaves_no_question_open() -> None:
    host = await asking()
    await host.bench.ledger.held.commit()
    with pytest.raises(Suspend):
        await host.ask("task.waitForUserMessage", {"user_message": "Yes?"})
    assert len(host.bench.questions) == 1
    host.host.end(returned=True)
    assert host.bench.questions == []


async def test_host_calls_that_were_not_repeated_are_named_once() -> None:
    """L11: "Recorded results nobody asked for again give one warning event that names them"."""
    host = await asking(Act("look"), Act("post"))
    for tool_id in ("look", "post", "post"):
        await host.value("callTool", tool_id=tool_id, input={})
    await host.value("sleep", ms=0)
    host.begin()
    await host.value("callTool", tool_id="look", input={})
    host.host.end(returned=True)
    reported = "recorded in an earlier entry, but not requested again: post, sleep"
    assert await host.notes("script.diverged") == [reported]


async def test_a_script_that_repeats_all_calls_has_not_diverged() -> None:
    host = await asking(Act("look"))
    for _ in range(2):
        await host.value("callTool", tool_id="look", input={})
        await host.value("sleep", ms=0)
        host.host.end(returned=True)
        host.begin()
    assert await host.notes("script.diverged") == []


@pytest.mark.parametrize("arguments", NO_OBJECT)
async def test_a_synchronous_call_takes_an_object(arguments: Any) -> None:
    host = await asking()
    settled = host.host.answer("time.formatUnixTimestamp", arguments)
    assert settled.refusal
    assert settled.refusal.detail.message == "flo.time.formatUnixTimestamp takes an object"


async def test_the_host_names_the_task_of_its_script() -> None:
    host = await asking()
    assert host.host.task == host.bench.ledger.task.task_id != ""


AT = 1_795_251_600
"""2026-11-21T09:00:00Z"""
SAID = [
    ("YYYY-MM-DD HH:mm:ss", "UTC", "2026-11-21 09:00:00"),
    ("DD.MM.YYYY", "Europe/Berlin", "21.11.2026"),
    ("HH:mm", "America/New_York", "04:00"),
    ("[year]/[month]/[day]", "UTC", "2026/11/21"),
    ("[hour]h [minute]m [second]s YYYY", "UTC", "09h 00m 00s YYYY"),
    ("no letters", "UTC", "no letters"),
    ("[[year]", "UTC", "[2026"),
    ("[year", "UTC", "[year"),
    pytest.param("[" * 1_000_000, "UTC", "[" * 1_000_000, id="a million that are never closed"),
]
MISTAKES: list[dict[str, Any]] = [
    {"seconds": 1.5},
    {"seconds": "1"},
    {"seconds": True},
    {"seconds": None},
    {"seconds": float("inf")},
    {"seconds": 10**30},
    {"seconds": -(10**15)},
    {"format": ""},
    {"format": 1},
    {"format": "[week]"},
    {"timezone": ""},
    {"timezone": "Mars/Olympus"},
    {"timezone": "../../etc/passwd"},
    {"timezone": "/etc/localtime"},
    {"timezone": "a\0b"},
    {"timezone": 1},
]


@pytest.mark.parametrize(("pattern", "zone", "message"), SAID)
def test_a_timestamp_is_formatted_by_its_pattern(pattern: str, zone: str, message: str) -> None:
    assert format_timestamp({"seconds": AT, "format": pattern, "timezone": zone}) == message


@pytest.mark.parametrize("wrong", MISTAKES)
def test_a_malformed_timestamp_request_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        format_timestamp({"seconds": AT, "format": "YYYY", "timezone": "UTC"} | wrong)


@pytest.mark.parametrize(
    ("seconds", "year"), [(-62_135_596_800, "0001"), (253_402_300_799, "9999")]
)
def test_timestamps_cover_the_years_1_to_9999(seconds: int, year: str) -> None:
    passed = {"seconds": seconds, "format": "YYYY", "timezone": "UTC"}
    assert format_timestamp(passed) == year
