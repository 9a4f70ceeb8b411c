"""The record of a script's host calls, over its entries."""

import asyncio
import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.core.call import CallPath, Effect
from penstock.core.call_errors import BudgetExceeded, ToolFailed
from penstock.core.envelope import ErrorDetail
from penstock.sandbox.bridge import HostCallResult
from penstock.testing.clock import FakeClock
from penstock.tools.scripts.recording import Recording, detail_of, refusal_of, refused
from tests.kit.hosts import Asking, asking
from tests.kit.tools import Act

VALUES: list[Any] = [
    None,
    1,
    "text",
    [1, {"a": None}],
    b"\x00\xff",
    {"body": b"\xff", "status": 200},
    {"$bytes": "no bytes at all"},
    {"a": {"$bytes": "AA=="}},
]


def recording_of(host: Asking, version: str = "") -> Recording:
    host.begin()
    return Recording(host.invocation, version)


@pytest.mark.parametrize("value", VALUES)
async def test_a_recorded_result_is_found_unchanged(value: Any) -> None:
    host = await asking()
    recording = recording_of(host)
    path = recording.place("x", {}, Effect.READ)
    assert recording.find(path) is None
    assert recording.is_live
    assert recording.settle(path, "x", value).value == value
    again = recording_of(host)
    is_bytes = isinstance(value, bytes) or (isinstance(value, dict) and "body" in value)
    result = again.find(again.place("x", {}, Effect.READ), has_bytes=is_bytes)
    assert result is not None
    assert result.value == value
    assert not again.is_live


@pytest.mark.parametrize("error", [TypeError("wrong"), ToolFailed("no", "MY_CODE", retryable=True)])
async def test_a_recorded_refusal_is_found_unchanged(error: Any) -> None:
    host = await asking()
    recording = recording_of(host)
    path = recording.place("x", {}, Effect.READ)
    first = recording.refuse(path, "x", error)
    result = recording_of(host).find(path)
    assert result is not None
    assert result.refusal == first.refusal == refused(error, 0).refusal
    assert refusal_of(detail_of(error)).name == (
        "TypeError" if isinstance(error, TypeError) else "FloError"
    )


def test_a_detail_determines_the_error_of_the_script() -> None:
    assert refusal_of(ErrorDetail(code="TYPE_ERROR", message="")).name == "TypeError"
    assert refusal_of(ErrorDetail(code="TypeError", message="")).name == "FloError"


async def test_the_clock_repeats_in_a_later_entry() -> None:
    host = await asking()
    clock = host.bench.world.clock
    assert isinstance(clock, FakeClock)
    recording = recording_of(host)
    recording.begin()
    began = recording.begins_ms
    clock.advance(5)
    path = recording.place("x", {}, Effect.READ)
    at_ms = recording.settle(path, "x", 1).at_ms
    clock.advance(5)
    again = recording_of(host)
    result = again.find(path)
    assert result is not None
    assert (again.begins_ms, result.at_ms, at_ms) == (began, began + 5000, began + 5000)


async def test_results_keep_the_order_in_which_they_settled() -> None:
    host = await asking()
    recording = recording_of(host)
    paths = [recording.place("x", n, Effect.READ) for n in range(3)]
    for number in (2, 0, 1):
        recording.settle(paths[number], "x", number)
    result = [recording_of(host).find(path) for path in paths]
    orders = [each.order for each in result if each and each.order is not None]
    assert sorted(range(3), key=orders.__getitem__) == [2, 0, 1]


async def test_the_result_that_settled_first_is_delivered_first() -> None:
    """A write that waits for the disk is not overtaken by a read that settled after it."""
    host = await asking()
    recording, reported = recording_of(host), list[str]()
    on_disk = asyncio.Event()

    async def work(path: CallPath, name: str) -> HostCallResult:
        settled = recording.settle(path, name, name)
        if name == "write":
            await on_disk.wait()
        return settled

    async def delivered(name: str) -> None:
        path = recording.place(name, {}, Effect.READ)
        reported.append((await recording.live(path, work(path, name))).value)

    running = [asyncio.ensure_future(delivered(name)) for name in ("write", "read", "other")]
    for _ in range(5):
        await host.bench.world.clock.sleep(0)
    assert reported == []
    on_disk.set()
    await asyncio.gather(*running)
    assert reported == ["write", "read", "other"]


async def test_a_failed_call_does_not_block_the_others() -> None:
    host = await asking()
    recording = recording_of(host)

    async def fails() -> HostCallResult:
        raise ToolFailed("no")

    path = recording.place("x", {}, Effect.READ)
    with pytest.raises(ToolFailed):
        await recording.live(path, fails())
    other = recording.place("y", {}, Effect.READ)

    async def works() -> HostCallResult:
        return recording.settle(other, "y", 1)

    assert (await recording.live(other, works())).value == 1


async def test_a_changed_script_is_reported_once() -> None:
    host = await asking()
    await host.value("sleep", ms=0)
    for version, reported in (("1", 0), ("2", 1), ("2", 1), ("3", 2), ("1", 3), ("1", 3)):
        host.version = version
        host.begin()
        assert len(await host.notes("script.changed")) == reported, version


async def test_a_secret_is_not_recorded() -> None:
    host = await asking(Act("look"))
    recording = recording_of(host)
    host.invocation.caller.secrets.add("token", "s3cr3t-value")
    path = recording.place("x", {}, Effect.READ)
    assert recording.settle(path, "x", ["s3cr3t-value"]).value == ["[secret:token]"]
    other = recording.place("y", {}, Effect.READ)
    settled = recording.refuse(other, "y", TypeError("not s3cr3t-value"))
    assert settled.refusal
    assert settled.refusal.detail.message == "not [secret:token]"
    assert "s3cr3t-value" not in repr(await host.bench.events())


def a_room(host: Asking, most: int) -> None:
    """Let the next entries of the script have so many bytes recorded."""
    limits = dataclasses.replace(host.bench.world.limits, recorded_bytes=most)
    host.bench.world = replace(host.bench.world, limits=limits)


FULL = (
    "the results of one script's host calls are over 1 KiB (limits.recorded_bytes): "
    "ask for less in one call, or fetch with record: false"
)


async def test_a_read_over_the_limit_of_recorded_bytes_is_refused() -> None:
    host = await asking()
    await host.value("task.putState", key="a", value="x" * 500)
    a_room(host, 1024)
    for _ in range(2):
        host.begin()
        for _ in range(2):
            assert await host.value("task.getState", key="a") == "x" * 500
        settled = await host.ask("task.getState", {"key": "a"})
        assert settled.refusal is not None
        assert (settled.refusal.detail.code, settled.refusal.detail.message) == (
            "BUDGET_EXCEEDED",
            FULL,
        )
        assert await host.value("getRuntimeConfig", key="region") == "north"


async def test_outputs_of_tools_count_towards_the_recorded_bytes() -> None:
    async def much(input: Any, invocation: Any) -> Any:
        return {"text": "x" * 1024}

    host = await asking(Act("much", much, effect=Effect.WRITE))
    a_room(host, 1024)
    for _ in range(2):
        host.begin()
        called = await host.value("callTool", tool_id="much", input={})
        assert called["status"] == "success"
        assert await host.refusal("callTool", {"tool_id": "much"}) == "BUDGET_EXCEEDED"
        assert await host.refusal("getRuntimeConfig", {"key": "other"}) == "BUDGET_EXCEEDED"


async def test_outputs_of_steps_count_towards_the_recorded_bytes() -> None:
    host = await asking()
    step = {"key": "s", "version": 1}
    a_room(host, 1024)
    for _ in range(2):
        host.begin()
        started = await host.value("task.step.start", **step)
        if started["status"] == "run":
            await host.value("task.step.settle", **step, output="x" * 2000)
        assert await host.refusal("getRuntimeConfig", {"key": "region"}) == "BUDGET_EXCEEDED"


@pytest.mark.parametrize("value", [b"\xff" * 999, {"status": 200, "body": b"\xff" * 999}])
async def test_bytes_count_by_their_recorded_size(value: Any) -> None:
    host = await asking()
    a_room(host, 1350)
    for name in ("fits", "fits not"):
        recording = recording_of(host)
        path = recording.place(name, {}, Effect.READ)
        recording.count("" if name == "fits" else "x" * 30)
        settled = recording.settle_read(path, name, value)
        assert (settled.refusal is None) == (name == "fits")


@pytest.mark.parametrize(("size", "is_full"), [(1024, False), (1025, True)])
async def test_a_result_at_the_limit_of_recorded_bytes_is_accepted(
    size: int, is_full: bool
) -> None:
    host = await asking()
    a_room(host, 1024)
    recording = recording_of(host)
    recording.count("x" * size)
    path = recording.place("x", {}, Effect.READ)
    if not is_full:
        assert recording.find(path) is None
        return
    with pytest.raises(BudgetExceeded):
        recording.find(path)


async def test_results_of_changes_count_towards_the_recorded_bytes() -> None:
    host = await asking()
    a_room(host, 1024)
    host.begin()
    put = {"scope_kind": "session", "key": "mine.k", "value": 1}
    message = [(await host.ask("state.put", put)).refusal for _ in range(60)]
    (code,) = {each.detail.code for each in message if each is not None}
    assert code == "BUDGET_EXCEEDED"
    assert message[0] is None
