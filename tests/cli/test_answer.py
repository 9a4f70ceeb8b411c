"""`penstock answer`: open questions and their answers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.terminal.exit_codes import WAITING
from tests.kit.flow_server import laid
from tests.kit.flows import HEAD

Run = Callable[..., tuple[int, str, str]]


def test_answer_reports_that_no_question_is_open(run: Run, run_json: Callable[..., Any]) -> None:
    assert run("answer")[2] == "no open questions\n"
    assert run_json("answer") == {"questions": [], "total": 0}


def test_an_unknown_question_is_refused_with_a_next_step(run: Run) -> None:
    assert run("answer", "q_x", "approve") == (
        1,
        "",
        "Error: There is no question 'q_x'; `penstock answer` lists the open ones.\n",
    )


SCRIPT = """
export async function run() {
  const said = await flo.task.waitForUserMessage({ user_message: "Which month?" });
  return said;
}
"""
MANIFEST = """
name: ask_month
description: Ask for a month.
direct_call: true
input_schema: {type: object}
execution: {type: script, script_file: ask_month.mts}
"""


@pytest.mark.slow(reason="loads the script engine")
def test_an_answer_to_a_script_can_have_data(
    project: Path, run: Run, run_json: Callable[..., Any]
) -> None:
    (project / "ask_month.tool.yaml").write_text(MANIFEST)
    (project / "ask_month.mts").write_text(SCRIPT)
    assert run("call", "ask_month", "--json")[0] == 4
    (question,) = run_json("answer")["questions"]
    code, out, _ = run("answer", question["id"], "May", "--input", '{"pages": 3}', "--json")
    assert code == 0
    assert json.loads(out)["result"]["output"] == {
        "resume_reason": "user_message",
        "user_message": "May",
        "resume_payload": {"pages": 3},
    }


MAIL = '''
"""Sends mails."""
from penstock import tool


@tool(effect="write", direct_call=True, requires_approval=True)
def mail(to: str) -> str:
    """Send a mail."""
    return to
'''


def test_approvals_with_equal_texts_show_their_inputs(project: Path, run: Run) -> None:
    """A question of kind `approval` has tool id, description and redacted input (§7)."""
    (project / "tools" / "mail.py").write_text(MAIL)
    assert [run("call", "mail", f"to={name}")[0] for name in ("Ann", "Bob")] == [4, 4]
    _, out, _ = run("answer")
    lines = out.splitlines()
    assert lines[0].split() == ["question", "kind", "for", "agent", "input", "text"]
    assert sorted(line.split()[3:7] for line in lines[1:]) == [
        ["mail", '{"to":', '"Ann"}', "Run"],
        ["mail", '{"to":', '"Bob"}', "Run"],
    ]
    assert all(line.split()[2].startswith("task_") for line in lines[1:])


def test_a_waiting_call_shows_its_question_and_how_to_answer(project: Path, run: Run) -> None:
    (project / "tools" / "mail.py").write_text(MAIL)
    code, out, err = run("call", "mail", "to=Ann")
    assert code == 4
    question = out.split()[-1]
    assert err == (
        '? Run "mail"? Send a mail.\n'
        '  mail {"to": "Ann"}\n'
        f"answer it: penstock answer {question} approve\n"
        f"       or: penstock answer {question} reject\n"
    )


def test_an_edit_without_an_input_approves_nothing(project: Path, run: Run) -> None:
    (project / "tools" / "mail.py").write_text(MAIL)
    question = run("call", "mail", "to=Ann")[1].split()[-1]
    code, _, err = run("answer", question, "edit")
    assert code == 2
    assert "edit needs the input to run instead: --input JSON" in err
    wrong, _, err = run("answer", question, "edit", "--input", '{"to": ' + "[" * 100_000)
    assert (wrong, "--input is too deeply nested JSON" in err) == (2, True)
    code, out, _ = run("answer", question, "edit", "--input", '{"to": "Bob"}', "--json")
    assert code == 0
    assert json.loads(out)["result"]["output"] == "Bob"


FORK = (
    HEAD
    + """steps:
  - {id: pick, question: "Which?", branches: {Go: tell, Stop: tell}, agent: quiet}
  - {id: tell, agent: quiet, task: "${{fork.pick.notes}}"}
"""
)
QUIET = "---\nname: quiet\ndescription: d\ninteractive: false\n---\nChoose.\n"


@pytest.fixture
def fork(project: Path, run: Run) -> str:
    """Return the question of a run that waits at its fork."""
    laid(project, {"pick.yaml": FORK})
    (project / "agents/quiet.md").write_text(QUIET)
    err = run("flow", "run", "pick")[2]
    return next(word for word in err.split() if word.startswith("q_"))


@pytest.mark.slow(reason="opens a store for each command")
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["Go", "--note", "as it is"], 0, '"notes": "as it is"'),
        (["--cancel"], 1, "cancelled at fork pick"),
        (["Go", "--decide"], 2, "not several"),
        (["--decide", "--cancel"], 2, "not several"),
        (["--decide", "--note", "n"], 2, "--note needs an ANSWER"),
    ],
)
def test_a_fork_takes_notes_and_can_be_cancelled(
    fork: str, run: Run, arguments: list[str], code: int, message: str
) -> None:
    """14.2, fork: "`notes` ≤ 10,000"; "`{cancel: true}`: run aborted"."""
    ended, out, err = run("flow", "answer", fork, *arguments)
    assert (ended, message in out + err) == (code, True), out + err


@pytest.mark.slow(reason="opens a store for each command")
def test_a_person_at_a_fork_delegates_to_the_agent(fork: str, run: Run) -> None:
    """14.2, fork: "`{decide: true}` when the step names an agent"."""
    ended, out, _ = run("answer", fork, "--decide")
    assert (ended, '"notes": "I choose ' in out) == (0, True), out


@pytest.mark.slow(reason="opens a store for each command")
def test_a_chat_that_waited_for_the_answered_run_finishes(
    project: Path, run: Run, run_json: Callable[..., Any]
) -> None:
    laid(project)
    assert run("chat", "execute_workflow workflowId=dom:asks")[0] == WAITING
    (question,) = run_json("answer")["questions"]
    code, _, err = run("answer", question["id"], "Go")
    assert (code, "waited for it: succeeded" in err) == (0, True), err
    tasks = run_json("tasks", "list")["tasks"]
    assert {(each["kind"], each["status"]) for each in tasks} == {
        ("flow", "succeeded"),
        ("message", "succeeded"),
    }
