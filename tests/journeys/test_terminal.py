"""A person at a terminal, with the real command and a real project."""

import http.client
import json
import re
import shlex
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.authoring.init import init
from tests.kit.terminal import CLOCK, PATIENCE, PENSTOCK, Terminal

pytestmark = pytest.mark.programs
TOOLS = '''\
"""Tools of a test."""

import asyncio
import contextlib
import time

from penstock import ToolContext, tool


@tool(effect="write", direct_call=True, requires_approval=True)
def send_letter(to: str) -> dict[str, str]:
    """Send a letter to somebody.

    Args:
        to: Who gets it.
    """
    return {"sent_to": to}


@tool(effect="none", direct_call=True)
async def wait_for_ever(ctx: ToolContext) -> None:
    """Wait until it is cancelled."""
    ctx.emit("waiting")
    await ctx.wait_cancelled()


@tool(effect="write", direct_call=True)
async def stay(ctx: ToolContext) -> None:
    """Wait, whatever anybody wants."""
    ctx.emit("waiting")
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


@tool(effect="write", direct_call=True)
def sleep(ctx: ToolContext) -> None:
    """Block a thread."""
    ctx.emit("waiting")
    time.sleep(60)
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A new project with two tools more."""
    init(tmp_path)
    (tmp_path / "tools" / "letters.py").write_text(TOOLS)
    return tmp_path


def ran(project: Path, *arguments: str, code: int = 0) -> str:
    """Run a command without a terminal; returns what it printed."""
    ended = subprocess.run(
        [*PENSTOCK, *arguments], cwd=project, capture_output=True, text=True, check=False
    )
    assert ended.returncode == code, ended.stderr
    return ended.stdout


def pasted(line: str) -> str:
    """Do what curl would do with this line; returns the body."""
    _, url, _, header, _, body = shlex.split(line)
    host, path = url.removeprefix("http://").split("/", 1)
    connection = http.client.HTTPConnection(host)
    connection.request("POST", f"/{path}", body, dict([header.split(": ")]))
    with closing(connection):
        return connection.getresponse().read().decode()


def opened(text: str) -> str:
    """Do what a browser would do with the address that this text begins with; returns the body."""
    url = text.split(maxsplit=1)[0]
    connection = http.client.HTTPConnection(url.removeprefix("http://").rstrip("/"))
    connection.request("GET", "/")
    with closing(connection):
        return connection.getresponse().read().decode()


REASON = "starts processes"


@pytest.mark.slow(reason=REASON)
def test_a_conversation_at_a_terminal_calls_a_tool(project: Path) -> None:
    """`penstock chat` works with no server."""
    with Terminal("chat", cwd=project) as terminal:
        terminal.until("assistant> ")
        terminal.type('hello {"name": "Ann"}')
        terminal.until("✓ hello: ")
        assert "Hello, Ann!" in terminal.until("assistant> ")
        terminal.leave()
        assert terminal.ended() == 0


@pytest.mark.slow(reason=REASON)
def test_an_approval_is_asked_at_the_prompt(project: Path) -> None:
    """The call runs once it is approved, in the same terminal."""
    with Terminal("chat", 'send_letter {"to": "Ann"}', cwd=project) as terminal:
        asked = terminal.until("answer later> ")
        assert '"to": "Ann"' in asked
        terminal.type("y")
        terminal.until("✓ send_letter: ")
        assert terminal.ended() == 0


@pytest.mark.slow(reason=REASON)
def test_an_input_is_edited_at_the_prompt(project: Path) -> None:
    """The line begins with the input, which the person changes, and not with nothing."""
    command = ("chat", 'send_letter {"to": "Ann"}')
    with Terminal(*command, cwd=project, echoes=True) as terminal:
        terminal.until("answer later> ")
        terminal.type("e")
        terminal.until('as JSON> {"to": "Ann"}')
        terminal.type("\x7f" * 5 + 'Bob"}')
        terminal.until("✓ send_letter: ")
        terminal.until("Bob")
        assert terminal.ended() == 0


@pytest.mark.slow(reason=REASON)
def test_tasks_are_listed_in_a_narrow_terminal(project: Path) -> None:
    ran(project, "chat", "Hello there")
    with Terminal("tasks", "list", cwd=project, columns=60) as terminal:
        shown = terminal.until("1 of 1")
        assert terminal.ended() == 0
    (task,) = json.loads(ran(project, "tasks", "list", "--json"))["tasks"]
    assert task["id"] in shown
    assert re.search(r"title +Hello there", shown)


@pytest.mark.slow(reason=REASON)
def test_a_question_left_open_is_answered_by_another_process(project: Path) -> None:
    with Terminal("chat", 'send_letter {"to": "Ann"}', cwd=project) as terminal:
        terminal.until("answer later> ")
        terminal.leave()
        terminal.until("Waiting for an answer. Run: penstock answer ")
        assert terminal.ended() == 4
    (question,) = json.loads(ran(project, "answer", "--json"))["questions"]
    answered = json.loads(ran(project, "answer", question["id"], "approve", "--json"))
    assert answered["status"] == "succeeded"
    again = ("answer", question["id"], "approve", "--json")
    assert json.loads(ran(project, *again))["question"]["status"] == "answered"
    ran(project, "answer", question["id"], "reject", code=1)


@pytest.mark.slow(reason=REASON)
def test_the_first_ctrl_c_cancels_the_task_and_the_second_exits(project: Path) -> None:
    """Ctrl-C belongs to the task that runs, and only then to the terminal."""
    with Terminal("chat", cwd=project) as terminal:
        terminal.until("assistant> ")
        terminal.type("wait_for_ever {}")
        terminal.until("→ wait_for_ever")
        terminal.interrupt()
        terminal.until("CANCELLED")
        terminal.until("assistant> ")
        assert terminal.interrupt_until_ended() == 130
    (task,) = json.loads(ran(project, "tasks", "list", "--json"))["tasks"]
    assert task["status"] == "cancelled"


def limit(project: Path, **limits: float) -> None:
    """Set limits of the project."""
    with (project / "penstock.toml").open("a") as settings:
        settings.write(
            "\n[limits]\n" + "".join(f"{key} = {each}\n" for key, each in limits.items())
        )


def the_task(project: Path) -> Any:
    """Return the one task that there is."""
    (task,) = json.loads(ran(project, "tasks", "list", "--json"))["tasks"]
    return task


def until_waiting(project: Path) -> str:
    """Wait until the tool of the one task runs; returns the task's id."""
    deadline = CLOCK.monotonic() + PATIENCE
    while CLOCK.monotonic() < deadline:
        tasks = json.loads(ran(project, "tasks", "list", "--json"))["tasks"]
        if tasks and "waiting" in ran(project, "tasks", "events", tasks[0]["id"]):
            return str(tasks[0]["id"])
    raise AssertionError("no tool got to work")


@pytest.mark.slow(reason=REASON)
@pytest.mark.parametrize("tool", ["wait_for_ever", "sleep"])
def test_ctrl_c_cancels_a_direct_call(project: Path, tool: str) -> None:
    """A thread that takes no notice is left behind, in time however busy the machine is."""
    limit(project, cut_seconds=0.2, shutdown_seconds=20)
    with Terminal("call", tool, cwd=project) as terminal:
        until_waiting(project)
        terminal.interrupt()
        terminal.until("Cancelling. Press Ctrl-C again to exit at once.")
        terminal.until("failed: CANCELLED")
        assert terminal.ended() == 130
    assert the_task(project)["status"] == "cancelled"


@pytest.mark.slow(reason=REASON)
@pytest.mark.parametrize("words", [("call", "stay"), ("chat", "stay {}")], ids=["call", "chat"])
def test_a_second_ctrl_c_exits_at_once_and_explains_the_state_of_the_task(
    project: Path, words: tuple[str, ...]
) -> None:
    """The tool is not abandoned before the second one, however busy the machine is."""
    limit(project, cut_seconds=60, shutdown_seconds=60)
    with Terminal(*words, cwd=project) as terminal:
        task_id = until_waiting(project)
        terminal.interrupt()
        terminal.until("Cancelling. ")
        terminal.interrupt()
        terminal.until("The task has not ended yet. A server ends it when it starts, or run: ")
        assert terminal.ended() == 130
        assert f"penstock tasks events {task_id} --follow" in terminal.said
    assert the_task(project)["id"] == task_id
    events = ran(project, "tasks", "events", task_id, "--follow", "--json").splitlines()
    assert json.loads(events[-1])["body"]["status"] == "cancelled"


@pytest.mark.slow(reason=REASON)
def test_ctrl_c_at_the_question_of_a_direct_call_cancels_it(project: Path) -> None:
    with Terminal("call", "send_letter", "to=Ann", cwd=project) as terminal:
        terminal.until("answer later> ")
        assert terminal.interrupt_until_ended() == 130
        assert "failed: CANCELLED" in terminal.said
    assert the_task(project)["status"] == "cancelled"


@pytest.mark.slow(reason=REASON)
def test_a_task_is_cancelled_from_another_process(project: Path) -> None:
    with Terminal("chat", "wait_for_ever {}", cwd=project) as terminal:
        terminal.until("→ wait_for_ever")
        (task,) = json.loads(ran(project, "tasks", "list", "--json"))["tasks"]
        assert task["status"] == "running"
        ran(project, "tasks", "cancel", task["id"])
        terminal.until("CANCELLED")
        assert terminal.ended() == 1
    events = ran(project, "tasks", "events", task["id"], "--follow", "--json").splitlines()
    assert json.loads(events[-1])["body"]["status"] == "cancelled"


@pytest.mark.slow(reason=REASON)
def test_a_direct_call_asks_at_the_terminal_and_suspends_in_a_pipe(project: Path) -> None:
    with Terminal("call", "send_letter", "to=Ann", cwd=project) as terminal:
        terminal.until("answer later> ")
        terminal.type("y")
        terminal.until('"sent_to": "Ann"')
        assert terminal.ended() == 0
    suspended = json.loads(ran(project, "call", "send_letter", "to=Bob", "--json", code=4))
    (question,) = suspended["error"]["details"]["question_ids"]
    rejected = ran(project, "answer", question, "reject", "--note", "too dear", code=1)
    assert "too dear" in rejected


@pytest.mark.slow(reason=REASON)
def test_the_address_and_the_command_that_the_server_prints_work(project: Path) -> None:
    with Terminal("serve", "--port", "0", cwd=project) as terminal:
        terminal.until("  Open ")
        assert opened(terminal.until(" in a browser")).startswith("<!doctype html>")
        terminal.until("  curl ")
        line = terminal.until("\n\n")
        stream = pasted(line)
        assert re.findall(r'"type":"(message_\w+)"', stream) == [
            "message_start",
            "message_complete",
        ]
        terminal.interrupt()
        terminal.until("Stopped.")
        assert terminal.ended() == 0
