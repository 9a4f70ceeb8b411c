"""The examples of docs/flows.md and the flow of examples/, run as written."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import penstock
from penstock.chat.requests import NewRun
from penstock.cli.authoring.init import init
from penstock.cli.main import main
from penstock.program.opening import open as open_project
from scripts import flow_pictures

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.slow("opens a store for each command"),
]
SVG = "http://www.w3.org/2000/svg"
ROOT = Path(penstock.__file__).parents[1]
PAGE = (ROOT / "docs/flows.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(?:text|yaml)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SCOUT, WRITER, GUIDE, FORK, LOOP = BLOCKS
NOTE = re.search(r"`- (\{id: note.*?\})`", PAGE)
SHOWN = re.MULTILINE | re.DOTALL
Say = Callable[..., tuple[int, str]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project of the page."""
    init(tmp_path)
    (tmp_path / "flows").mkdir()
    (tmp_path / "agents/scout.md").write_text(SCOUT)
    (tmp_path / "agents/writer.md").write_text(WRITER)
    return tmp_path


@pytest.fixture
def say(project: Path, capsys: pytest.CaptureFixture[str]) -> Say:
    """Run a command in the project; returns its exit code, and what it said."""

    def say(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        code = main([*arguments, "--project", str(project)])
        return code, "".join(capsys.readouterr())

    return say


def forked() -> str:
    """Return the flow with its fork."""
    assert NOTE is not None
    before, page = GUIDE.split("  - id: page\n")
    return f"{before}{FORK}  - id: page\n{page}  - {NOTE[1]}\n"


@pytest.mark.parametrize("text", [GUIDE, forked(), GUIDE + LOOP], ids=["guide", "fork", "loop"])
def test_the_flows_of_the_page_have_no_findings_and_run(project: Path, say: Say, text: str) -> None:
    (project / "flows/guide.yaml").write_text(text)
    code, out = say("flow", "check", "guide")
    assert (code, out) == (0, "1 flow, 0 errors, 0 warnings\n")
    assert say("flow", "graph", "guide")[1].startswith("flowchart TD\n")
    assert say("flow", "run", "guide", "Lisbon", "--auto")[0] == 0


def test_the_offline_model_returns_the_documented_text(project: Path, say: Say) -> None:
    (project / "flows/guide.yaml").write_text(GUIDE)
    shown_text = _timeless(say("flow", "run", "guide", "Lisbon")[1]).splitlines()
    shown = re.findall(r"^```console\n\$ penstock flow run guide Lisbon\n(.*?)^```", PAGE, SHOWN)
    lines = _timeless(shown[0]).splitlines()
    assert sorted(shown_text) == sorted(lines)


def _timeless(text: str) -> str:
    return re.sub(r"\d+\.\d s|\d+ tokens", "", text)


SHAPES = {
    "sequence": """
  - {id: one, agent: scout, task: The sights of Rome}
  - {id: two, agent: writer, blockedBy: [one], task: "A page: ${{result.one.topics}}"}
""",
    "parallel": """
  - {id: one, agent: scout, task: The sights of Rome}
  - {id: two, agent: scout, task: The dishes of Rome}
  - id: join
    agent: writer
    blockedBy: [one, two]
    task: "See ${{result.one}}, eat ${{result.two}}"
""",
    "fork": """
  - {id: which, question: Which?, branches: {Unit: one, Load: two}, multiSelect: true}
  - {id: one, agent: writer, task: "Unit, chosen by ${{fork.which.answer}}"}
  - {id: two, agent: writer, task: Load}
""",
    "loop": """
  - {id: one, agent: writer, task: "Write. Said before: ${{result.two.summary}}"}
  - {id: two, agent: writer, blockedBy: [one], task: "Review ${{result.one}}"}
  - id: again
    agent: writer
    task: "Good enough? ${{result.two}}"
    loop_target: one
    exit_target: last
    max_iterations: 3
  - {id: last, agent: writer, task: "Publish ${{result.one}}"}
""",
    "decision": """
  - {id: one, agent: scout, task: The sights of Rome}
  - {id: judge, agent: writer, task: "Good? ${{result.one}}", branches: {redo: one, good: two}}
  - {id: two, agent: writer, task: "Publish ${{result.one.topics}}"}
""",
    "flow in a flow": """
  - {id: one, path: guide.yaml}
  - {id: two, agent: writer, task: "Sum up ${{result.one}}"}
""",
    "tools": """
  - {id: one, agent: greeter, task: Say hello to Ann}
  - id: two
    agent: writer
    blockedBy: [one]
    task: "Repeat ${{result.one}} and ${{result.one.greeting}}"
""",
}
GREETER = """---
name: greeter
description: Greets somebody.
tools: [hello]
outputs: [greeting]
---
You greet the person that the task names, with the tool `hello`.
"""


@pytest.mark.parametrize("shape", SHAPES)
def test_a_first_flow_of_any_shape_succeeds_and_no_result_names_a_tool(
    project: Path, say: Say, shape: str
) -> None:
    """With the offline model, also where agents are offered tools that a text may name."""
    (project / "agents/greeter.md").write_text(GREETER)
    (project / "flows/guide.yaml").write_text(GUIDE)
    text = f"name: shape\ndescription: d\nsteps:{SHAPES[shape]}"
    (project / "flows/shape.yaml").write_text(text)
    code, out = say("flow", "run", "shape", "Rome", "--auto", "--json")
    result = json.loads(out)
    assert (code, result["status"]) == (0, "success"), result["reason"]
    dumps = json.dumps(result["results"])
    named = re.findall(r"`|ask_user|skill_read|finish\b(?!\")|hello", dumps)
    assert named == []
    assert result["usage"]["toolCalls"] == (1 if shape == "tools" else 0)
    last = result["lastResult"]["summary"]
    assert last.startswith("The offline model made this up for: ")
    assert all(each["visits"] <= 2 for each in result["results"].values())


def test_a_fork_is_answered_as_documented(project: Path, say: Say) -> None:
    (project / "flows/guide.yaml").write_text(forked())
    code, out = say("flow", "run", "guide", "Lisbon")
    assert code == 4
    question = next(word for word in out.split() if word.startswith("q_"))
    code, out = say("flow", "answer", question, "Short")
    assert (code, '"answer": "Short"' in out) == (0, True)


def test_the_flow_runs_in_a_chat(project: Path, say: Say) -> None:
    """In a chat `/guide Lisbon` runs the flow too, as a call of `execute_workflow`."""
    (project / "flows/guide.yaml").write_text(GUIDE)
    code, out = say("chat", "/guide Lisbon")
    assert code == 0
    assert "execute_workflow" in out
    assert "The offline model made this up for" in out


@pytest.mark.parametrize("name", sorted(flow_pictures.pictures()))
def test_the_pictures_are_up_to_date(name: str) -> None:
    """The board is shown in docs as a picture made by the test."""
    made = flow_pictures.pictures()[name]()
    assert f"(pictures/{name})" in PAGE
    assert (flow_pictures.PICTURES / name).read_text(encoding="utf-8") == made
    assert set(re.findall(r"https?://[^\"\s)]*", made)) == {SVG}


async def test_the_flow_of_the_examples_runs_without_a_key(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    async with open_project(tmp_path / "examples") as runtime:
        run = NewRun(command="morning", inputs={"first": "Tokyo"}, autonomous=True)
        envelope = await runtime.run_flow(run)
    assert envelope.ok, envelope.error
    results = envelope.output["results"]
    assert "rain" in results["north"]["summary"]
    assert "clouds" in results["south"]["summary"]
    assert [results[each]["status"] for each in ("stay", "go")] == ["complete", "skipped"]
