"""The text of a flow: documents, top-level fields, run inputs, the order of findings."""

import pytest

from penstock.agents.agent_folders import MAX_BYTES
from penstock.core.events.flow_events import ValueType
from penstock.flows.definition import RunInput
from penstock.flows.parsing import flow_of, parse_flow, read_flow
from tests.flows.texts import TOP, finding_lines, findings_of, read

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
def test_each_missing_required_field_is_reported(field: str) -> None:
    lines = {"name": "name: x", "description": "description: d", "steps": STEP}
    del lines[field]
    assert findings_of("\n".join(lines.values())) == [
        (
            f'1 error missing-field: missing required field "{field}"; '
            f'add "{field}:" at the top of the file'
        )
    ]


@pytest.mark.parametrize(
    ("field", "expected"),
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
def test_an_invalid_field_of_a_flow_is_an_error(field: str, expected: str) -> None:
    assert findings_of(f"{field}\n{REST}") == [f"1 error {expected}"]


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("auto_end: x", 'no-effect: "auto_end" is accepted and has no effect'),
        ("step: x", 'unknown-field: unknown field "step" in the flow; did you mean "steps"?'),
        (
            "inputs: {a: {type: string, typ: 1}}",
            'unknown-field: unknown field "typ" in inputs.a; did you mean "type"?',
        ),
    ],
)
def test_an_odd_field_of_a_flow_is_a_warning(field: str, expected: str) -> None:
    assert findings_of(f"{field}\n{REST}") == [f"1 warning {expected}"]
    assert read_flow(f"{field}\n{REST}").flow is not None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: 3\ndescription: d", '1 error wrong-type: "name" must be text, found number 3'),
        (
            "name: x\ndescription: ''",
            '2 error bad-value: "description" must be text, found string ""',
        ),
    ],
)
def test_an_invalid_required_field_is_reported_once(text: str, expected: str) -> None:
    assert findings_of(text + STEP) == [expected]


@pytest.mark.parametrize(
    ("steps", "expected"),
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
def test_steps_are_a_list_of_one_to_a_thousand(steps: str, expected: str) -> None:
    assert findings_of(f"name: x\ndescription: d\n{steps}") == [f"3 error {expected}"]


def test_every_field_of_a_flow_is_parsed() -> None:
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


def test_a_flow_with_an_error_is_none_and_one_with_a_warning_is_parsed() -> None:
    assert read("- {id: a, agent: b, reads: x}").flow is not None
    assert read("- {id: a}").flow is None


def test_a_text_that_runs_again_is_not_parsed_again() -> None:
    assert flow_of(REST, "f.yaml") is flow_of(f"{REST}", "f.yaml")
    assert flow_of(f"{REST}\nmax_concurrent: 2", "f.yaml") != flow_of(REST, "f.yaml")
    assert flow_of("name: x", "f.yaml") is None


BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"
ALIAS = "anchors, aliases, merge keys and tags are not allowed in a manifest"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["1 error yaml-not-mapping: a manifest must be a mapping, found null"]),
        ("- 3", ["1 error yaml-not-mapping: a manifest must be a mapping, found array [3]"]),
        ("\n\nx", ['3 error yaml-not-mapping: a manifest must be a mapping, found string "x"']),
        (
            "---\n- 3\n---\na: 1",
            ["2 error yaml-not-mapping: a manifest must be a mapping, found array [3]"],
        ),
        (b"a: \xff", ["1 error file-encoding: not UTF-8 at byte 3"]),
        ("ä\ud800", ["1 error file-encoding: not UTF-8 at byte 2"]),
        (
            b"\0\1\2",
            [
                (
                    "1 error yaml-syntax: not valid YAML: unacceptable character #x0000: "
                    "control characters are not allowed"
                )
            ],
        ),
        ("a: [", ["1 error yaml-syntax: not valid YAML: did not find expected node content"]),
        (
            "x" * 10_000_000,
            ["1 error file-too-large: the flow has 10000000 bytes; the limit is 1048576"],
        ),
        (
            "ä" * 600_000,
            ["1 error file-too-large: the flow has 1200000 bytes; the limit is 1048576"],
        ),
        (
            "```yaml\na: 1\n```",
            [
                (
                    "1 error yaml-syntax: not valid YAML: the file begins with a "
                    "Markdown fence; remove the Markdown fence"
                )
            ],
        ),
        (BOMB, [f"1 error yaml-alias: {ALIAS}"]),
        ("a: 1\n<<: {b: 1}", [f"2 error yaml-alias: {ALIAS}"]),
        ("a: !!binary 1", [f"1 error yaml-alias: {ALIAS}"]),
        (
            "---\na: 1\n---\nb: 1\n---\nc: 1",
            ["5 error yaml-many-documents: a flow has at most two documents; found 3"],
        ),
        (
            "a: 1\n---\nb: 1",
            ["2 error yaml-many-documents: one manifest per file; found 2 documents"],
        ),
    ],
)
def test_a_text_that_is_not_a_flow_is_reported(text: str | bytes, expected: list[str]) -> None:
    assert findings_of(text)[: len(expected)] == expected
    assert read_flow(text).flow is None


@pytest.mark.parametrize(
    "text",
    [
        "{" * 100_000,
        "[" * 100_000,
        "a: " * 1_000,
        "? [a]\n: b",
        "steps: [" + "{id: a, agent: b}, " * 5_000 + "]",
        "steps: {a: b}\nname: [x]\ninputs: 3\nconfig: [1]",
        "\u2028---\n\x85",
        "---\n---",
        "%YAML 9.9\n---\na: 1",
    ],
    ids=range(9),
)
def test_no_text_raises_and_every_invalid_one_has_a_finding(text: str) -> None:
    assert findings_of(text)
    assert len(text) < MAX_BYTES


def test_two_parts_are_merged_with_the_lines_of_the_file() -> None:
    """The two are joined; line numbers are those of the file."""
    text = "\n---\nname: demo\ndescription: d\n---\nstep:\nsteps:\n- {id: a, agent: b}"
    document = parse_flow(text, "f.yaml")
    assert (list(document.value), document.problems) == (
        ["name", "description", "step", "steps"],
        [],
    )
    assert document.keys["name",].line == 3
    assert document.values["steps", 0, "agent"].line == 8
    assert document.values["steps", 0, "agent"].column == 18
    assert len(document.keys) == 6
    assert ("nothing",) not in document.keys


def test_a_key_in_both_parts_is_an_error() -> None:
    """A key in both is an error."""
    assert findings_of("---\nname: a\n---\nname: b\n")[-1] == (
        '4 error yaml-duplicate-key: key "name" appears twice; first at line 2'
    )


@pytest.mark.parametrize(
    "text", ["---\n{}\n---\n", "---\n{}\n", "---\n{}\n---\n\n", "# x\n---\n{}\n---\n"]
)
def test_an_empty_second_part_is_allowed(text: str) -> None:
    """An empty second part is allowed."""
    assert all("missing-field" in each for each in findings_of(text))


def test_a_byte_order_mark_and_windows_line_ends_change_nothing() -> None:
    text = "\ufeff---\r\nname: demo\r\n---\r\nnaem: x\r\n"
    assert '4 warning unknown-field: unknown field "naem" in the flow; did you mean "name"?' in (
        findings_of(text)
    )


ONE_STEP = "- {id: a, agent: b}\n"


@pytest.mark.parametrize(
    ("inputs", "expected"),
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
def test_inputs_of_a_run_have_types(inputs: str, expected: tuple[RunInput, ...]) -> None:
    flow = read_flow(f"inputs: {inputs}\n{TOP}{ONE_STEP}", "flows/demo.yaml").flow
    assert flow is not None
    assert flow.inputs == expected


@pytest.mark.parametrize("inputs", ["3", "[a]", "{a: 1}", "{a: {}}", "{1: {type: string}}"])
def test_invalid_inputs_of_a_run_are_reported(inputs: str) -> None:
    message = finding_lines(
        read_flow(f"inputs: {inputs}\n{TOP}{ONE_STEP}", "flows/demo.yaml").findings
    )
    assert [each.split()[:2] for each in message] == [["1", "error"]]


def test_an_input_called_task_gets_a_warning() -> None:
    """19: `/dom:apply TEXT` starts with task TEXT; "`input.task` and the rest of `input`"."""
    text = f"{TOP}{ONE_STEP}inputs:\n  task: {{type: string, required: true}}\n"
    (message,) = finding_lines(read_flow(text, "flows/demo.yaml").findings)
    assert message == (
        '6 warning task-input: input "task" cannot be set in a chat, '
        'where it means the task of the run; give it another name, or read "${{task}}"'
    )
