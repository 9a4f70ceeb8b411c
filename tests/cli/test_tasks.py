"""`penstock tasks`: list, show, follow, cancel and retry."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.terminal.exit_codes import WAITING
from penstock.core.events.events import CallRequested, Entry, TaskBlocked
from penstock.core.ids import LogId, TaskId
from penstock.core.profile import LOCAL
from penstock.core.task import Missing, MissingKind
from penstock.store.blobs import open_blobs
from penstock.store.database import open_database
from penstock.store.logs.sql_log import SqlLog
from penstock.testing.clock import FakeClock
from tests.kit.flow_server import ASKS, LOOK, laid

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def task(run: Run, run_json: Callable[..., Any]) -> str:
    """A task that has ended."""
    assert run("chat", "Hello")[0] == 0
    return str(run_json("tasks", "list")["tasks"][0]["id"])


def test_tasks_are_listed(run: Run, task: str) -> None:
    code, out, err = run("tasks", "list")
    assert code == 0
    assert out.splitlines()[1].startswith(f"{task}  succeeded  message  assistant")
    assert err == "1 of 1\n"


def test_options_alone_list_tasks_and_a_mistyped_command_stays_one(run: Run, task: str) -> None:
    """`penstock tasks --watch` is `penstock tasks list --watch`."""
    assert run("tasks", "--limit", "1") == run("tasks", "list", "--limit", "1")
    code, _, err = run("tasks", "shwo")
    assert (code, "Did you mean 'show'?" in err) == (2, True)


def test_each_task_has_a_title(project: Path, run: Run) -> None:
    """Runs and calls had no title, so several of them could not be told apart."""
    laid(project, {"look.yaml": LOOK})
    run("chat", "Hello there")
    run("call", "hello", "name=Ann")
    run("flow", "run", "look", "For\nAnn", "--input", "n=3")
    run("flow", "run", "look", "x" * 100)
    titles = [line.partition("Z")[0][-80:] for line in run("tasks", "list")[1].splitlines()[1:]]
    for expected in ('hello {"name": "Ann"}', '/look For Ann {"n": 3}', "Hello there"):
        assert sum(each.rstrip().endswith(expected) for each in titles) == 1, titles
    assert sum(each.rstrip().endswith(f"/look {'x' * 53}…") for each in titles) == 1, titles


@pytest.mark.parametrize("command", [("show",), ("events",), ("cancel",), ("retry",)])
def test_an_unknown_task_is_reported_with_a_next_step(run: Run, command: tuple[str, ...]) -> None:
    code, _, err = run("tasks", *command, "task_x")
    assert code == 1
    assert "There is no task 'task_x'; `penstock tasks list` shows all tasks." in err


def test_a_task_is_shown_with_its_outcome(run_json: Callable[..., Any], task: str) -> None:
    shown = run_json("tasks", "show", task)
    assert (shown["id"], shown["status"], shown["questions"]) == (task, "succeeded", [])
    assert shown["outcome"]["finish_reason"] == "stop"


@pytest.mark.parametrize("options", [(), ("--follow",)])
def test_the_events_of_a_task_are_lines(run: Run, task: str, options: tuple[str, ...]) -> None:
    _, out, _ = run("tasks", "events", task, "--json", *options)
    kinds = [json.loads(line)["kind"] for line in out.splitlines()]
    assert kinds == ["message_received", "task_started", "reply_received", "task_ended"]
    assert len(run("tasks", "events", task, *options)[1].splitlines()) == 4


ASKING = """
from penstock import tool


@tool(requires_approval=True)
def ask() -> str:
    \"\"\"Answer, once a person has agreed.\"\"\"
    return "yes"
"""


def test_a_task_is_followed_past_a_question_that_was_answered(
    project: Path, run: Run, run_json: Callable[..., Any]
) -> None:
    """`--follow`: "Go on until the task ends"; while it waits for a person, nothing is to come."""
    (project / "tools/asking.py").write_text(ASKING)
    assert run("chat", "ask {}")[0] == WAITING
    (task,) = run_json("tasks", "list")["tasks"]
    follow = ("tasks", "events", task["id"], "--follow")
    assert run(*follow)[1].splitlines()[-1].endswith("task_suspended")
    (question,) = run_json("answer")["questions"]
    assert run("answer", question["id"], "approve")[0] == 0
    assert "task_ended" in run(*follow)[1].splitlines()[-1]


def test_an_ended_task_cannot_be_cancelled(run: Run, task: str) -> None:
    code, _, err = run("tasks", "cancel", task)
    assert code == 1
    assert f"'{task}' has ended" in err


def test_a_direct_call_is_in_no_conversation(run: Run, run_json: Callable[..., Any]) -> None:
    assert run("call", "hello", "name=Ann")[0] == 0
    (shown,) = run_json("tasks", "list")["tasks"]
    assert (shown["kind"], shown["conversationId"]) == ("call", None)


def test_an_unknown_task_is_refused_with_a_next_step(run: Run) -> None:
    for command in ("show", "events"):
        assert run("tasks", command, "task_x") == (
            1,
            "",
            "Error: There is no task 'task_x'; `penstock tasks list` shows all tasks.\n",
        )


def test_a_task_that_waits_for_a_run_names_it(
    project: Path, run: Run, run_json: Callable[..., Any]
) -> None:
    laid(project, {"asks.yaml": ASKS})
    assert run("chat", "/asks now")[0] == WAITING
    inner, outer = run_json("tasks", "list")["tasks"]
    shown = run_json("tasks", "show", outer["id"])
    assert (shown["status"], shown["questions"], shown["runs"]) == ("suspended", [], [inner["id"]])
    asked = run_json("tasks", "show", inner["id"])
    assert (len(asked["questions"]), asked["runs"]) == (1, [])
    assert run("answer", asked["questions"][0]["id"], "Stop")[0] == 0
    assert run_json("tasks", "show", outer["id"])["runs"] == []


async def cut_twice(url: str) -> None:
    """Leave a call at which two processes died, and a queued one."""
    database, clock = await open_database(url), FakeClock()
    log = SqlLog(database, open_blobs("memory:///"), clock)
    calls = [
        (LogId(name), CallRequested(tool_id="hello", input={}, profile_id=LOCAL))
        for name in ("a", "b")
    ]
    for log_id, call in calls:
        await log.send(log_id, [Entry(call, TaskId(log_id))])
    for owner in ("first", "second", "third"):
        for log_id, _ in calls:
            await log.acquire(log_id, owner)
        clock.advance(4)
    await database.close()


async def block(url: str) -> None:
    """Leave a call whose tool is missing in the process that resumes it."""
    database = await open_database(url)
    log = SqlLog(database, open_blobs("memory:///"), FakeClock())
    call = CallRequested(tool_id="pay", input={}, profile_id=LOCAL)
    await log.send(LogId("a"), [Entry(call, TaskId("a"))])
    lease = await log.acquire(LogId("a"), "me")
    assert lease
    missing = (Missing(MissingKind.TOOL, "pay"), Missing(MissingKind.MODEL, "big"))
    await log.append(lease, [Entry(TaskBlocked(blocked_on=missing), TaskId("a"))])
    await log.surrender(lease)
    await database.close()


def test_a_blocked_task_shows_what_it_needs(
    project: Path, run: Run, run_json: Callable[..., Any]
) -> None:
    asyncio.run(block(f"sqlite:///{project}/.penstock/penstock.db"))
    _, out, err = run("tasks", "list")
    assert out.splitlines()[1].split()[:2] == ["a", "blocked"]
    assert err.splitlines()[0].startswith(
        "a: the task is blocked: tool 'pay', model 'big' is missing in this process."
    )
    shown = run_json("tasks", "show", "a")
    assert shown["blockedOn"] == [{"kind": "tool", "id": "pay"}, {"kind": "model", "id": "big"}]
    text = "· tasks: a is blocked until a process has tool 'pay', model 'big'"
    text += "; to cancel it: penstock tasks cancel a"
    assert text in run("doctor")[1].splitlines()


def test_a_task_in_quarantine_is_shown_as_such(
    project: Path, run: Run, run_json: Callable[..., Any]
) -> None:
    url = f"sqlite:///{project}/.penstock/penstock.db"
    asyncio.run(cut_twice(url))
    shown = {name: run_json("tasks", "show", name)["quarantine"] for name in ("a", "b")}
    assert shown == {
        "a": {"crashes": 2, "alone": 0, "state": "probation"},
        "b": {"crashes": 2, "alone": 0, "state": "waiting"},
    }
    cause = (
        "the process died 2 times in a row while it ran, 0 times without another suspect running"
    )
    values = [line for line in run("doctor")[1].splitlines() if "quarantined" in line]
    assert values == [
        f"· tasks: a is quarantined: {cause}; it is running under watch",
        f"· tasks: b is quarantined: {cause}; it waits for its turn to run",
    ]


SHOP = '''
from pathlib import Path

from penstock import ToolFailed, tool

@tool(direct_call=True)
def open_shop(path: str) -> str:
    """Fail unless the file exists."""
    if not Path(path).exists():
        raise ToolFailed("the shop is closed")
    return "open"
'''


def test_a_task_that_failed_is_retried_until_it_succeeds(
    project: Path, run: Run, run_json: Callable[..., Any]
) -> None:
    (project / "tools" / "shop.py").write_text(SHOP)
    key = project / "key"
    assert run("call", "open_shop", f"path={key}")[0] == 1
    task = run_json("tasks", "list")["tasks"][0]["id"]
    code, out, err = run("tasks", "retry", task)
    assert (code, out) == (1, f"retry_{task} failed\n")
    key.touch()
    code, out, err = run("tasks", "retry", task, "--resume", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["retryOf"] == task
    assert run("tasks", "retry", task)[:2] == (0, f"retry_{task}.2 succeeded\n")
    code, _, err = run("tasks", "retry", f"retry_{task}.3")
    assert code == 1
    code, _, err = run("tasks", "retry", "task_none")
    assert code == 1
