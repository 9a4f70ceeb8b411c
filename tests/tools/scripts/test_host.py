"""What a host says to a script that asks for anything at all."""

from typing import Any

import pytest

from penstock.core.events import NoteEmitted
from penstock.core.limits import Limits
from penstock.core.signals import Suspend
from penstock.testing.invocation import open_workbench
from penstock.tools.scripts.bindings import Bindings
from tests.kit.hosts import Asking, asking
from tests.kit.tools import Act

NO_OBJECT = [None, 1, "x", [], [1], True]
LATER = [
    "task.spawnChildren",
    "dispatcher.claimDueSubjects",
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


@pytest.mark.parametrize("arguments", NO_OBJECT)
async def test_what_is_no_object_is_a_mistake(arguments: Any) -> None:
    host = await asking()
    for name in ALL:
        found = await host.refusal(name, arguments)
        assert found in {"TypeError", "NOT_AVAILABLE"}, name


async def test_nothing_at_all_is_a_mistake_wherever_something_is_wanted() -> None:
    host = await asking()
    for name in ALL:
        assert await host.refusal(name, {}) in {"TypeError", "NOT_AVAILABLE"}, name


@pytest.mark.parametrize("name", LATER)
async def test_what_there_is_not_is_not_available(name: str) -> None:
    host = await asking()
    assert await host.refusal(name, {}) == "NOT_AVAILABLE"
    settled = host.host.answer(name, {})
    assert settled.refusal
    assert settled.refusal.detail.message == f"flo.{name} is not available in this version"


async def test_a_script_that_asks_without_end_is_told_so() -> None:
    bench = await open_workbench(tool := Act("script"), limits=Limits(host_calls=2))
    host = Asking(bench, tool, Bindings())
    assert await host.value("task.getContext")
    assert await host.value("task.getContext")
    assert await host.refusal("task.getContext", {}) == "BUDGET_EXCEEDED"
    assert await host.refusal("nothing", {}) == "BUDGET_EXCEEDED"


async def test_what_is_recorded_counts_once_and_in_later_entries_too() -> None:
    """`host_calls` of all kinds per invocation: throws `BUDGET_EXCEEDED`."""
    bench = await open_workbench(tool := Act("script"), limits=Limits(host_calls=2))
    host = Asking(bench, tool, Bindings())
    for name in "ab":
        await host.value("getRuntimeConfig", key=name)
    host.begin()
    for name in "ab":
        assert await host.value("getRuntimeConfig", key=name) is None
    assert await host.refusal("getRuntimeConfig", {"key": "c"}) == "BUDGET_EXCEEDED"


async def test_arguments_that_nobody_may_have_are_refused_and_a_call_settles_all_the_same() -> None:
    """INVALID_INPUT: input … deeper than 200; `callTool` never rejects for the callee's failure."""
    host = await asking()
    called = host.host.refuse("callTool", "too deep")
    assert called.value["status"] == "validation_error"
    assert called.value["error"]["code"] == "INVALID_INPUT"
    put = host.host.refuse("task.putState", "too deep").refusal
    assert put is not None
    assert (put.name, put.detail.message) == ("TypeError", "too deep")


async def test_a_line_that_was_printed_is_not_printed_again() -> None:
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


async def test_a_further_attempt_prints_what_differs() -> None:
    """L13: what was printed is dropped while nothing new is asked; what was not printed is new."""
    host = await asking(Act("look"))
    for attempt in (1, 2, 1, 2, 3):
        host.begin(attempt)
        for line in ("start", f"attempt {attempt}", f"attempt {attempt}"):
            host.host.print("info", line)
    await host.value("callTool", tool_id="look", input={})
    host.host.print("info", "start")
    printed = [each for each in await host.bench.events() if isinstance(each, NoteEmitted)]
    said = [each.payload["text"] for each in printed]
    assert said == ["start", *(f"attempt {each}" for each in (1, 1, 2, 2, 3, 3)), "start"]


async def test_a_secret_is_taken_out_of_lines_and_warnings() -> None:
    host = await asking()
    await host.value("vault.get", scope="profile", key="token")
    host.host.print("info", "it is s3cr3t-value")
    host.host.warn("script.unhandled_rejection", "Error: s3cr3t-value")
    assert "s3cr3t-value" not in repr(await host.bench.events())
    assert await host.notes("script.unhandled_rejection") == ["Error: [secret:token]"]


async def test_a_script_that_is_over_leaves_no_question_open() -> None:
    host = await asking()
    await host.bench.ledger.held.commit()
    with pytest.raises(Suspend):
        await host.ask("task.waitForUserMessage", {"user_message": "Yes?"})
    assert len(host.bench.questions) == 1
    host.host.end(returned=True)
    assert host.bench.questions == []


async def test_what_nobody_asked_for_again_is_named_once() -> None:
    """L11: "Recorded results nobody asked for again give one warning event that names them"."""
    host = await asking(Act("look"), Act("post"))
    for tool_id in ("look", "post", "post"):
        await host.value("callTool", tool_id=tool_id, input={})
    await host.value("sleep", ms=0)
    host.begin()
    await host.value("callTool", tool_id="look", input={})
    host.host.end(returned=True)
    told = "recorded before, and not asked for again: post, sleep"
    assert await host.notes("script.diverged") == [told]


async def test_a_script_that_asks_for_all_again_has_not_diverged() -> None:
    host = await asking(Act("look"))
    for _ in range(2):
        await host.value("callTool", tool_id="look", input={})
        await host.value("sleep", ms=0)
        host.host.end(returned=True)
        host.begin()
    assert await host.notes("script.diverged") == []
