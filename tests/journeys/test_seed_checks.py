"""The eight checks of the seed (section 16.1): each example, through both tools, word for word."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.cli.main import main
from penstock.models.scripted import call
from tests.kit.architect import at_work
from tests.kit.project import ProjectFolder

pytestmark = pytest.mark.conformance

Finding = Mapping[str, Any]
AGENTS = {"scout": "outputs: [topics]", "writer": "inputs: [notes]", "judge": ""}
"""Catalog of the examples: `scout` (outputs `topics`), `writer` (inputs `notes`), `judge`."""
HEAD = "name: demo\ndescription: d\nsteps:\n"
WIRED = """\
- id: look
  agent: scout
- id: tell
  agent: writer
  blockedBy: [look]
"""


@dataclass(frozen=True)
class Example:
    """A flow, and the whole list of what is said of it."""

    test: str
    quote: str
    """What the seed says."""
    text: str
    expected: Sequence[Finding]

    @property
    def is_written(self) -> bool:
        return all(each["severity"] == "warning" for each in self.expected)


def error(line: int, message: str, suggestion: str | None = None) -> Finding:
    fields: dict[str, Any] = {"line": line, "severity": "error", "message": message}
    return fields | ({"suggestion": suggestion} if suggestion else {})


def warning(line: int, message: str, suggestion: str) -> Finding:
    return {**error(line, message, suggestion), "severity": "warning"}


EXAMPLES = [
    Example(
        "T37",
        "required fields",
        "name: demo\nsteps:\n- id: look\n  agent: scout\n",
        [
            error(
                1,
                'missing required field "description"',
                'add "description:" at the top of the file',
            )
        ],
    ),
    Example(
        "T38",
        "unique ids",
        HEAD + "- id: look\n  agent: scout\n- id: look\n  agent: scout\n",
        [error(6, 'duplicate step id "look"; first at line 4', "rename one of them")],
    ),
    Example(
        "T39",
        "known agents",
        HEAD + "- id: look\n  agent: scuot\n",
        [error(5, 'unknown agent "scuot" in step "look"', 'did you mean "scout"?')],
    ),
    Example(
        "T40",
        "`blockedBy`",
        HEAD
        + """\
- id: look
  agent: scout
  blockedBy: [tell]
- id: gate
  type: conditional
  check: look.topics
  present: tell
  absent: tell
- id: tell
  agent: scout
  blockedBy: [gate, lok]
""",
        [
            error(
                6,
                'blockedBy of step "look" names "tell", which comes later (line 12)',
                'move "tell" before "look"',
            ),
            error(
                14,
                'blockedBy of step "tell" names "gate", which is a conditional step',
                "it runs before everything below it anyway; remove it",
            ),
            error(14, 'blockedBy of step "tell" names unknown step "lok"', 'did you mean "look"?'),
        ],
    ),
    Example(
        "T41",
        "branch targets",
        HEAD
        + """\
- id: pick
  question: Go on?
  options: [Go, Stop]
  branches:
    Go: look
    Stop: lock
- id: look
  agent: scout
""",
        [
            error(
                9,
                'branch "Stop" of step "pick" leads to unknown step "lock"',
                'did you mean "look"?',
            )
        ],
    ),
    Example(
        "T42",
        "loop targets",
        HEAD
        + """\
- id: look
  agent: scout
- id: again
  agent: judge
  task: Enough?
  loop_target: lok
  exit_target: end
  max_iterations: 3
""",
        [
            error(
                9, 'loop_target of step "again" names unknown step "lok"', 'did you mean "look"?'
            ),
            error(10, 'exit_target of step "again" names unknown step "end"'),
        ],
    ),
    Example(
        "T43",
        "wired inputs",
        HEAD + WIRED,
        [
            warning(
                6,
                'input "notes" of agent "writer" is not wired in step "tell"',
                'add "notes:" under inputs',
            )
        ],
    ),
    Example(
        "T44",
        "template ids",
        HEAD + WIRED + '  inputs:\n    notes: "${{result.lok.topics}}"\n',
        [
            warning(
                10,
                'template in step "tell" refers to unknown step "lok"',
                'did you mean "look"?',
            )
        ],
    ),
]
NAMES = [f"{each.test} {each.quote}" for each in EXAMPLES]


def laid(project: ProjectFolder) -> ProjectFolder:
    for name, more in AGENTS.items():
        head = f"name: {name}\ndescription: d\ntools:\n{more}\n"
        project.write(f"agents/{name}.md", f"---\n{head}---\nBe.\n")
    return project


@pytest.mark.parametrize("example", EXAMPLES, ids=NAMES)
async def test_flow_write_reports_the_documented_problems(
    project: ProjectFolder, example: Example
) -> None:
    """T37-T44: "Expected is the whole list"; warnings do not stop the write."""
    result = await at_work(laid(project), call("flow_write", path="demo", content=example.text))
    (answer,) = result.outputs()
    assert answer["diagnostics"] == example.expected
    assert answer["written"] == example.is_written == (project.root / "flows/demo.yaml").exists()


@pytest.mark.parametrize("example", EXAMPLES, ids=NAMES)
def test_flow_check_reports_the_documented_problems(
    project: ProjectFolder, capsys: pytest.CaptureFixture[str], example: Example
) -> None:
    """T37-T44: the same through `penstock flow check`; only errors make it fail."""
    laid(project).write("flows/demo.yaml", example.text)
    command = ["flow", "check", "demo", "--project", str(project.root)]
    assert main([*command, "--json"]) == (0 if example.is_written else 1)
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert [_finding(each) for each in problems] == example.expected
    main(command)
    *lines, _ = capsys.readouterr().out.splitlines()
    places = [f"flows/demo.yaml:{each['line']}:" for each in example.expected]
    assert [line.startswith(at) for line, at in zip(lines, places, strict=True)] == [True] * len(
        places
    )


def _finding(problem: Mapping[str, Any]) -> Finding:
    """Return the four members of the seed, of a problem as programs read it."""
    values = {key: problem[key] for key in ("line", "severity", "suggestion") if problem[key]}
    return values | {"message": problem["message"].removesuffix(f"; {problem['suggestion']}")}
