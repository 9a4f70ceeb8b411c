"""Steps as the host stores them."""

from typing import Any

import pytest

from penstock.core.call import Effect
from penstock.core.events.events import StateWritten
from penstock.core.ids import LogId
from penstock.tools.scripts.host_steps import given_up
from tests.kit.hosts import Asking, asking
from tests.kit.tools import Act, echo

START, SETTLE = "task.step.start", "task.step.settle"
STEP = {"key": "k", "version": 1, "input": {"n": 1}}
BAD: list[dict[str, Any]] = [
    {"key": ""},
    {"key": 1},
    {"version": 0},
    {"version": -1},
    {"version": True},
    {"version": ""},
    {"version": None},
    {"version": 1.5},
    {"input_schema": {"type": "nothing"}},
    {"input_schema": {"type": "string"}},
    {"retry": []},
    {"retry": {"max_attempts": 0}},
    {"retry": {"max_attempts": 11}},
    {"retry": {"max_attempts": "3"}},
    {"retry": {"initial_backoff_ms": -1}},
]
TWICE = {"retry": {"max_attempts": 2, "initial_backoff_ms": 100}}
BOOM = {"name": "Error", "message": "boom"}


@pytest.mark.parametrize("wrong", BAD)
async def test_a_malformed_step_is_refused_and_opens_none(wrong: dict[str, Any]) -> None:
    host = await asking()
    assert await host.refusal(START, STEP | wrong) == "TypeError"
    assert (await host.value(START, **(STEP | {"key": "other"})))["status"] == "run"


async def test_a_step_is_settled_once() -> None:
    host = await asking()
    started = await host.value(START, **STEP)
    assert (started["status"], started["attempt"]) == ("run", 1)
    done = await host.value(SETTLE, **STEP, attempt=1, output=[1])
    assert done == {"status": "settled", "output": [1]}
    assert await host.value(START, **STEP) == done
    host.begin()
    again = await host.ask(START, STEP)
    assert again.value == done
    assert again.order is not None


async def test_a_step_settled_in_an_earlier_entry_is_not_a_divergence() -> None:
    host = await asking()
    await host.value("sleep", ms=0)
    host.begin()
    await host.value("sleep", ms=0)
    await host.value(START, **STEP)
    await host.value(SETTLE, **STEP, output=1)
    host.host.end(returned=True)
    assert await host.notes("script.diverged") == []


async def test_a_step_that_is_not_open_cannot_be_settled() -> None:
    host = await asking()
    assert await host.refusal(SETTLE, STEP | {"output": 1}) == "TypeError"
    await host.value(START, **STEP)
    assert await host.refusal(SETTLE, STEP | {"key": "other", "output": 1}) == "TypeError"


@pytest.mark.parametrize(
    "more", [{"input": 2}, {"retry": {"max_attempts": 2}}, {"output_schema": {}}]
)
async def test_a_step_with_other_arguments_is_refused(more: dict[str, Any]) -> None:
    host = await asking()
    await host.value(START, **STEP)
    await host.value(SETTLE, **STEP, output=1)
    settled = await host.ask(START, STEP | more)
    assert settled.refusal
    message = 'step "k" version 1 was used with other arguments'
    assert settled.refusal.detail.message == message


@pytest.mark.parametrize("other", [{"version": "1"}, {"version": 2}, {"key": "k@1"}])
async def test_other_names_are_other_steps(other: dict[str, Any]) -> None:
    host = await asking()
    await host.value(START, **STEP)
    await host.value(SETTLE, **STEP, output=1)
    assert (await host.value(START, **(STEP | other)))["status"] == "run"


async def failed_twice(host: Asking) -> None:
    await host.value(START, **STEP, **TWICE)
    retry = await host.value(SETTLE, **STEP, error=BOOM)
    assert retry == {"status": "retry", "attempt": 2, "wait_ms": 100}
    assert await host.value(SETTLE, **STEP, error=BOOM) == {"status": "failed", "error": BOOM}


async def test_a_failed_step_fails_again_in_a_later_entry() -> None:
    host = await asking()
    await failed_twice(host)
    host.begin()
    result = await host.value(START, **STEP, **TWICE)
    assert result == {"status": "failed", "error": BOOM}


async def test_a_failure_is_on_its_way_to_the_disk_before_the_retry() -> None:
    """Else a process that is killed in the retry counts the failed attempt again."""
    host = await asking()
    await host.value(START, **STEP, **TWICE)
    await host.value(SETTLE, **STEP, error=BOOM)
    task_id = host.bench.ledger.task.task_id
    stored = [each.event for each in await host.bench.log.read(LogId(task_id))]
    step = [each.value for each in stored if isinstance(each, StateWritten)][-1]
    assert step["failures"] == 1


async def test_a_failed_step_runs_again_in_a_further_attempt() -> None:
    host = await asking()
    await failed_twice(host)
    host.begin(attempt=2)
    assert (await host.value(START, **STEP, **TWICE))["attempt"] == 1


async def test_a_bad_output_counts_as_a_failure() -> None:
    host = await asking()
    schema = {"output_schema": {"type": "string"}}
    await host.value(START, **STEP, **schema)
    result = await host.value(SETTLE, **STEP, output=1)
    assert (result["status"], result["error"]["name"]) == ("failed", "TypeError")
    assert "output of step" in result["error"]["message"]


async def test_a_task_runs_one_step_at_a_time() -> None:
    host = await asking()
    other = Asking(host.bench, Act("other"), host.bindings)
    await host.value(START, **STEP)
    assert await other.refusal(START, STEP | {"key": "b"}) == "TypeError"
    host.host.close()
    assert (await other.value(START, **(STEP | {"key": "b"})))["status"] == "run"


async def test_a_retry_of_a_step_reuses_successful_writes() -> None:
    """L9, of `step` retries: "everything else runs again"."""
    look, post = Act("look", echo), Act("post", echo, effect=Effect.WRITE)
    host = await asking(look, post)
    await host.value(START, **STEP, **TWICE)
    for attempt in (1, 2):
        for tool_id in ("look", "post"):
            await host.value("callTool", tool_id=tool_id, input={})
        if attempt == 1:
            await host.value(SETTLE, **STEP, error=BOOM)
    assert (len(look.runs), len(post.runs)) == (2, 1)


async def test_secrets_are_not_stored_in_a_step() -> None:
    host = await asking()
    await host.value("vault.get", scope="profile", key="token")
    await host.value(START, key="k", version=1, input="s3cr3t-value")
    result = await host.value(SETTLE, key="k", version=1, output="s3cr3t-value")
    assert result["output"] == "[secret:token]"
    assert "s3cr3t-value" not in repr(await host.bench.events())


@pytest.mark.parametrize("wrong", [{"key": "s3cr3t-value"}, {"version": "s3cr3t-value"}])
async def test_a_step_named_by_a_secret_is_refused(wrong: dict[str, Any]) -> None:
    host = await asking()
    await host.value("vault.get", scope="profile", key="token")
    step = {"key": "a", "version": 1, "input": {}} | wrong
    assert await host.refusal("task.step.start", step) == "STATE_DENIED"
    assert "s3cr3t-value" not in repr(await host.bench.events())


async def test_an_error_names_the_step_by_key_and_version() -> None:
    host = await asking()
    named = {"key": 'in"voice', "version": "v2"}
    wrong = await host.ask(START, {**named, "input": 1, "input_schema": {"type": "string"}})
    assert wrong.refusal is not None
    assert wrong.refusal.detail.message.startswith('input of step "in\\"voice" version v2 is not')
    await host.value(START, **STEP)
    inside = await host.ask(START, named)
    assert inside.refusal is not None
    message = (
        'step "in\\"voice" version v2: another step is open; a task runs one step at a time, '
        "and none inside another"
    )
    assert inside.refusal.detail.message == message


async def test_host_calls_inside_a_settled_step_are_not_missed() -> None:
    host = await asking(Act("look"))
    await host.value(START, **STEP)
    await host.value("callTool", tool_id="look", input={})
    await host.value(SETTLE, **STEP, output=1)
    host.host.close()
    host.begin()
    assert (await host.value(START, **STEP))["status"] == "settled"
    host.host.end(returned=True)
    assert await host.notes("script.diverged") == []


@pytest.mark.parametrize(("length", "kept"), [(2_000, 2_000), (2_001, 2_000)])
async def test_the_message_of_a_failure_is_cut_to_two_thousand_characters(
    length: int, kept: int
) -> None:
    host = await asking()
    await host.value(START, **STEP)
    await host.value(SETTLE, **STEP, error={"message": "x" * length})
    host.host.close()
    again = await host.value(START, **STEP)
    assert again["error"] == {"name": "Error", "message": "x" * kept}


async def test_a_failure_without_a_message_gets_one() -> None:
    host = await asking()
    await host.value(START, **STEP)
    await host.value(SETTLE, **STEP, error={})
    host.host.close()
    assert (await host.value(START, **STEP))["error"]["message"] == "the step failed"


@pytest.mark.parametrize(
    ("thrown", "kept"),
    [
        ({"name": "x" * 300, "message": ""}, {"name": "x" * 200, "message": ""}),
        ({"name": 1, "message": 1}, {"name": "Error", "message": "the step failed"}),
        ("boom", {"name": "Error", "message": "the step failed"}),
        (BOOM | {"stack": "at run", "code": "NO"}, BOOM),
        (BOOM | {"kind": "mine", "code": "NO"}, BOOM),
        (
            BOOM | {"kind": "tool", "code": "NO", "retryable": 1, "details": "x" * 65 * 1024},
            BOOM | {"kind": "tool", "code": "NO", "retryable": False, "continuable": False},
        ),
        (
            BOOM | {"kind": "flo", "code": "NO", "continuable": True, "details": None},
            BOOM
            | {"kind": "flo", "code": "NO", "retryable": False, "continuable": True}
            | {"details": None},
        ),
    ],
)
async def test_later_entries_get_the_error_that_the_first_one_got(
    thrown: Any, kept: dict[str, Any]
) -> None:
    host = await asking()
    await host.value(START, **STEP)
    first = await host.value(SETTLE, **STEP, error=thrown)
    assert first == {"status": "failed", "error": kept}
    host.begin()
    assert await host.value(START, **STEP) == first


def test_a_failure_that_an_older_version_stored_is_a_type_error() -> None:
    error = {"name": "TypeError", "message": "boom"}
    step = {"failed": {"problem": "boom"}}
    assert given_up(step) == {"status": "failed", "error": error}
