"""`penstock chat`: messages, commands and questions at a terminal."""

import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.terminal.exit_codes import FAILED, WAITING, WRONG_USAGE
from tests.kit import sample_files
from tests.kit.flow_server import ASKS, LOOK, laid
from tests.kit.terminal import Terminal

pytestmark = pytest.mark.programs

Run = Callable[..., tuple[int, str, str]]


def test_one_message_is_sent_and_answered(run: Run) -> None:
    code, out, _ = run("chat", "hello name=Ann")
    assert code == 0
    assert '→ hello {"name": "Ann"}\n✓ hello: ' in out
    assert "Hello, Ann!" in out


def test_frames_are_lines_of_json_for_programs(run: Run) -> None:
    _, out, _ = run("chat", "Hello", "--json")
    frames = [json.loads(line) for line in out.splitlines()]
    assert frames[0]["type"] == "message_start"
    assert frames[-1]["type"] == "message_complete"
    text = "".join(each["delta"] for each in frames if each["type"] == "content_delta")
    assert text == frames[-1]["content"]


def test_a_message_can_come_through_a_pipe(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Hello\n"))
    assert run("chat")[0] == 0


def test_a_conversation_continues(run: Run, run_json: Callable[..., Any]) -> None:
    for options in ((), ("--continue",)):
        run("chat", "Hello", *options)
    sessions = {task["conversationId"] for task in run_json("tasks", "list")["tasks"]}
    assert len(sessions) == 1
    run("chat", "Hello", "--session", *sessions)
    assert run_json("tasks", "list")["total"] == 3


def test_files_are_sent_with_the_first_message(
    run: Run, run_json: Callable[..., Any], tmp_path: Path
) -> None:
    files = [tmp_path / name for name in ("a.csv", "b.png")]
    files[0].write_text("a,b\n")
    files[1].write_bytes(sample_files.image())
    code, _, _ = run("chat", "Look", "--attach", str(files[0]), "--attach", str(files[1]))
    assert code == 0
    (task,) = run_json("tasks", "list")["tasks"]
    _, out, _ = run("tasks", "events", task["id"], "--json")
    sent = json.loads(out.splitlines()[0])["body"]["attachments"]
    assert [(each["name"], each["mime_type"]) for each in sent] == [
        ("a.csv", "text/csv"),
        ("b.png", "image/png"),
    ]


def test_a_file_that_cannot_be_sent_is_named(run: Run, tmp_path: Path) -> None:
    empty = tmp_path / "a.png"
    assert run("chat", "Look", "--attach", str(empty))[0] == WRONG_USAGE
    empty.touch()
    code, _, err = run("chat", "Look", "--attach", str(empty))
    assert (code, "--attach/0: has 0 bytes" in err) == (FAILED, True)


ASK_TWICE = '''
"""Asks."""
from penstock import ToolContext, tool


@tool(effect="none")
async def plan_day(ctx: ToolContext, day: str) -> str:
    """Plan a day."""
    return await ctx.ask(f"What on {day}?")
'''


def test_a_conversation_with_two_open_questions_continues(project: Path, run: Run) -> None:
    (project / "tools" / "plans.py").write_text(ASK_TWICE)
    both = "plan_day day=Monday, then plan_day day=Tuesday"
    assert run("chat", both)[0] == WAITING
    code, out, _ = run("chat", "--continue", "Swim")
    assert code == WAITING
    assert "What on Tuesday?" in out
    assert run("chat", "--continue", "Rest")[0] == 0


@pytest.mark.slow(reason="loads the script engine")
def test_the_command_that_a_new_skill_suggests_works(run: Run) -> None:
    _, out, _ = run("new", "skill", "greeter")
    assert 'penstock chat --skill greeter "Greet Ann"' in out
    greet = "greeter_greet name=Ann"
    assert "✓ greeter_greet" not in run("chat", greet)[1]
    code, out, _ = run("chat", "--skill", "greeter", greet)
    assert (code, "✓ greeter_greet" in out) == (0, True)


def test_a_skill_that_cannot_be_selected_is_wrong_usage(run: Run) -> None:
    code, out, err = run("chat", "Hello", "--skill", "read_dri")
    assert (code, out) == (2, "")
    assert "no skill 'read_dri'. Did you mean 'read_dir'?" in " ".join(err.split())


REFUSED = [
    (("--agent", "asistant"), "There is no agent 'asistant'. Did you mean 'assistant'?"),
    (("--continue",), "there is no session with 'assistant' yet; omit --continue to start one"),
    (("--session", "conv_x"), "conv_x"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_an_unknown_agent_or_session_is_reported(
    run: Run, options: tuple[str, ...], message: str
) -> None:
    code, out, err = run("chat", "Hello", *options)
    assert (code, out) == (1, "")
    assert message in err


def test_an_empty_message_is_refused(run: Run) -> None:
    code, _, err = run("chat", " ")
    assert code == 1
    assert "/content: must not be blank" in err


def test_slash_commands_apply_to_the_conversation(run: Run) -> None:
    code, out, _ = run("chat", "/call hello name=Ann")
    assert code == 0
    assert '→ hello {"name": "Ann"}\n✓ hello: ' in out
    assert '"greeting": "Hello, Ann!"' in out
    assert "Unknown command" in run("chat", "/foo")[1]


@pytest.mark.slow("starts the command in a terminal")
def test_commands_and_flows_are_completed_in_a_conversation(project: Path) -> None:
    (project / "flows").mkdir(exist_ok=True)
    (project / "flows" / "guided.yaml").write_text("name: guided\nsteps: []\n")
    with Terminal("chat", cwd=project, echoes=True) as terminal:
        terminal.until("assistant> ")
        terminal.press("/gui\t")
        terminal.until("/guided ")
        terminal.press("\x15/call hel\t")
        terminal.until("/call hello ")
        terminal.press("name=Ann\n")
        terminal.until("Hello, Ann!")
        terminal.until("assistant> ")
        terminal.leave()
        assert terminal.ended() == 0


BESIDE = '''
from penstock import ToolContext, tool

@tool(effect="none")
def hold(gate: str) -> str:
    """Wait until somebody writes into a pipe."""
    with open(gate) as pipe:
        return pipe.read()

@tool(effect="none")
async def pick(ctx: ToolContext) -> str:
    """Ask for a colour."""
    return str(await ctx.ask("Which colour?", options=["red", "green"]))
'''


@pytest.fixture
def gate(project: Path) -> Path:
    """A pipe that blocks a tool until the test writes into it."""
    (project / "tools" / "beside.py").write_text(BESIDE)
    os.mkfifo(gate := project / "gate")
    return gate


@pytest.mark.slow("starts the command in a terminal")
def test_a_question_is_asked_while_another_call_works(project: Path, gate: Path) -> None:
    """Earlier it was asked only after the other call had ended."""
    with Terminal("chat", f"pick, then hold gate={gate}", cwd=project, echoes=True) as terminal:
        terminal.until("? Which colour?")
        terminal.until("answer> ")
        terminal.press("re\n")
        terminal.until("answer must be one of: red, green")
        terminal.until("answer> ")
        terminal.press("g\t\n")
        terminal.until("green")
        gate.write_text("done")
        terminal.until("✓ hold")
        terminal.until("green")
        assert terminal.ended() == 0


@pytest.mark.slow("starts the command in a terminal")
def test_a_question_of_a_run_is_asked_while_another_call_works(project: Path, gate: Path) -> None:
    laid(project, {"look.yaml": LOOK, "asks.yaml": ASKS})
    (project / "agents" / "assistant.md").write_text(
        "---\nname: assistant\ndescription: d\ntools: execute_workflow, hold\n---\nHelp.\n"
    )
    message = f"execute_workflow workflowId=asks, then hold gate={gate}"
    with Terminal("chat", message, cwd=project) as terminal:
        terminal.until("? Go on?")
        terminal.until("/cancel> ")
        terminal.type("Stop")
        gate.write_text("done")
        terminal.until("✓ execute_workflow")
        assert terminal.ended() == 0


@pytest.mark.slow("starts the command in a terminal")
def test_postponing_a_question_does_not_stop_the_other_call(project: Path, gate: Path) -> None:
    with Terminal("chat", f"pick, then hold gate={gate}", cwd=project) as terminal:
        terminal.until("answer> ")
        terminal.leave()
        terminal.until("Waiting for an answer. Run: penstock answer q_")
        gate.write_text("done")
        terminal.until("✓ hold")
        assert terminal.ended() == WAITING


@pytest.mark.slow("starts the command in a terminal")
def test_a_prompt_ends_when_its_question_is_answered_elsewhere(project: Path, run: Run) -> None:
    (project / "tools" / "beside.py").write_text(BESIDE)
    with Terminal("chat", "pick", cwd=project) as terminal:
        terminal.until("answer> ")
        terminal.press("gr")
        (question,) = json.loads(run("answer", "--json")[1])["questions"]
        run("answer", question["id"], "red")
        terminal.until("the question was answered elsewhere, or withdrawn")
        terminal.until("red")
        assert terminal.ended() == 0


HANDS_OFF = "---\nname: {}\ndescription: d\ntools: []\nhandoffs: [{}]\n---\n"


@pytest.mark.slow("starts the command in a terminal")
def test_a_hand_off_is_shown_and_undone_in_a_conversation(project: Path) -> None:
    (project / "agents").mkdir(exist_ok=True)
    for name, other in (("triage", "billing"), ("billing", "triage")):
        (project / "agents" / f"{name}.md").write_text(HANDS_OFF.format(name, other))
    with Terminal("chat", "--agent", "triage", cwd=project, echoes=True) as terminal:
        terminal.until("triage> ")
        terminal.press("/back\n")
        terminal.until("Nothing was handed off")
        terminal.press("transfer_to_billing\n")
        terminal.until("⇢ billing answers from here on")
        terminal.until("tokens")
        terminal.press("/back\n")
        terminal.until("triage answers the next message.")
        terminal.press("Hello\n")
        terminal.until("⇢ The agent that this conversation started with answers from here on")
        terminal.press("/exit\n")
        assert terminal.ended() == 0
