"""`penstock flow`: list, show, check and draw flows, and list runs with their results."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kit.flow_server import ASKS, LOOK, laid

pytestmark = pytest.mark.slow("opens a store for each command")
Run = Callable[..., tuple[int, str, str]]
BROKEN = LOOK.replace("scout", "scuot")


@pytest.fixture
def flows(project: Path) -> Path:
    """The project, with agents and flows."""
    return laid(project, {"look.yaml": LOOK, "dom/asks.yaml": ASKS, "broken.yaml": BROKEN})


def run_id(flows: Path, run: Run, *arguments: str) -> str:
    """Run a flow, and return the id of its run."""
    return str(json.loads(run("flow", "run", *arguments, "--json")[1])["runId"])


def test_flows_are_listed(flows: Path, run: Run, run_json: Callable[..., Any]) -> None:
    _, out, _ = run("flow", "list")
    assert "/dom:asks" in out
    values = {each["name"]: each for each in run_json("flow", "list")["flows"]}
    assert (values["look"]["stepCount"], values["look"]["valid"]) == (1, True)
    assert (values["broken"]["path"], values["broken"]["valid"]) == ("flows/broken.yaml", False)


def test_a_flow_is_shown_with_its_errors(flows: Path, run: Run) -> None:
    code, out, err = run("flow", "show", "/broken")
    assert (code, out.rstrip()) == (0, BROKEN.rstrip())
    assert 'unknown agent "scuot"' in err


@pytest.mark.parametrize("command", ["show", "graph", "check", "runs"])
def test_an_unknown_flow_is_refused_with_the_nearest(flows: Path, run: Run, command: str) -> None:
    code, _, err = run("flow", command, "lok")
    assert code != 0
    assert "Did you mean 'look'?" in err


def test_a_flow_is_drawn(flows: Path, run: Run) -> None:
    """Mermaid text: segments as boxes, dependencies, jumps with labels."""
    code, out, _ = run("flow", "graph", "dom:asks")
    assert code == 0
    assert out.startswith("flowchart TD\n")
    assert '-. "Stop" .->' in out


def test_a_flow_is_drawn_as_svg_into_a_file(flows: Path, run: Run, tmp_path: Path) -> None:
    code, out, _ = run("flow", "graph", "dom:asks", "--svg")
    assert code == 0
    assert out.startswith("<svg ")
    place = tmp_path / "asks.svg"
    assert run("flow", "graph", "dom:asks", "--svg", "-o", str(place)) == (0, "", "")
    assert place.read_text() == out
    code, out, err = run("flow", "graph", "dom:asks", "-o", str(tmp_path / "none/asks.mmd"))
    assert (code != 0, out) == (True, "")
    words = " ".join(err.replace("│", " ").split())
    assert "Error: Invalid value: cannot write" in words
    assert words.endswith(": No such file or directory")


def test_an_unreadable_flow_cannot_be_drawn(flows: Path, run: Run) -> None:
    laid(flows, {"bad.yaml": "steps: 5\n"})
    code, out, err = run("flow", "graph", "/bad")
    assert (code != 0, out) == (True, "")
    assert '"/bad" has errors: penstock flow check bad' in err


def test_runs_are_listed_and_their_results_shown(
    flows: Path, run: Run, run_json: Callable[..., Any]
) -> None:
    look, broken = run_id(flows, run, "look"), run_id(flows, run, "broken")
    listed = run_json("flow", "runs")["runs"]
    assert listed == [
        {"runId": broken, "flow": "broken", "status": "rejected"},
        {"runId": look, "flow": "look", "status": "success"},
    ]
    assert run_json("flow", "runs", "/look")["runs"] == listed[1:]
    assert look in run("flow", "runs")[1]
    assert json.loads(run("flow", "result", look)[1])["status"] == "success"
    assert json.loads(run("flow", "result", broken)[1])["status"] == "rejected"


@pytest.mark.parametrize("which", ["task_none", "open"])
def test_a_run_without_a_result_is_reported(flows: Path, run: Run, which: str) -> None:
    name = which if which == "task_none" else run("flow", "run", "dom:asks", "--detach")[1].strip()
    code, out, err = run("flow", "result", name)
    assert (code != 0, out) == (True, "")
    assert ("there is no run" if which == "task_none" else "has no result") in err


def test_a_waiting_run_is_answered(flows: Path, run: Run) -> None:
    """`penstock flow answer QUESTION VALUE`."""
    code, out, err = run("flow", "run", "dom:asks")
    assert (code, out) == (4, "")
    question = next(word for word in err.split() if word.startswith("q_"))
    code, out, err = run("flow", "answer", question, "Neither")
    assert code != 0
    code, out, _ = run("flow", "answer", question, "Stop")
    assert (code, json.loads(out)["status"]) == (0, "success")


def test_a_task_that_is_not_a_run_is_not_aborted(flows: Path, run: Run, run_json: Any) -> None:
    run("call", "look")
    (task,) = run_json("tasks", "list")["tasks"]
    code, out, err = run("flow", "abort", task["id"])
    assert (code != 0, out) == (True, "")
    assert "there is no run" in err


def test_a_run_is_aborted(flows: Path, run: Run, run_json: Callable[..., Any]) -> None:
    code, _, _ = run("flow", "run", "dom:asks")
    (waiting,) = run_json("flow", "runs")["runs"]
    assert (code, waiting["status"]) == (4, "suspended")
    code, out, _ = run("flow", "abort", waiting["runId"])
    assert (code, out) == (0, f"{waiting['runId']} aborted\n")
    assert run("flow", "abort", waiting["runId"])[0] != 0
    (ended,) = run_json("flow", "runs")["runs"]
    assert ended["status"] == "aborted"
