"""Completion: names and ids of a project in a shell, commands and answers at prompts."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.cli.completion import Words, answer_completer, command_completer, how_to_answer
from penstock.cli.main import main
from penstock.core.call import CallPath
from penstock.core.clock import Moment
from penstock.core.ids import LogId, ProfileId, QuestionId, TaskId
from penstock.core.task import Option, Question, QuestionKind, QuestionRecord

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


def test_sessions_are_offered_to_continue(run: Run, offers: Offers) -> None:
    assert run("chat", "Hello")[0] == 0
    (session,) = offers("chat", "--session", "conv_")
    assert run("chat", "Hello", "--session", session)[0] == 0


def test_open_questions_are_offered(project: Path, run: Run, offers: Offers) -> None:
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


def test_completion_creates_no_store(project: Path, offers: Offers) -> None:
    assert offers("tasks", "show", "") == []
    assert not (project / ".penstock").exists()


@pytest.mark.slow("opens a store for each command")
def test_runs_questions_and_answers_are_offered(project: Path, run: Run, offers: Offers) -> None:
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


WORDS: Words = {
    "/call": lambda: ["order_status", "order_cancel", "hello"],
    "/model": lambda: ["fast"],
    "/new": tuple,
}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/", ["/call ", "/model ", "/new "]),
        ("/c", ["/call "]),
        ("/call", ["/call "]),
        ("/call ", ["/call hello ", "/call order_cancel ", "/call order_status "]),
        ("/call ord", ["/call order_cancel ", "/call order_status "]),
        ("/call hello na", []),
        ("/model f", ["/model fast "]),
        ("/new ", []),
        ("/other x", []),
        ("//", []),
        ("", []),
        ("call", []),
    ],
)
def test_commands_and_their_words_are_completed(line: str, expected: list[str]) -> None:
    assert list(command_completer(WORDS)(line)) == expected


def option(value: str, label: str = "") -> dict[str, str]:
    return {"value": value, "label": label or value}


PLACES = [option("Tokyo"), option("Quick fix"), option("a\nb"), option("\x1b[2J"), option("-x")]
LABELLED = [option("go", "Go on"), option("stop", "Halt")]


@pytest.mark.parametrize(
    ("question", "ways", "line", "expected"),
    [
        ({"options": PLACES}, (), "", ["Tokyo", "Quick fix", "-x"]),
        ({"options": PLACES}, (), "q", ["Quick fix"]),
        ({"options": PLACES}, (), "Quick f", ["Quick fix"]),
        ({"options": PLACES}, (), "z", []),
        ({"options": PLACES}, ("/cancel",), "/", ["/cancel"]),
        ({"options": PLACES}, ("/cancel",), "t", ["Tokyo"]),
        ({"options": LABELLED}, (), "g", ["Go on"]),
        ({"options": LABELLED}, (), "s", ["stop"]),
        ({"options": LABELLED, "form": {"multiSelect": True}}, (), "go, h", ["go, Halt"]),
        ({"options": LABELLED, "form": {"multiSelect": True}}, (), "1,", ["1,Go on", "1,Halt"]),
        ({"form": {"type": "confirm"}}, (), "", ["yes", "no"]),
        ({"form": {"type": "input"}}, (), "", []),
        ({"kind": "approval"}, (), "", ["yes", "no", "edit"]),
        ({"kind": "approval"}, (), "e", ["edit"]),
    ],
)
def test_an_answer_is_completed_as_a_whole_line(
    question: dict[str, Any], ways: tuple[str, ...], line: str, expected: list[str]
) -> None:
    """An option that no line can hold is left out; its number answers."""
    complete = answer_completer({"kind": "ask_user"} | question, ways)
    assert list(complete(line)) == expected


ASKED = QuestionRecord(
    question=Question(
        question_id=QuestionId("q_1"),
        kind=QuestionKind.ASK_USER,
        text="Which?",
        path=CallPath("c_1"),
    ),
    log_id=LogId("ses_1"),
    task_id=TaskId("task_1"),
    profile_id=ProfileId("local"),
    agent="assistant",
    asked_at=Moment(0),
)


def asked(**more: Any) -> QuestionRecord:
    """Return a question that differs from the other in this."""
    return replace(ASKED, question=replace(ASKED.question, **more))


PASTED: list[tuple[dict[str, Any], list[list[str]]]] = [
    ({}, [["TEXT"]]),
    ({"kind": QuestionKind.APPROVAL}, [["approve"], ["reject"]]),
    ({"form": {"type": "confirm"}}, [["yes"], ["no"]]),
    ({"values": ["Tokyo", "Quick fix"]}, [["Tokyo"], ["Quick fix"]]),
    ({"values": ["$(reboot)", "it's", "a|b;c"]}, [["$(reboot)"], ["it's"], ["a|b;c"]]),
    ({"values": ["\x1b]0;pwned\x07", "fine", "a\nb", "--help", ""]}, [["1"], ["fine"], *"345"]),
]


@pytest.mark.parametrize(("more", "answers"), PASTED)
def test_each_suggested_line_is_one_answer(more: dict[str, Any], answers: list[list[str]]) -> None:
    """Options are text of models and scripts: nothing in them steers a terminal or a shell."""
    values = more.pop("values", ())
    options = tuple(Option(label=each, value=each) for each in values)
    shown = how_to_answer(asked(options=options, **more))
    assert "\x1b" not in shown
    lines = shown.partition("answer it: ")[2].replace("       or: ", "").splitlines()
    assert [shlex.split(line) for line in lines] == [
        ["penstock", "answer", "q_1", *answer] for answer in answers
    ]


def test_at_most_six_options_are_listed() -> None:
    options = tuple(Option(label=str(each), value=f"way {each}") for each in range(20))
    shown = how_to_answer(asked(options=options)).splitlines()
    assert shown[-1] == "       or one of 14 more, by name or number"
    assert shown[-2].endswith("penstock answer q_1 'way 5'")
