"""What the shell offers for names and ids of a project."""

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.cli.main import main

Run = Callable[..., tuple[int, str, str]]
Offers = Callable[..., list[str]]


@pytest.fixture
def offers(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Offers:
    """Ask for completions as a shell does; the last word is incomplete."""

    def offers(*words: str) -> list[str]:
        with monkeypatch.context() as shell:
            shell.chdir(project)
            shell.setenv("_PENSTOCK_COMPLETE", "complete_bash")
            shell.setenv("COMP_WORDS", " ".join(("penstock", *words)))
            shell.setenv("COMP_CWORD", str(len(words)))
            main([])
        out, err = capsys.readouterr()
        assert err == ""
        return out.split()

    return offers


ASK = """
from penstock import ToolContext, tool

@tool(effect="none", direct_call=True)
async def ask(ctx: ToolContext) -> str:
    '''Ask who.'''
    return await ctx.ask("Who?")
"""
FLOW = """
name: greeting
description: Asks first.
steps:
  - {id: pick, question: "Greet?", branches: {Yes: hi, "Not now": bye}}
  - {id: hi, agent: assistant, task: "Greet", end: true}
  - {id: bye, agent: assistant, task: "Leave"}
"""
MAIL = """
from penstock import tool

@tool(effect="write", direct_call=True, requires_approval=True)
def mail(to: str) -> str:
    '''Send.'''
    return to
"""
NAMES = [
    (("call", "he"), ["hello"]),
    (("debug", "he"), ["hello"]),
    (("call", "read_"), []),
    (("call", "hello", ""), ["name="]),
    (("call", "nothing", ""), []),
    (("tools", "show", "read_text"), ["read_text_file"]),
    (("tools", "grants", "hel"), ["hello"]),
    (("run-tool", "hel"), ["hello"]),
    (("chat", "--agent", ""), ["assistant"]),
    (("flow", "run", "gr"), ["greeting"]),
    (("flow", "show", "nothing"), []),
    (("flow", "check", "gree"), ["greeting"]),
    (("flow", "result", ""), []),
    (("chat", "--skill", "read_cs"), ["read_csv"]),
    (("chat", "--ag"), ["--agent"]),
    (("tasks", "list", "--l"), ["--limit"]),
    (("tasks", "show", ""), []),
    (("answer", ""), []),
]


@pytest.mark.parametrize(("words", "names"), NAMES)
def test_names_are_those_of_the_project(
    project: Path, offers: Offers, words: tuple[str, ...], names: list[str]
) -> None:
    (project / "flows").mkdir()
    (project / "flows/greeting.yaml").write_text(FLOW)
    assert offers(*words) == names


def test_ids_come_from_the_store(run: Run, run_json: Callable[..., str], offers: Offers) -> None:
    assert run("call", "hello", "name=Ann")[0] == 0
    (task,) = offers("tasks", "show", "task_")
    assert run("tasks", "show", task)[0] == 0
    assert offers("tasks", "show", "conv_") == []


def test_sessions_are_offered_to_go_on_with(run: Run, offers: Offers) -> None:
    assert run("chat", "Hello")[0] == 0
    (session,) = offers("chat", "--session", "conv_")
    assert run("chat", "Hello", "--session", session)[0] == 0


def test_a_question_that_is_open_is_offered(project: Path, run: Run, offers: Offers) -> None:
    (project / "tools" / "ask.py").write_text(ASK)
    assert run("call", "ask")[0] == 4
    (question,) = offers("answer", "q_")
    assert run("answer", question, "Ann")[0] == 0
    assert offers("answer", "q_") == []


def test_output_of_a_broken_project_does_not_reach_the_prompt(
    project: Path, offers: Offers
) -> None:
    (project / "tools" / "loud.py").write_text("print('loud')\nraise ValueError\n")
    assert offers("call", "") == ["hello"]
    (project / "penstock.toml").write_text("broken")
    assert offers("call", "") == []
    assert offers("tasks", "show", "") == []


def test_to_look_makes_no_store(project: Path, offers: Offers) -> None:
    assert offers("tasks", "show", "") == []
    assert not (project / ".penstock").exists()


@pytest.mark.slow("opens a store for each command")
def test_runs_their_questions_and_the_answers_to_these_are_offered(
    project: Path, run: Run, offers: Offers
) -> None:
    (project / "flows").mkdir()
    (project / "flows/greeting.yaml").write_text(FLOW)
    assert run("flow", "run", "greeting")[0] == 4
    (started,) = offers("flow", "abort", "task_")
    (question,) = offers("answer", "q_")
    assert offers("answer", question, "Y") == ["Yes"]
    assert offers("answer", "q_none", "") == []
    assert run("flow", "abort", started)[0] == 0


def test_an_approval_offers_its_two_answers(project: Path, run: Run, offers: Offers) -> None:
    (project / "tools/mail.py").write_text(MAIL)
    assert run("call", "mail", "to=Ann")[0] == 4
    (question,) = offers("answer", "q_")
    assert offers("answer", question, "") == ["approve", "reject"]
