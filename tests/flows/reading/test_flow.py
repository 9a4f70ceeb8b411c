"""The top level of a flow, and the order of what is wrong."""

import pytest

from penstock.core.events.flow_events import ValueType
from penstock.flows.definition import RunInput
from penstock.flows.reading.flow import flow_of, read_flow
from tests.flows.texts import findings_of, read

STEP = "\nsteps: [{id: a, agent: b}]\n"
REST = f"name: x\ndescription: d{STEP}"


def test_the_first_check_of_the_seed() -> None:
    """Seed check 1: "Required fields present (`name`, `description`, `steps`)"."""
    assert findings_of("name: demo\nsteps:\n- id: look\n  agent: scout\n") == [
        (
            '1 error missing-field: missing required field "description"; '
            'add "description:" at the top of the file'
        )
    ]


@pytest.mark.parametrize("field", ["name", "description", "steps"])
def test_each_required_field_is_missed(field: str) -> None:
    lines = {"name": "name: x", "description": "description: d", "steps": STEP}
    del lines[field]
    assert findings_of("\n".join(lines.values())) == [
        (
            f'1 error missing-field: missing required field "{field}"; '
            f'add "{field}:" at the top of the file'
        )
    ]


@pytest.mark.parametrize(
    ("field", "wanted"),
    [
        (
            "max_concurrent: 0",
            'bad-value: "max_concurrent" must be a whole number from 1 to 64, found number 0',
        ),
        (
            "max_concurrent: 65",
            'bad-value: "max_concurrent" must be a whole number from 1 to 64, found number 65',
        ),
        (
            "max_concurrent: two",
            'wrong-type: "max_concurrent" must be a whole number from 1 to 64, found string "two"',
        ),
        (
            "max_concurrent: true",
            'wrong-type: "max_concurrent" must be a whole number from 1 to 64, found boolean true',
        ),
        (
            "task_required: yes",
            'wrong-type: "task_required" must be true or false, found string "yes"',
        ),
        ("task_prompt: 3", 'wrong-type: "task_prompt" must be text, found number 3'),
        (
            "config: [a]",
            (
                'wrong-type: "config" must be a mapping of texts, numbers and booleans, '
                'found array ["a"]'
            ),
        ),
        (
            "config: {a: [b]}",
            'wrong-type: "config.a" must be text, a number or a boolean, found array ["b"]',
        ),
        (
            "inputs: [a]",
            (
                'wrong-type: "inputs" must be a mapping of names to {type, required, '
                'default, description}, found array ["a"]'
            ),
        ),
        (
            "inputs: {a: text}",
            (
                'wrong-type: "inputs.a" must be {type, required, default, description}, '
                'found string "text"'
            ),
        ),
        ("inputs: {a: {}}", 'missing-field: missing required field "type" in inputs.a'),
        (
            "inputs: {a: {type: text}}",
            (
                'bad-value: "inputs.a.type" must be string, number, boolean, object or '
                'array, found string "text"'
            ),
        ),
        (
            "inputs: {a: {type: number, default: x}}",
            'wrong-type: "inputs.a.default" must be a number, found string "x"',
        ),
        (
            "inputs: {a: {type: object, required: 1}}",
            'wrong-type: "inputs.a.required" must be true or false, found number 1',
        ),
        ("inputs: {a-b: {type: string}}", 'bad-input-name: input "a-b" must be an identifier'),
    ],
)
def test_a_field_of_the_flow_that_is_wrong(field: str, wanted: str) -> None:
    assert findings_of(f"{field}\n{REST}") == [f"1 error {wanted}"]


@pytest.mark.parametrize(
    ("field", "wanted"),
    [
        ("auto_end: x", 'no-effect: "auto_end" is accepted and has no effect'),
        ("step: x", 'unknown-field: unknown field "step" in the flow; did you mean "steps"?'),
        (
            "inputs: {a: {type: string, typ: 1}}",
            'unknown-field: unknown field "typ" in inputs.a; did you mean "type"?',
        ),
    ],
)
def test_a_field_of_the_flow_that_is_only_odd(field: str, wanted: str) -> None:
    assert findings_of(f"{field}\n{REST}") == [f"1 warning {wanted}"]
    assert read_flow(f"{field}\n{REST}").flow is not None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("name: 3\ndescription: d", '1 error wrong-type: "name" must be text, found number 3'),
        (
            "name: x\ndescription: ''",
            '2 error bad-value: "description" must be text, found string ""',
        ),
    ],
)
def test_a_required_field_that_is_wrong(text: str, wanted: str) -> None:
    assert findings_of(text + STEP) == [wanted]


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        ("steps: []", 'bad-value: "steps" must be a list of at least one step, found array []'),
        ("steps: {}", 'wrong-type: "steps" must be a list of at least one step, found object {}'),
        ("steps:", 'wrong-type: "steps" must be a list of at least one step, found null'),
        ("steps: [3]", "step-not-mapping: step 1 must be a mapping"),
        (
            f"steps: [{'{id: a}, ' * 1001}]",
            'bad-value: "steps" must be a list of at most 1000 steps, found array of 1001',
        ),
    ],
)
def test_steps_are_a_list_of_one_to_a_thousand(steps: str, wanted: str) -> None:
    assert findings_of(f"name: x\ndescription: d\n{steps}") == [f"3 error {wanted}"]


def test_everything_that_may_stand_there_is_read() -> None:
    text = """
max_concurrent: 64
task_required: "True"
task_prompt: What?
config: {yes: no, 1: 2, on: true}
x-own: [1]
inputs:
  n: {type: number, default: 3, description: how many}
  o: {type: object, required: true}
"""
    read_one = read_flow(text + REST)
    flow = read_one.flow
    assert flow is not None
    assert (flow.name, flow.description, flow.max_concurrent) == ("x", "d", 64)
    assert (flow.needs_task, flow.task_prompt) == (True, "What?")
    assert flow.config == {"yes": "no", "1": 2, "on": True}
    assert flow.inputs == (
        RunInput(name="n", value_type=ValueType.NUMBER, default=3, description="how many"),
        RunInput(name="o", value_type=ValueType.OBJECT, is_required=True),
    )
    assert (read_one.findings, read_one.inputs) == ([], ["n", "o"])


def test_a_flow_with_an_error_is_none_and_one_with_a_warning_is_there() -> None:
    assert read("- {id: a, agent: b, reads: x}").flow is not None
    assert read("- {id: a}").flow is None


def test_a_text_that_runs_again_is_not_read_again() -> None:
    assert flow_of(REST, "f.yaml") is flow_of(f"{REST}", "f.yaml")
    assert flow_of(f"{REST}\nmax_concurrent: 2", "f.yaml") != flow_of(REST, "f.yaml")
    assert flow_of("name: x", "f.yaml") is None
