"""What a run of a flow takes."""

import pytest

from penstock.core.events.flow_events import ValueType
from penstock.flows.definition import RunInput
from penstock.flows.reading.flow import read_flow
from tests.flows.texts import TOP, finding_lines

STEP = "- {id: a, agent: b}\n"


@pytest.mark.parametrize(
    ("inputs", "wanted"),
    [
        ("", ()),
        ("{}", ()),
        ("{a: {type: number}}", (RunInput(name="a", value_type=ValueType.NUMBER),)),
        (
            "{a: {type: string, required: true, default: x, description: y}}",
            (
                RunInput(
                    name="a",
                    value_type=ValueType.STRING,
                    is_required=True,
                    default="x",
                    description="y",
                ),
            ),
        ),
    ],
)
def test_inputs_of_a_run_have_types(inputs: str, wanted: tuple[RunInput, ...]) -> None:
    flow = read_flow(f"inputs: {inputs}\n{TOP}{STEP}", "flows/demo.yaml").flow
    assert flow is not None
    assert flow.inputs == wanted


@pytest.mark.parametrize("inputs", ["3", "[a]", "{a: 1}", "{a: {}}", "{1: {type: string}}"])
def test_other_inputs_are_refused(inputs: str) -> None:
    said = finding_lines(read_flow(f"inputs: {inputs}\n{TOP}{STEP}", "flows/demo.yaml").findings)
    assert [each.split()[:2] for each in said] == [["1", "error"]]


def test_an_input_that_a_chat_takes_for_the_task_is_warned_of() -> None:
    """19: `/dom:apply TEXT` starts with task TEXT; "`input.task` and the rest of `input`"."""
    text = f"{TOP}{STEP}inputs:\n  task: {{type: string, required: true}}\n"
    (said,) = finding_lines(read_flow(text, "flows/demo.yaml").findings)
    assert said == (
        '6 warning task-input: input "task" cannot be given in a chat: '
        'the task of the run is meant there; give it another name, or read "${{task}}"'
    )
