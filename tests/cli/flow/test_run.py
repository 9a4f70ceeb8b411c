"""`penstock flow run`: exit codes, inputs, questions at a terminal, Ctrl-C."""

import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from penstock.cli.flow.run import asked_for, code_of, read_pairs, values_of
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.events.flow_events import ValueType
from penstock.engine.slash_commands import MissingArgument
from penstock.flows.definition import RunInput
from tests.kit.flow_server import ASKS, LOOK, laid
from tests.kit.flows import HEAD
from tests.kit.terminal import Terminal

pytestmark = [pytest.mark.programs, pytest.mark.slow("opens a store for each command")]
Run = Callable[..., tuple[int, str, str]]
NEEDY = LOOK.replace("steps:", "inputs: {n: {type: number, required: true}}\nsteps:")
EAGER = LOOK.replace("steps:", "task_required: true\ntask_prompt: For whom?\nsteps:")
TWICE = ASKS.replace("Go: look", "Go: sure").replace(
    "  - {id: look",
    '  - {id: sure, question: "Sure?", branches: {Yes: look, No: tell}}\n  - {id: look',
)
OUTER = HEAD + "steps:\n  - {id: inner, type: code, outputs: [said], tools: [execute_workflow]}\n"
INNER = """export default async () => {
  const { output } = await flo.callTool({
    tool_id: "execute_workflow", input: { workflowId: "twice" },
  });
  return { said: output.status };
};
"""
FAILS = HEAD + "steps:\n  - {id: look, handler: none.mts}\n"


@pytest.fixture
def flows(project: Path) -> Path:
    """The project, with agents and flows."""
    texts = {"look": LOOK, "asks": ASKS, "needy": NEEDY, "eager": EAGER, "fails": FAILS}
    return laid(project, {f"{name}.yaml": text for name, text in texts.items()})


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["look"], 0, "The offline model made this up for"),
        (["/look", "a task"], 0, "The offline model made this up for"),
        (["lok"], 2, "there is no flow \"/lok\". Did you mean 'look'?"),
        (["eager"], 2, "the flow needs a task. For whom?"),
        (["eager", "Ann"], 0, "The offline model made this up for"),
        (["needy"], 3, "the inputs do not fit: /inputs/n"),
        (["needy", "--input", "n=x"], 3, "the inputs do not fit: /inputs/n"),
        (["needy", "--input", "n=3"], 0, "The offline model made this up for"),
        (["needy", "--input", "n"], 2, "an input has the form KEY=VALUE, found 'n'"),
        (["asks"], 4, "answer it: penstock answer q_"),
        (["asks", "--auto"], 0, "The offline model made this up for"),
        (["lok", "--detach"], 2, "Did you mean 'look'?"),
    ],
)
def test_a_run_exits_with_the_code_of_its_outcome(
    flows: Path, run: Run, arguments: list[str], code: int, message: str
) -> None:
    """A run: 0 success, 1 error, 2 unknown flow or no task, 3 rejected, 4 waits for a person."""
    ended, out, err = run("flow", "run", *arguments)
    assert ended == code, err
    assert message in " ".join((out + err).replace("│", " ").split())


def test_steps_are_shown_beside_the_result(flows: Path, run: Run) -> None:
    _, out, err = run("flow", "run", "look")
    assert "▸ look by scout" in err
    assert "✓ look" in err
    assert "▸" not in out


def test_stdout_has_only_the_result_for_programs(flows: Path, run: Run) -> None:
    code, out, err = run("flow", "run", "look", "--json")
    assert (code, json.loads(out)["status"], err) == (0, "success", "")
    code, out, _ = run("flow", "run", "asks", "--json")
    assert (code, json.loads(out)["status"]) == (4, "suspended")
    assert json.loads(out)["error"]["details"]["question_ids"][0].startswith("q_")


def test_without_a_person_the_ids_of_questions_are_printed(flows: Path, run: Run) -> None:
    """A terminal: "Without one, or with `--detach`: exit 4 and the question ids"."""
    code, out, err = run("flow", "run", "asks", "--detach")
    assert (code, out.startswith("task_"), out.count("\n")) == (4, True, 1)
    question = err.partition("penstock answer ")[2].split()[0]
    assert question.startswith("q_")
    assert run("answer", question, "Go")[0] == 0
    code, out, _ = run("flow", "run", "look", "--detach")
    assert code == 0
    assert json.loads(run("flow", "result", out.strip())[1])["status"] == "success"


def test_detach_prompts_for_nothing_at_a_terminal(flows: Path) -> None:
    with Terminal("flow", "run", "asks", "--detach", cwd=flows) as terminal:
        terminal.until("answer it: penstock answer q_")
        assert terminal.ended() == 4


@pytest.mark.parametrize(
    ("envelope", "code"),
    [
        (Envelope.success({}), 0),
        (Envelope(Status.SUSPENDED), 0),
        (Envelope(Status.FAILED, {"status": "error"}, ErrorDetail(code="X", message="m")), 1),
        (Envelope(Status.FAILED, {"status": "aborted"}, ErrorDetail(code="X", message="m")), 1),
        (Envelope(Status.FAILED, {"status": "rejected"}, ErrorDetail(code="X", message="m")), 3),
        (Envelope(Status.FAILED, None, ErrorDetail(code="NOT_FOUND", message="m")), 2),
        (Envelope(Status.FAILED, None, ErrorDetail(code="TASK_REQUIRED", message="m")), 2),
        (Envelope(Status.SUSPENDED, None, ErrorDetail(code="SUSPENDED", message="m")), 4),
    ],
)
def test_every_outcome_has_an_exit_code(envelope: Envelope, code: int) -> None:
    assert code_of(envelope) == code


def test_a_question_is_asked_at_the_terminal(flows: Path) -> None:
    """On a terminal `penstock flow run` asks at once; numbers from 1 choose options."""
    with Terminal("flow", "run", "asks", cwd=flows) as terminal:
        terminal.until("/asks  0.0 s · 0 done")
        terminal.until("? Go on?")
        terminal.until("answer, or /cancel> ")
        terminal.type("9")
        terminal.until("answer must be one of: Go, Stop")
        terminal.until("answer, or /cancel> ")
        terminal.type("2")
        terminal.until("✓ tell")
        assert terminal.ended() == 0


HOLD = """
from penstock import tool

@tool(effect="none")
def hold(gate: str) -> str:
    \"\"\"Wait until somebody writes into a pipe.\"\"\"
    with open(gate) as pipe:
        said = pipe.read()
    if said == "fail":
        raise ValueError("it was told to fail")
    return said
"""
HOLDER = "---\nname: holder\ndescription: d\ntools: hold\n---\nHold.\n"
ASKER = "---\nname: asker\ndescription: d\ntools:\n---\nAsk.\n"
BESIDE = """
steps:
  - {id: slow, agent: holder, task: "hold gate=GATE"}
  - {id: ask, agent: asker, task: 'ask_user question="Which colour?" type=input'}
  - {id: end, agent: asker, blockedBy: [slow, ask], task: "So: ${{result.ask}}"}
"""


@pytest.fixture
def gate(flows: Path) -> Path:
    """A pipe that blocks a step until the test writes into it; the other step asks."""
    gate = flows / "gate"
    os.mkfifo(gate)
    (flows / "tools/hold.py").write_text(HOLD)
    (flows / "agents/holder.md").write_text(HOLDER)
    (flows / "agents/asker.md").write_text(ASKER)
    laid(flows, {"beside.yaml": HEAD + BESIDE.replace("GATE", str(gate))})
    return gate


def test_a_question_is_asked_while_another_step_works(flows: Path, gate: Path) -> None:
    """Earlier it was asked 17 s later, and text typed meanwhile answered it unseen."""
    with Terminal("flow", "run", "beside", cwd=flows) as terminal:
        terminal.type("typed before anything was asked")
        terminal.until("? Which colour?")
        terminal.until("answer> ")
        terminal.type("blue")
        gate.write_text("done")
        terminal.until("✓ end")
        assert "So: answer: blue" in terminal.until("\n")
        assert terminal.ended() == 0


def test_a_postponed_question_is_named_when_no_step_works(flows: Path, gate: Path) -> None:
    with Terminal("flow", "run", "beside", cwd=flows) as terminal:
        terminal.until("answer> ")
        terminal.leave()
        terminal.until("The other steps continue;")
        gate.write_text("done")
        terminal.until("answer it: penstock answer q_")
        assert terminal.ended() == 4


def test_a_prompt_ends_with_its_question(flows: Path, gate: Path) -> None:
    """Another step fails, so the run ends and its question is closed."""
    with Terminal("flow", "run", "beside", cwd=flows) as terminal:
        terminal.until("answer> ")
        gate.write_text("fail")
        terminal.until("the question was answered elsewhere, or withdrawn")
        assert terminal.ended() == 1


def test_a_missing_task_and_inputs_are_prompted_for(flows: Path) -> None:
    """`penstock flow run` at a terminal asks at once: for all that the flow needs to begin."""
    laid(
        flows,
        {
            "eager.yaml": EAGER.replace(
                "steps:", "inputs: {n: {type: number, required: true}}\nsteps:"
            )
        },
    )
    with Terminal("flow", "run", "eager", cwd=flows) as terminal:
        terminal.until("For whom?> ")
        terminal.type("Ann")
        terminal.until("n (number): what is it to be?> ")
        terminal.type("3")
        terminal.until("✓ look")
        assert terminal.ended() == 0


def test_ctrl_c_aborts_after_asking(flows: Path, run: Run) -> None:
    """Ctrl-C aborts after asking."""
    with Terminal("flow", "run", "asks", cwd=flows) as terminal:
        terminal.until("answer, or /cancel> ")
        terminal.interrupt_until("Abort this run?")
        terminal.type("")
        terminal.until("answer, or /cancel> ")
        terminal.interrupt_until("Abort this run?")
        terminal.type("y")
        terminal.until("Cancelling")
        assert terminal.ended() == 1
    (ended,) = json.loads(run("flow", "runs", "--json")[1])["runs"]
    assert ended["status"] == "aborted"


def test_questions_of_a_run_started_by_a_step_are_asked_at_the_terminal(flows: Path) -> None:
    laid(flows, {"twice.yaml": TWICE, "outer.yaml": OUTER, "handlers/outer/inner.ts": INNER})
    with Terminal("flow", "run", "outer", cwd=flows) as terminal:
        for asked, answer in (("Go on?", "Go"), ("Sure?", "Yes")):
            terminal.until(asked)
            terminal.until("/cancel> ")
            terminal.type(answer)
        terminal.until("✓ inner")
        assert terminal.ended() == 0


def test_a_question_of_a_nested_run_can_be_postponed(flows: Path, run: Run) -> None:
    laid(flows, {"twice.yaml": TWICE, "outer.yaml": OUTER, "handlers/outer/inner.ts": INNER})
    code, _, err = run("flow", "run", "outer")
    assert (code, "Go on?" in err) == (4, True)
    question = re.findall("penstock answer (q_[a-z0-9]+)", err)[-1]
    assert "Sure?" in "".join(map(str, run("answer", question, "Go")))


BESIDE_A_RUN = """
steps:
  - {id: slow, agent: holder, task: "hold gate=GATE"}
  - {id: inner, agent: starter, task: "execute_workflow workflowId=twice"}
"""
STARTER = "---\nname: starter\ndescription: d\ntools: execute_workflow\n---\nStart.\n"


def test_a_question_of_a_nested_run_is_asked_while_another_step_works(
    flows: Path, gate: Path
) -> None:
    """Earlier it was asked only when the outer run waited, after the slow step."""
    text = HEAD + BESIDE_A_RUN.replace("GATE", str(gate))
    (flows / "agents/starter.md").write_text(STARTER)
    laid(flows, {"twice.yaml": TWICE, "both.yaml": text})
    with Terminal("flow", "run", "both", cwd=flows) as terminal:
        for asked, answer in (("Go on?", "Go"), ("Sure?", "Yes")):
            terminal.until(f"? {asked}")
            terminal.until("/cancel> ")
            terminal.type(answer)
        terminal.until("✓ inner")
        gate.write_text("done")
        terminal.until("✓ slow")
        assert terminal.ended() == 0


def test_options_are_completed_at_the_prompt_of_a_run(flows: Path) -> None:
    with Terminal("flow", "run", "asks", cwd=flows, echoes=True) as terminal:
        terminal.until("answer, or /cancel> ")
        terminal.press("st\t")
        terminal.until("Stop")
        terminal.press("\n")
        terminal.until("✓ tell")
        assert terminal.ended() == 0


def test_a_prompt_of_a_run_ends_when_the_question_is_answered_elsewhere(
    flows: Path, run: Run
) -> None:
    with Terminal("flow", "run", "asks", cwd=flows) as terminal:
        terminal.until("answer, or /cancel> ")
        terminal.press("G")
        (question,) = json.loads(run("answer", "--json")[1])["questions"]
        run("answer", question["id"], "Stop")
        terminal.until("the question was answered elsewhere, or withdrawn")
        terminal.until("✓ tell")
        assert terminal.ended() == 0


NUMBER, TEXT = (
    MissingArgument(question="n (number): how many?", is_text=False),
    MissingArgument(question="For whom?"),
)


def test_an_input_is_json_or_a_text() -> None:
    pairs = ["n=3", "t=a=b", "l=[1]", "e=", "b=true", 's="x"', f"deep={'[' * 100_000}"]
    fields: dict[str, Any] = {"n": 3, "t": "a=b", "l": [1], "e": "", "b": True, "s": "x"}
    assert values_of(read_pairs(pairs), ()) == {**fields, "deep": "[" * 100_000}


def test_an_input_of_type_string_is_not_parsed() -> None:
    declared = [RunInput(name="code", value_type=ValueType.STRING)]
    texts = {"code": "42", "other": "42"}
    assert values_of(texts, declared) == {"code": "42", "other": 42}
    assert values_of({"code": '"42"'}, declared) == {"code": "42"}


def test_a_malformed_pair_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match="an input has the form KEY=VALUE, found 'n'"):
        read_pairs(["n"])


def test_missing_inputs_are_prompted_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(" 3 \n \nAnn\n"))
    fields = {"n": NUMBER, "m": NUMBER, "there": NUMBER, "task": TEXT}
    assert asked_for(fields, {"there"}) == {"n": 3, "task": "Ann"}
    assert capsys.readouterr() == ("", "n (number): how many?> " * 2 + "For whom?> ")


def test_the_end_of_input_ends_the_prompts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert asked_for({"n": NUMBER, "task": TEXT}, ()) == {}
    assert capsys.readouterr().err == "n (number): how many?> "
