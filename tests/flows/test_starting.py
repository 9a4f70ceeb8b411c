"""The start of a run, or its rejection."""

from typing import Any

import pytest

from penstock.core.events.flow_events import FlowRequested
from penstock.core.ids import ProfileId
from penstock.flows.project.library import FlowSource
from penstock.flows.starting import FlowSettings, Rejection, RunStart, begin

HEAD = "name: n\ndescription: d\n"
STEPS = "steps:\n  - {id: a, agent: x}\n"
INPUTS = "inputs: {n: {type: number, required: true}}\n"


def start_of(text: str, *, no_shell: str = "", **asked: Any) -> RunStart | Rejection:
    source = FlowSource(path="flows/f.yaml", texts={"flows/f.yaml": HEAD + text})
    request = FlowRequested(command="f", profile_id=ProfileId("ann"), **asked)
    return begin(source, request, FlowSettings(config={"k": "v"}), no_shell=no_shell)


def test_a_run_keeps_the_texts_that_it_started_with() -> None:
    """A run keeps these texts to its end, whatever is written meanwhile."""
    found = start_of(INPUTS + STEPS, task="t", inputs={"n": 2}, autonomous=True, max_concurrent=2)
    assert isinstance(found, RunStart)
    started = found.started
    assert started.texts == {"flows/f.yaml": HEAD + INPUTS + STEPS}
    assert (started.task, started.inputs, started.autonomous) == ("t", {"n": 2}, True)
    assert started.max_concurrent == 2
    assert started.config == {"k": "v"}


@pytest.mark.parametrize(("why", "begins"), [("shell steps are off", False), ("", True)])
def test_a_flow_with_a_shell_step_needs_shell_steps_on(why: str, begins: bool) -> None:
    """Rejected: the run never began: … shell switched off (section 18)."""
    found = start_of("steps:\n  - {id: a, agent: x}\n  - {id: sh, command: make}\n", no_shell=why)
    assert isinstance(found, RunStart) is begins
    if isinstance(found, Rejection):
        assert found.code == "FLOW_INVALID"
        assert found.reason == "the flow \"/f\" has the shell step 'sh', and shell steps are off"


@pytest.mark.parametrize(
    ("text", "asked", "code", "reason"),
    [
        ("steps: []\n", {}, "FLOW_INVALID", 'the flow "/f" has errors: line '),
        (
            f"task_required: true\n{STEPS}",
            {"task": "  "},
            "TASK_REQUIRED",
            "the flow needs a task. What should f do?",
        ),
        (
            f"task_required: true\ntask_prompt: Which one?\n{STEPS}",
            {},
            "TASK_REQUIRED",
            "the flow needs a task. Which one?",
        ),
        (
            INPUTS + STEPS,
            {"inputs": {"n": "2"}},
            "VALIDATION_ERROR",
            'the inputs do not fit: /inputs/n: must be number, found string "2"',
        ),
    ],
)
def test_a_run_that_cannot_start_has_a_reason(
    text: str, asked: dict[str, Any], code: str, reason: str
) -> None:
    """Rejected: the run never began."""
    found = start_of(text, **asked)
    assert isinstance(found, Rejection)
    assert found.code == code
    assert found.reason.startswith(reason)
